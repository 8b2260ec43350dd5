//! Manifold Parzen windows against their definition, computed another way: geodesics of the library
//! in ambient coordinates, matrices by nalgebra, every kernel of every centre.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};

use crate::common::mean_se;
use manifusion::check::sample_points;
use manifusion::density::Density;
use manifusion::fit::fit;
use manifusion::linalg::log_sum_exp;
use manifusion::manifold::{Geodesics, Manifold, parse};
use manifusion::mass::total_mass;
use manifusion::mixture::{KernelMixture, MixtureOptions, ParzenMixture, ParzenOptions};
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::points::Points;
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};

/// Pseudo-observations of a round neighbourhood.
const ROUND: f64 = 0.03;

fn mixture(spec: &str, x: &[f64]) -> Arc<KernelMixture> {
    let manifold = parse(spec).unwrap();
    let prior = default_prior(&manifold).unwrap();
    let rows = Rows::new(x, manifold.ambient_dim()).unwrap();
    let options = MixtureOptions::default();
    let common = KernelMixture::fit(manifold, prior, rows, &options).unwrap();
    Arc::new(common.localised(&options).unwrap())
}

fn windows(spec: &str, x: &[f64], floor: f64) -> ParzenMixture {
    let options = ParzenOptions { floor, judges: 100_000, seed: 0 };
    ParzenMixture::fit(mixture(spec, x), &options).unwrap()
}

/// Points along a curve that winds through a torus of three angles, with a little noise: round
/// kernels waste two of three dimensions.
fn curve(n: usize, seed: u64) -> Vec<f64> {
    let streams = Streams::new(seed, "curve");
    let point = |i: usize| {
        let mut stream = streams.stream(i as u64, 0);
        let t = std::f64::consts::TAU * stream.uniform();
        let angles = [t, 2.0 * t, (2.0 * t).sin()];
        angles.map(|angle| angle + 0.02 * stream.normal())
    };
    (0..n).flat_map(point).flat_map(|angle| [angle.cos(), angle.sin()]).collect()
}

/// Points along a short piece of a geodesic, so near each other that no kernel is limited by the
/// size of the space.
fn streak(manifold: &Arc<dyn Manifold>, n: usize) -> Vec<f64> {
    let prior = default_prior(manifold).unwrap();
    let ends = sample_points(manifold.as_ref(), 2, &Streams::new(1, "ends")).unwrap();
    let (m, geodesics) = (manifold.ambient_dim(), Geodesics::new(manifold.as_ref()).unwrap());
    let streams = Streams::new(2, "along");
    let (mut starts, mut velocity) = (vec![0.0; n * m], vec![0.0; m]);
    for (i, x) in starts.chunks_exact_mut(m).enumerate() {
        let t = 0.15 * streams.stream(i as u64, 0).uniform();
        geodesics.between(&ends[..m], &ends[m..], t, x, &mut velocity);
    }
    let path = NoisingPath::new(Arc::clone(manifold), prior, PathChoice::Exact).unwrap();
    let mut x = starts.clone();
    let (from, to) = (Rows::new(&starts, m).unwrap(), RowsMut::new(&mut x, m).unwrap());
    path.sample(from, &vec![2e-4; n], &Streams::new(3, "across"), 0, to).unwrap();
    x
}

/// log_x y in ambient coordinates, and the logarithm of the Jacobian of exp_x there.
fn log_map(manifold: &dyn Manifold, x: &[f64], y: &[f64]) -> (DVector<f64>, f64) {
    let geodesics = Geodesics::new(manifold).unwrap();
    let (mut start, mut v) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    geodesics.between(x, y, 0.0, &mut start, &mut v);
    let v = DVector::from_vec(v);
    let sinc = |r: f64| if r > 0.0 { r.sin() / r } else { 1.0 };
    let log_jacobian = match manifold.name().as_str() {
        "sphere:2" => sinc(v.norm()).ln(),
        // Half of the rotation's angle, which is the Frobenius length over √2.
        "so:3" => 2.0 * sinc(v.norm() / 8f64.sqrt()).ln(),
        _ => 0.0,
    };
    (v, log_jacobian)
}

