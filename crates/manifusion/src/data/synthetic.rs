//! Generated data sets whose log-density is known, so that a model can be compared with it.
//!
//! The hyperbolic sets are those of the paper (Bose et al. 2020, Lou et al. 2020), and `so3-modes`
//! is its multimodal density (Brofos et al. 2021). The others are mixtures of von Mises–Fisher,
//! wrapped normal and heat-kernel distributions, a checkerboard on the sphere and two moons.

use std::f64::consts::{PI, TAU};
use std::sync::Arc;

use crate::error::{PointError, SpecError};
use crate::heat_kernel::{rotation_kernel, wrapped_normal};
use crate::linalg::{dot, log_sum_exp, norm, rotation_matrix, scale, times};
use crate::manifold::{Family, Hyperboloid, Lorentz, Manifold, Metric, parse};
use crate::rng::{Stream, Streams};

/// Names that [`Synthetic::new`] understands.
pub const SYNTHETIC_NAMES: [&str; 12] = [
    "sphere-mixture",
    "sphere-multiscale",
    "sphere-checkerboard",
    "torus-mixture",
    "torus7-mixture",
    "so3-modes",
    "so3-mixture",
    "hyperbolic-wrapped",
    "hyperbolic-gaussians",
    "hyperbolic-checkerboard",
    "hyperbolic-mixture",
    "plane-moons",
];

/// A distribution on a manifold that can be sampled, with its log-density.
#[derive(Clone, Debug)]
pub struct Synthetic {
    name: &'static str,
    manifold: Arc<dyn Manifold>,
    generator: Generator,
}

#[derive(Clone, Debug)]
enum Generator {
    /// Equal weights of von Mises–Fisher distributions: (mean, κ).
    VonMisesFisher(Vec<([f64; 3], f64)>),
    /// The same over a uniform background of [`BACKGROUND`].
    Multiscale(Vec<([f64; 3], f64)>),
    /// 4 × 8 cells, equal in area, every other one filled.
    SphereCheckerboard,
    /// Equal weights of wrapped normals: (angles, standard deviations).
    WrappedNormals(Vec<(Vec<f64>, Vec<f64>)>),
    /// Equal weights of matrix-Fisher distributions exp(κ tr MᵀX): (M, κ).
    MatrixFisher(Vec<[f64; 9]>, f64, AngleTable),
    /// Equal weights of heat kernels on SO(3): (centre, time, angles).
    RotationKernels(Vec<([f64; 9], f64, AngleTable)>),
    /// Equal weights of wrapped normals of g_L: (mean, standard deviations).
    Hyperbolic(Lorentz, Vec<(Vec<f64>, [f64; 2])>),
    /// exp₀ of a distribution on the tangent plane of the origin.
    HyperbolicPlane(Lorentz, Plane),
    /// Two half-circles of Gaussian points in ℝ².
    Moons,
}

#[derive(Clone, Copy, Debug)]
enum Plane {
    Gaussians,
    Checkerboard,
}

/// Lower corners of the paper's checkerboard, in units of its squares of side 1.5.
const SQUARES: [[f64; 2]; 8] = [
    [0.0, 0.0],
    [0.0, -2.0],
    [1.0, 1.0],
    [1.0, -1.0],
    [-1.0, 1.0],
    [-1.0, -1.0],
    [-2.0, 0.0],
    [-2.0, -2.0],
];
const SIDE: f64 = 1.5;
const CENTRES: [[f64; 2]; 5] = [[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0], [0.0, -3.0], [0.0, 0.0]];
const CENTRE_STD: f64 = 0.5;
/// Points per moon of the density's sum, and their spread.
const MOON_POINTS: usize = 64;
const MOON_STD: f64 = 0.15;

impl Synthetic {
    /// The set of this name.
    pub fn new(name: &str) -> Result<Self, SpecError> {
        let Some(name) = SYNTHETIC_NAMES.into_iter().find(|known| *known == name) else {
            let allowed = "sphere-mixture, sphere-multiscale, sphere-checkerboard, torus-mixture, torus7-mixture, so3-modes, so3-mixture, \
                 hyperbolic-wrapped, hyperbolic-gaussians, hyperbolic-checkerboard, hyperbolic-mixture, plane-moons";
            return Err(SpecError::UnknownData { name: name.to_string(), allowed });
        };
        let (spec, generator) = match name {
            "sphere-mixture" => ("sphere:2", sphere_mixture()),
            "sphere-multiscale" => ("sphere:2", multiscale()),
            "sphere-checkerboard" => ("sphere:2", Generator::SphereCheckerboard),
            "torus-mixture" => ("torus:2", torus_mixture(2, 5)),
            "torus7-mixture" => ("torus:7", torus_mixture(7, 8)),
            "so3-modes" => (
                "so:3",
                Generator::MatrixFisher(brofos_modes(), 4.0, AngleTable::matrix_fisher(4.0)),
            ),
            "so3-mixture" => ("so:3", rotation_mixture()),
            "plane-moons" => ("euclidean:2", Generator::Moons),
            _ => ("hyperbolic:2,metric=lorentz", hyperbolic_generator(name)?),
        };
        Ok(Self { name, manifold: parse(spec)?, generator })
    }

    /// The same distribution on a manifold that has the same points: the hyperbolic sets with
    /// either metric. An error for any other one.
    pub fn on(mut self, manifold: &Arc<dyn Manifold>) -> Result<Self, SpecError> {
        if manifold.name() == self.manifold.name() {
            return Ok(self);
        }
        if let (
            Generator::Hyperbolic(space, _) | Generator::HyperbolicPlane(space, _),
            Family::Hyperboloid { metric, .. },
        ) = (&mut self.generator, manifold.family())
        {
            let points = space.points().with_metric(metric);
            if points.name() == manifold.name() {
                *space = Lorentz::on(points);
                self.manifold = Arc::new(points);
                return Ok(self);
            }
        }
        let own = self.manifold.name();
        Err(SpecError::DataLiesOn { name: self.name, own, found: manifold.name() })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The manifold it lives on.
    pub fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    /// `n` draws, row by row.
    pub fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, PointError> {
        let m = self.manifold.ambient_dim();
        let streams = Streams::new(seed, "synthetic");
        let mut rows = vec![0.0; n * m];
        for (i, x) in rows.chunks_exact_mut(m).enumerate() {
            self.draw(&mut streams.stream(i as u64, 0), x);
            self.manifold.project_point(x)?;
        }
        Ok(rows)
    }

    fn draw(&self, stream: &mut Stream, x: &mut [f64]) {
        match &self.generator {
            Generator::VonMisesFisher(parts) => {
                let (mean, kappa) = pick(parts, stream);
                von_mises_fisher(mean, *kappa, stream, x);
            }
            Generator::Multiscale(parts) => {
                if stream.uniform() < BACKGROUND {
                    x.fill_with(|| stream.normal());
                    scale(1.0 / norm(x), x);
                } else {
                    let (mean, kappa) = pick(parts, stream);
                    von_mises_fisher(mean, *kappa, stream, x);
                }
            }
            Generator::SphereCheckerboard => {
                let cell = (stream.uniform() * 16.0).min(15.0).floor() as usize;
                let (row, column) = (cell / 4, 2 * (cell % 4) + cell / 4 % 2);
                let z = -1.0 + 0.5 * (row as f64 + stream.uniform());
                let longitude = TAU * (column as f64 + stream.uniform()) / 8.0 - PI;
                let r = (1.0 - z * z).max(0.0).sqrt();
                x.copy_from_slice(&[r * longitude.cos(), r * longitude.sin(), z]);
            }
            Generator::WrappedNormals(parts) => {
                let (mean, std) = pick(parts, stream);
                for (j, circle) in x.chunks_exact_mut(2).enumerate() {
                    let (sin, cos) = (mean[j] + std[j] * stream.normal()).sin_cos();
                    circle.copy_from_slice(&[cos, sin]);
                }
            }
            Generator::MatrixFisher(modes, _, angles) => {
                let mode = pick(modes, stream);
                let angle = angles.draw(stream);
                times(mode, &random_rotation(angle, stream), 3, 3, x);
            }
            Generator::RotationKernels(parts) => {
                let (centre, _, angles) = pick(parts, stream);
                let angle = angles.draw(stream);
                times(centre, &random_rotation(angle, stream), 3, 3, x);
            }
            Generator::Hyperbolic(space, parts) => {
                let (mean, std) = pick(parts, stream);
                space.sample_wrapped_normal(mean, std, stream, x);
            }
            Generator::HyperbolicPlane(space, plane) => {
                let v = match plane {
                    Plane::Gaussians => {
                        let c = pick(&CENTRES, stream);
                        [c[0] + CENTRE_STD * stream.normal(), c[1] + CENTRE_STD * stream.normal()]
                    }
                    Plane::Checkerboard => {
                        let c = pick(&SQUARES, stream);
                        [SIDE * (c[0] + stream.uniform()), SIDE * (c[1] + stream.uniform())]
                    }
                };
                space.exp_origin(&v, x);
            }
            Generator::Moons => {
                let point = (stream.uniform() * 2.0 * MOON_POINTS as f64) as usize;
                let centre = moon_point(point.min(2 * MOON_POINTS - 1));
                for (x, c) in x.iter_mut().zip(centre) {
                    *x = c + MOON_STD * stream.normal();
                }
            }
        }
    }

    /// log p(x) with respect to the manifold's own volume (g_E on the hyperboloid), in nats.
    pub fn log_density(&self, x: &[f64]) -> f64 {
        match &self.generator {
            Generator::VonMisesFisher(parts) => {
                mixture(parts.iter().map(|part| von_mises_fisher_log_density(part, x)))
            }
            Generator::Multiscale(parts) => {
                let clusters =
                    mixture(parts.iter().map(|part| von_mises_fisher_log_density(part, x)));
                let background = BACKGROUND.ln() - (2.0 * TAU).ln();
                log_sum_exp(&[(1.0 - BACKGROUND).ln() + clusters, background])
            }
            Generator::SphereCheckerboard => {
                let row = ((x[2] + 1.0) / 0.5).clamp(0.0, 3.999).floor() as usize;
                let turn = (x[1].atan2(x[0]) + PI) / TAU * 8.0;
                let column = turn.clamp(0.0, 7.999).floor() as usize;
                if (row + column).is_multiple_of(2) { -(TAU).ln() } else { f64::NEG_INFINITY }
            }
            Generator::WrappedNormals(parts) => mixture(parts.iter().map(|(mean, std)| {
                let circles = x.chunks_exact(2).zip(mean.iter().zip(std));
                circles
                    .map(|(c, (mean, std))| {
                        let turn = c[1].atan2(c[0]) - mean;
                        wrapped_normal(std * std, turn.sin().atan2(turn.cos())).log_density
                    })
                    .sum()
            })),
            Generator::MatrixFisher(modes, kappa, _) => {
                // ∫exp(κ tr R) over normalised Haar measure is e^κ(I₀(2κ) − I₁(2κ)).
                let haar = kappa + (bessel_i(0, 2.0 * kappa) - bessel_i(1, 2.0 * kappa)).ln();
                let volume = (16.0 * 2f64.sqrt() * PI * PI).ln();
                mixture(modes.iter().map(|mode| kappa * dot(mode, x) - haar - volume))
            }
            Generator::RotationKernels(parts) => {
                mixture(parts.iter().map(|(centre, s, _)| {
                    rotation_kernel(*s, relative_angle(centre, x)).log_density
                }))
            }
            Generator::Hyperbolic(space, parts) => {
                let lorentz = mixture(
                    parts.iter().map(|(mean, std)| space.wrapped_normal_log_density(mean, std, x)),
                );
                lorentz - space.points().log_lorentz_over_own(x)
            }
            Generator::HyperbolicPlane(space, plane) => {
                let mut v = [0.0; 2];
                space.log_origin(x, &mut v);
                let flat = match plane {
                    Plane::Gaussians => mixture(CENTRES.iter().map(|c| {
                        let square = (v[0] - c[0]).powi(2) + (v[1] - c[1]).powi(2);
                        -0.5 * square / (CENTRE_STD * CENTRE_STD)
                            - (TAU * CENTRE_STD * CENTRE_STD).ln()
                    })),
                    Plane::Checkerboard => {
                        let inside = SQUARES
                            .iter()
                            .any(|c| (0..2).all(|j| (0.0..1.0).contains(&(v[j] / SIDE - c[j]))));
                        if inside { -(8.0 * SIDE * SIDE).ln() } else { f64::NEG_INFINITY }
                    }
                };
                flat - space.log_exp_jacobian(norm(&v)) - space.points().log_lorentz_over_own(x)
            }
            Generator::Moons => {
                let variance = MOON_STD * MOON_STD;
                mixture((0..2 * MOON_POINTS).map(|i| {
                    let c = moon_point(i);
                    let square = (x[0] - c[0]).powi(2) + (x[1] - c[1]).powi(2);
                    -0.5 * square / variance - (TAU * variance).ln()
                }))
            }
        }
    }
}

/// log of the mean of exp: a mixture with equal weights.
fn mixture(parts: impl Iterator<Item = f64>) -> f64 {
    let parts: Vec<f64> = parts.collect();
    log_sum_exp(&parts) - (parts.len() as f64).ln()
}

fn pick<'a, T>(parts: &'a [T], stream: &mut Stream) -> &'a T {
    let at = (stream.uniform() * parts.len() as f64) as usize;
    &parts[at.min(parts.len() - 1)]
}