/// log N(v; 0, h²·moments + ε²) on the tangent space, whose dimension is d: the other eigenvalues
/// are those of normal directions.
fn log_normal(moments: &DMatrix<f64>, d: usize, scale2: f64, floor: f64, v: &DVector<f64>) -> f64 {
    let eigen = moments.clone().symmetric_eigen();
    let mut order: Vec<usize> = (0..moments.nrows()).collect();
    order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
    let mut log = -0.5 * d as f64 * std::f64::consts::TAU.ln();
    for at in &order[..d] {
        let variance = scale2 * eigen.eigenvalues[*at] + floor * floor;
        let along = eigen.eigenvectors.column(*at).dot(v);
        log -= 0.5 * (along * along / variance + variance.ln());
    }
    log
}

struct Definition<'a> {
    manifold: Arc<dyn Manifold>,
    centres: Rows<'a>,
    windows: &'a ParzenMixture,
}

impl Definition<'_> {
    /// The nearest rows to a centre, from near to far.
    fn neighbours(&self, centre: usize, count: usize) -> Vec<usize> {
        let apart = |j: usize| -> f64 {
            let pairs = self.centres.row(centre).iter().zip(self.centres.row(j));
            pairs.map(|(a, b)| (a - b).powi(2)).sum()
        };
        let mut others: Vec<usize> = (0..self.centres.len()).filter(|j| *j != centre).collect();
        others.sort_by(|a, b| apart(*a).total_cmp(&apart(*b)));
        others.truncate(count);
        others
    }

    /// The kernel of a centre at y, which is the centre `own` where that is left out.
    fn kernel(&self, centre: usize, count: usize, h: f64, y: &[f64], own: Option<usize>) -> f64 {
        let (moments, _) = self.moments(centre, count, own);
        let (v, log_jacobian) = log_map(self.manifold.as_ref(), self.centres.row(centre), y);
        let d = self.manifold.dim();
        log_normal(&moments, d, h * h, self.windows.floor(), &v) - log_jacobian
    }

    /// Second moments of a centre's neighbours, without the centre `own`, and the tangent
    /// projection there.
    fn moments(
        &self,
        centre: usize,
        count: usize,
        own: Option<usize>,
    ) -> (DMatrix<f64>, DMatrix<f64>) {
        let (m, d) = (self.centres.width(), self.manifold.dim());
        let near = self.neighbours(centre, count);
        let x = self.centres.row(centre);
        let mut sum = DMatrix::zeros(m, m);
        for j in &near {
            let (v, _) = log_map(self.manifold.as_ref(), x, self.centres.row(*j));
            sum += &v * v.transpose();
        }
        // The round part is of the size of all neighbours, also where one is left out.
        let round = ROUND * sum.trace() / (d * count) as f64;
        let mut left = count as f64 + ROUND;
        if let Some(own) = own.filter(|own| near.contains(own)) {
            let (v, _) = log_map(self.manifold.as_ref(), x, self.centres.row(own));
            sum -= &v * v.transpose();
            left -= 1.0;
        }
        let mut tangent = DMatrix::identity(m, m);
        for column in 0..m {
            self.manifold.project_tangent(x, tangent.column_mut(column).as_mut_slice());
        }
        ((sum + &tangent * round) / left, tangent)
    }

    /// log p(y); at the centre `own` without its own kernel.
    fn log_density(&self, y: &[f64], round: f64, own: Option<usize>) -> f64 {
        let mut terms = vec![self.windows.round_weight().ln() + round];
        let centres: Vec<usize> =
            (0..self.centres.len()).filter(|centre| Some(*centre) != own).collect();
        for (count, h, weight) in self.windows.components() {
            let log_weight = (weight / centres.len() as f64).ln();
            let kernel = |centre: &usize| log_weight + self.kernel(*centre, count, h, y, own);
            terms.extend(centres.iter().map(kernel));
        }
        log_sum_exp(&terms)
    }
}

#[test]
fn windows_are_what_they_are_defined_as() {
    for spec in ["sphere:2", "torus:2", "so:3"] {
        let manifold = parse(spec).unwrap();
        let (m, points) = (manifold.ambient_dim(), streak(&manifold, 120));
        let (train, new) = points.split_at(90 * m);
        let windows = windows(spec, train, 0.003);
        // Something is to be compared.
        assert!(windows.components().count() > 0 && windows.round_weight() < 0.9, "{spec}");
        let centres = Rows::new(train, m).unwrap();
        let definition = Definition { manifold, centres, windows: &windows };
        let new = Rows::new(new, m).unwrap();
        let (found, round) =
            (windows.log_density(new).unwrap(), windows.round().log_density(new).unwrap());
        for (i, y) in new.rows().enumerate() {
            let expected = definition.log_density(y, round[i], None);
            // Kernels are cut where they are below e^{−20} of their peak.
            assert!((found[i] - expected).abs() < 1e-6, "{spec} {i}: {} {expected}", found[i]);
        }
        let all: Vec<usize> = (0..90).collect();
        let round = windows.round().leave_one_out(&all).unwrap();
        let left_out = |i: &usize| definition.log_density(centres.row(*i), round[*i], Some(*i));
        let expected = -all.iter().map(left_out).sum::<f64>() / 90.0;
        let found = windows.leave_one_out_nll();
        assert!((found - expected).abs() < 1e-6, "{spec}: leave-one-out {found} {expected}");
    }
}

/// Points that are moved have the share of their windows' covariances that is asked for.
#[test]
fn points_are_moved_along_their_windows() {
    const DRAWS: usize = 20_000;
    for spec in ["sphere:2", "torus:2", "so:3"] {
        let manifold = parse(spec).unwrap();
        let (m, points) = (manifold.ambient_dim(), streak(&manifold, 90));
        let windows = windows(spec, &points, 0.003);
        let (centres, share) = (Rows::new(&points, m).unwrap(), 0.25);
        let definition = Definition { manifold: Arc::clone(&manifold), centres, windows: &windows };
        for centre in [3, 60] {
            let mut expected = DMatrix::zeros(m, m);
            for (count, h, weight) in windows.components() {
                let (moments, tangent) = definition.moments(centre, count, None);
                let floor2 = windows.floor().powi(2);
                expected += (moments * (h * h) + tangent * floor2) * (weight * share);
            }
            let streams = Streams::new(5, "stretch");
            let (mut sum, mut moved) = (DMatrix::zeros(m, m), 0);
            for i in 0..DRAWS {
                let mut x = centres.row(centre).to_vec();
                if windows.stretch(centre, share, &mut streams.stream(i as u64, 0), &mut x) {
                    let (v, _) = log_map(manifold.as_ref(), centres.row(centre), &x);
                    sum += &v * v.transpose() / DRAWS as f64;
                    moved += 1;
                } else {
                    assert_eq!(x, centres.row(centre));
                }
            }
            let rest = 1.0 - windows.round_weight();
            let found = f64::from(moved) / DRAWS as f64;
            assert!((found - rest).abs() < 4.0 * (0.25 / DRAWS as f64).sqrt(), "{found} {rest}");
            // Squares of normals have standard deviation √2 of their mean.
            let apart = (&sum - &expected).norm();
            assert!(apart < 0.05 * expected.norm(), "{spec}: {apart} of {}", expected.norm());
        }
    }
}