/// Seven places of different sharpness.
fn sphere_mixture() -> Generator {
    let places = [
        (35.0f64, 139.0f64, 80.0),
        (-33.0, -70.0, 40.0),
        (40.0, 20.0, 20.0),
        (-6.0, 110.0, 150.0),
        (64.0, -20.0, 300.0),
        (0.0, -80.0, 15.0),
        (-40.0, 175.0, 60.0),
    ];
    let parts = places.map(|(lat, lon, kappa)| {
        let ((sin_lat, cos_lat), (sin_lon, cos_lon)) =
            (lat.to_radians().sin_cos(), lon.to_radians().sin_cos());
        ([cos_lat * cos_lon, cos_lat * sin_lon, sin_lat], kappa)
    });
    Generator::VonMisesFisher(parts.to_vec())
}

/// The share of the uniform background of `sphere-multiscale`, and its clusters' radii.
const BACKGROUND: f64 = 0.05;
const RADII: (f64, f64) = (5e-4, 0.3);

/// Forty clusters at random places with log-uniform radii, drawn once from a fixed seed: sharp and
/// broad structure side by side.
fn multiscale() -> Generator {
    let streams = Streams::new(20_220_815, "sphere-multiscale");
    let parts = (0..40).map(|i| {
        let mut stream = streams.stream(i, 0);
        let mut mean = [0.0; 3];
        mean.fill_with(|| stream.normal());
        let length = norm(&mean);
        scale(1.0 / length, &mut mean);
        let radius = RADII.0 * (RADII.1 / RADII.0).powf(stream.uniform());
        (mean, 1.0 / (radius * radius))
    });
    Generator::Multiscale(parts.collect())
}