#[test]
fn windows_have_mass_one_and_sample_themselves() {
    for (spec, set) in
        [("sphere:2", "sphere-mixture"), ("torus:2", "torus-mixture"), ("so:3", "so3-mixture")]
    {
        let points = Points::synthetic(set, 300, 1).unwrap();
        let windows = windows(spec, points.coordinates(), 1e-3);
        let prior = default_prior(points.manifold()).unwrap();
        let wide = windows.widened(1.5).unwrap();
        let mass = total_mass(&windows, Some(&wide), prior.as_ref(), 20_000, 1).unwrap();
        assert!((mass.value - 1.0).abs() < 4.0 * mass.se + 1e-3, "{spec}: {mass:?}");
        assert!(mass.se < 0.03, "{spec}: {mass:?}");
        // E_p[q/p] = 1 for a density q that p has a share of, with draws of p.
        let drawn = windows.sample(20_000, 2).unwrap();
        let x = Rows::new(&drawn, points.manifold().ambient_dim()).unwrap();
        let log_p = windows.log_density(x).unwrap();
        let log_q = windows.round().log_density(x).unwrap();
        let (mean, se) = mean_se(log_q.iter().zip(&log_p).map(|(q, p)| (q - p).exp()));
        assert!((mean - 1.0).abs() < 4.0 * se && se < 0.05, "{spec}: {mean} ± {se}");
        // Rows of a seed do not depend on which of them are asked for.
        let m = points.manifold().ambient_dim();
        assert_eq!(windows.sample_from(50, 20, 2).unwrap(), drawn[50 * m..70 * m]);
    }
}

#[test]
fn stretched_data_want_stretched_kernels() {
    let (train, new) = (curve(800, 1), curve(800, 2));
    let windows = windows("torus:3", &train, 1e-3);
    let new = Rows::new(&new, 6).unwrap();
    let nll = |density: &dyn Density| -> f64 {
        -density.log_density(new).unwrap().iter().sum::<f64>() / new.len() as f64
    };
    let (stretched, round) = (nll(&windows), nll(windows.round()));
    assert!(stretched < round - 0.3, "{stretched} {round}");
}

/// A change to an array.
type Change<'a> = &'a dyn Fn(&mut Vec<f64>);

#[test]
fn windows_are_kept_bit_by_bit_and_damaged_ones_refused() {
    let points = Points::synthetic("torus-mixture", 60, 1).unwrap();
    let windows = windows("torus:2", points.coordinates(), 1e-3);
    let manifold = Arc::clone(points.manifold());
    let prior = default_prior(&manifold).unwrap();
    let tensors = windows.to_tensors();
    let open = |tensors: &std::collections::BTreeMap<String, Vec<f64>>| {
        ParzenMixture::from_tensors(Arc::clone(&manifold), Arc::clone(&prior), tensors)
    };
    let again = open(&tensors).unwrap();
    let x = points.rows();
    assert_eq!(windows.log_density(x).unwrap(), again.log_density(x).unwrap());
    assert_eq!(windows.sample(30, 4).unwrap(), again.sample(30, 4).unwrap());
    let damaged = |name: &str, change: Change<'_>| {
        let mut tensors = tensors.clone();
        change(tensors.get_mut(name).unwrap());
        open(&tensors).unwrap_err().to_string()
    };
    let cases: [(&str, Change<'_>, &str); 5] = [
        ("axes", &|a| a.truncate(3), "the array 'axes' has 3 numbers instead of"),
        ("squares", &|a| a[0] = -1.0, "squares has -1; none may be negative"),
        ("weights", &|a| a[0] += 0.5, "instead of 1"),
        ("floor", &|a| a[0] = f64::NAN, "floor[0] is NaN"),
        ("component_shapes", &|a| a[0] = 99.0, "a component has a shape that is not there"),
    ];
    for (name, change, sentence) in cases {
        let found = damaged(name, change);
        assert!(found.contains(sentence), "{name}: {found}");
    }
    let mut tensors = windows.to_tensors();
    tensors.remove("axes");
    assert!(open(&tensors).unwrap_err().to_string().contains("the array 'axes' is missing"));
}

/// Repeated points have neighbours at no distance: the floor is what is left, in closed form.
#[test]
fn repeated_points_are_as_wide_as_the_floor() {
    let place = [0.6, 0.0, 0.8].repeat(12);
    // Narrower than the finest round kernel, so that the windows have most of the weight.
    let windows = windows("sphere:2", &place, 1e-4);
    assert!(windows.round_weight() < 0.5);
    let here = Rows::new(&place[..3], 3).unwrap();
    let round = windows.round().log_density(here).unwrap()[0];
    let normal = 1.0 / (std::f64::consts::TAU * 1e-8);
    let w0 = windows.round_weight();
    let expected = (w0 * round.exp() + (1.0 - w0) * normal).ln();
    let found = windows.log_density(here).unwrap()[0];
    assert!((found - expected).abs() < 1e-9, "{found} {expected}");
}

/// The widest windows that there can be have mass one in any dimension: by quadrature in the angle
/// from the place that all of them are around.
#[test]
fn the_widest_windows_have_mass_one() {
    use std::f64::consts::PI;
    for d in [2usize, 3, 10, 30] {
        let mut place = vec![0.0; d + 1];
        place[0] = 1.0;
        let spec = format!("sphere:{d}");
        let wide = windows(&spec, &place.repeat(12), 1e-5).widened(1e6).unwrap();
        assert!(wide.round_weight() < 0.5, "{spec}");
        let nodes = 4000;
        let angles: Vec<f64> = (0..nodes).map(|i| PI * (i as f64 + 0.5) / nodes as f64).collect();
        let at = |angle: &f64| {
            let mut x = vec![0.0; d + 1];
            (x[0], x[1]) = (angle.cos(), angle.sin());
            x
        };
        let points: Vec<f64> = angles.iter().flat_map(at).collect();
        let rows = Rows::new(&points, d + 1).unwrap();
        let (all, round) =
            (wide.log_density(rows).unwrap(), wide.round().log_density(rows).unwrap());
        // Volumes of S^{d−1}, by V_{n+2} = V_n·2π/n from those of S⁰ and S¹.
        let mut volume = if d % 2 == 1 { 2.0 } else { 2.0 * PI };
        for n in (if d % 2 == 1 { 1..d } else { 2..d }).step_by(2) {
            volume *= 2.0 * PI / n as f64;
        }
        // What is not the round kernels', whose mass is one.
        let w0 = wide.round_weight();
        let mass: f64 = (0..nodes)
            .map(|i| (all[i].exp() - w0 * round[i].exp()) * angles[i].sin().powi(d as i32 - 1))
            .sum::<f64>()
            * volume
            * PI
            / nodes as f64;
        // 1e-8 is lost; the quadrature sees the kernel end where its density is e^{−19} of the
        // peak's.
        assert!((mass / (1.0 - w0) - 1.0).abs() < 1e-6, "{spec}: {mass} of {}", 1.0 - w0);
        // Nothing of it next to the antipode.
        let mut antipode = place.clone();
        antipode[0] = -1.0;
        let there = Rows::new(&antipode, d + 1).unwrap();
        let excess = wide.log_density(there).unwrap()[0]
            - (w0 * wide.round().log_density(there).unwrap()[0].exp()).ln();
        assert!(excess.abs() < 1e-9, "{spec}: {excess}");
    }
}

#[test]
fn windows_that_would_not_have_mass_one_are_refused() {
    let place = [0.6, 0.0, 0.8].repeat(12);
    let options = ParzenOptions { floor: 3.0, judges: 10, seed: 0 };
    let found = ParzenMixture::fit(mixture("sphere:2", &place), &options).unwrap_err().to_string();
    assert!(found.contains("least standard deviation") && found.contains('3'), "{found}");
    // What is chosen for data without detail is narrower.
    let manifold = parse("so:3").unwrap();
    let flat = sample_points(manifold.as_ref(), 200, &Streams::new(1, "flat")).unwrap();
    let windows = fit(&Points::new("so:3", flat).unwrap(), "parzen").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let wide = windows.mass_proposal().unwrap().unwrap();
    let mass =
        total_mass(windows.as_ref(), Some(wide.as_ref()), prior.as_ref(), 20_000, 1).unwrap();
    assert!((mass.value - 1.0).abs() < 4.0 * mass.se + 1e-6 && mass.se < 0.01, "{mass:?}");
}