/// log of κ/(4π sinh κ) e^{κ⟨μ,x⟩}.
fn von_mises_fisher_log_density((mean, kappa): &([f64; 3], f64), x: &[f64]) -> f64 {
    // κ(⟨μ,x⟩ − 1) = −κ|x − μ|²/2, free of cancellation.
    let square: f64 = x.iter().zip(mean).map(|(x, mean)| (x - mean).powi(2)).sum();
    let log_sinh_less_kappa = (-(-2.0 * kappa).exp()).ln_1p() - 2f64.ln();
    kappa.ln() - (2.0 * TAU).ln() - log_sinh_less_kappa - 0.5 * kappa * square
}

/// ⟨μ,x⟩ = 1 + log(ξ + (1−ξ)e^{−2κ})/κ, and a uniform direction around μ.
fn von_mises_fisher(mean: &[f64; 3], kappa: f64, stream: &mut Stream, x: &mut [f64]) {
    let xi = stream.uniform();
    let cos = 1.0 + (xi + (1.0 - xi) * (-2.0 * kappa).exp()).ln() / kappa;
    let sin = (1.0 - cos * cos).max(0.0).sqrt();
    for x in x.iter_mut() {
        *x = stream.normal();
    }
    let along = dot(mean, x);
    crate::linalg::axpy(-along, mean, x);
    let length = norm(x);
    scale(sin / length, x);
    crate::linalg::axpy(cos, mean, x);
}

/// Wrapped normals with centres and spreads drawn once, from a fixed seed.
fn torus_mixture(dim: usize, count: u64) -> Generator {
    let streams = Streams::new(20_220_815, "torus-mixture");
    let parts = (0..count).map(|i| {
        let mut stream = streams.stream(i, dim as u64);
        let mean = (0..dim).map(|_| PI * (2.0 * stream.uniform() - 1.0)).collect();
        let std = (0..dim).map(|_| 0.1 * 5f64.powf(stream.uniform())).collect();
        (mean, std)
    });
    Generator::WrappedNormals(parts.collect())
}

fn brofos_modes() -> Vec<[f64; 9]> {
    [[1.0, 1.0, 1.0], [-1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]]
        .map(|d| [d[0], 0.0, 0.0, 0.0, d[1], 0.0, 0.0, 0.0, d[2]])
        .to_vec()
}

fn rotation_mixture() -> Generator {
    let streams = Streams::new(20_220_815, "so3-mixture");
    let parts = (0..8).map(|i| {
        let mut stream = streams.stream(i, 0);
        // A uniform rotation is a uniform quaternion.
        let mut q = [stream.normal(), stream.normal(), stream.normal(), stream.normal()];
        let length = norm(&q);
        scale(1.0 / length, &mut q);
        let s = 0.02 * 10f64.powf(stream.uniform());
        (rotation_matrix(q), s, AngleTable::heat_kernel(s))
    });
    Generator::RotationKernels(parts.collect())
}

fn hyperbolic_generator(name: &str) -> Result<Generator, SpecError> {
    let space = Lorentz::on(Hyperboloid::new(2, -1.0)?.with_metric(Metric::Lorentz));
    let at = |y: [f64; 2]| {
        let x0 = space.points().height(&y);
        vec![x0, y[0], y[1]]
    };
    Ok(match name {
        "hyperbolic-gaussians" => Generator::HyperbolicPlane(space, Plane::Gaussians),
        "hyperbolic-checkerboard" => Generator::HyperbolicPlane(space, Plane::Checkerboard),
        "hyperbolic-wrapped" => {
            let mut mean = vec![0.0; 3];
            space.exp_origin(&[-1.0, 1.0], &mut mean);
            Generator::Hyperbolic(space, vec![(mean, [0.75, 0.75])])
        }
        _ => {
            let corners = [[1.3, 1.3], [-1.3, -1.3], [1.3, -1.3], [-1.3, 1.3]];
            let part = |y: [f64; 2]| {
                let std = if y[0] * y[1] > 0.0 { [0.3, 1.5] } else { [1.5, 0.3] };
                (at(y), std)
            };
            Generator::Hyperbolic(space, corners.map(part).to_vec())
        }
    })
}

/// A rotation by `angle` about a uniform axis.
fn random_rotation(angle: f64, stream: &mut Stream) -> [f64; 9] {
    let mut axis = [stream.normal(), stream.normal(), stream.normal()];
    let length = norm(&axis);
    scale((0.5 * angle).sin() / length, &mut axis);
    rotation_matrix([(0.5 * angle).cos(), axis[0], axis[1], axis[2]])
}

/// The distribution function of a rotation angle on a grid, for draws by inversion.
#[derive(Clone, Debug)]
struct AngleTable {
    step: f64,
    cumulative: Vec<f64>,
}

impl AngleTable {
    /// From the density of the angle on [0, end], up to a factor.
    fn new(end: f64, density: impl Fn(f64) -> f64) -> Self {
        const GRID: usize = 4000;
        let step = end / GRID as f64;
        let mut total = 0.0;
        let mut cumulative: Vec<f64> = (0..GRID)
            .map(|i| {
                total += density((i as f64 + 0.5) * step);
                total
            })
            .collect();
        scale(1.0 / total, &mut cumulative);
        Self { step, cumulative }
    }

    /// exp(κ tr R) has the angle's density e^{2κ cos ω}(1 − cos ω).
    fn matrix_fisher(kappa: f64) -> Self {
        Self::new(PI, |omega| (2.0 * kappa * (omega.cos() - 1.0)).exp() * (1.0 - omega.cos()))
    }

    /// The heat kernel at time s.
    fn heat_kernel(s: f64) -> Self {
        Self::new((8.0 * s.sqrt()).min(PI), |omega| {
            rotation_kernel(s, omega).log_density.exp() * (1.0 - omega.cos())
        })
    }

    fn draw(&self, stream: &mut Stream) -> f64 {
        let u = stream.uniform();
        let cell = self.cumulative.partition_point(|&c| c < u).min(self.cumulative.len() - 1);
        let below = if cell == 0 { 0.0 } else { self.cumulative[cell - 1] };
        let within = (u - below) / (self.cumulative[cell] - below);
        (cell as f64 + within) * self.step
    }
}

fn relative_angle(x: &[f64; 9], y: &[f64]) -> f64 {
    // |X − Y|² = 8 sin²(ω/2), accurate for near rotations.
    let square: f64 = x.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum();
    2.0 * (square / 8.0).sqrt().min(1.0).asin()
}

fn moon_point(i: usize) -> [f64; 2] {
    let angle = PI * ((i % MOON_POINTS) as f64 + 0.5) / MOON_POINTS as f64;
    if i < MOON_POINTS {
        [angle.cos() - 0.5, angle.sin() - 0.25]
    } else {
        [0.5 - angle.cos(), 0.25 - angle.sin()]
    }
}

/// I_n(z) by its power series, for moderate z.
fn bessel_i(n: u32, z: f64) -> f64 {
    let mut term = (1..=n).fold(1.0, |t, k| t * 0.5 * z / f64::from(k));
    let mut sum = term;
    for k in 1..200u32 {
        term *= 0.25 * z * z / f64::from(k * (k + n));
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    sum
}
