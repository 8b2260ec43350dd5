//! The kernel mixture as a density, against brute force.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::mean_se;
use manifusion::check::sample_points;
use manifusion::data::Synthetic;
use manifusion::density::Density;
use manifusion::heat_kernel::TransitionKernel;
use manifusion::linalg::log_sum_exp;
use manifusion::manifold::{Hyperboloid, Lorentz, Manifold, Metric, parse};
use manifusion::mixture::{KernelMixture, MixtureOptions, nearest_distances};
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::prior::{Prior, default_prior};
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};

/// Clustered points on any manifold with exact noise: a few centres, each noised for several times.
fn clustered(spec: &str, n: usize, seed: u64) -> (Arc<dyn Manifold>, Arc<dyn Prior>, Vec<f64>) {
    let manifold = parse(spec).unwrap();
    let prior = default_prior(&manifold).unwrap();
    let m = manifold.ambient_dim();
    let centres = sample_points(manifold.as_ref(), 5, &Streams::new(seed, "clusters")).unwrap();
    let starts: Vec<f64> =
        (0..n).flat_map(|i| centres[(i % 5) * m..(i % 5 + 1) * m].to_vec()).collect();
    let times: Vec<f64> = (0..n).map(|i| [0.3, 0.05, 0.003][i % 3]).collect();
    let path =
        NoisingPath::new(Arc::clone(&manifold), Arc::clone(&prior), PathChoice::Exact).unwrap();
    let mut x = starts.clone();
    let rows = (Rows::new(&starts, m).unwrap(), RowsMut::new(&mut x, m).unwrap());
    path.sample(rows.0, &times, &Streams::new(seed, "cluster-noise"), 0, rows.1).unwrap();
    (manifold, prior, x)
}

fn fitted(spec: &str, n: usize, seed: u64) -> (Vec<f64>, KernelMixture) {
    let (manifold, prior, x) = clustered(spec, n, seed);
    let rows = Rows::new(&x, manifold.ambient_dim()).unwrap();
    let mixture =
        KernelMixture::fit(Arc::clone(&manifold), prior, rows, &MixtureOptions::default()).unwrap();
    (x, mixture)
}

/// log p_s by the kernel module, centre by centre; on ℝ^d by the Gaussian formula.
fn brute_force(
    mixture: &KernelMixture,
    train: &[f64],
    skip: impl Fn(usize) -> bool,
    y: &[f64],
    s: f64,
) -> f64 {
    let manifold = mixture.manifold();
    let m = manifold.ambient_dim();
    let prior = default_prior(manifold).unwrap();
    let flat = manifold.name().starts_with("euclidean");
    let kernel = TransitionKernel::new(manifold.as_ref(), prior.as_ref()).unwrap();
    let kept: Vec<(usize, &[f64])> =
        train.chunks_exact(m).enumerate().filter(|(i, _)| !skip(*i)).collect();
    let mut terms = vec![mixture.prior_weight().ln() + prior.log_density(y)];
    let bands = mixture.bandwidths().len();
    for (k, (sigma, weight)) in mixture.bandwidths().iter().zip(mixture.weights()).enumerate() {
        for (i, c) in &kept {
            let weight = mixture.local_weights().map_or(*weight, |local| local[i * bands + k]);
            let log_weight = weight.ln() - (kept.len() as f64).ln();
            if flat {
                let variance = sigma * sigma * (-s).exp() + 1.0 - (-s).exp();
                let square: f64 =
                    y.iter().zip(*c).map(|(y, c)| (y - (-0.5 * s).exp() * c).powi(2)).sum();
                let normaliser = m as f64 * (std::f64::consts::TAU * variance).ln();
                terms.push(log_weight - 0.5 * (square / variance + normaliser));
            // Beyond double precision means far below anything else.
            } else if let Ok(log_k) = kernel.log_density(c, y, sigma * sigma + s) {
                terms.push(log_weight + log_k);
            }
        }
    }
    log_sum_exp(&terms)
}

const SPACES: [&str; 7] =
    ["sphere:2", "sphere:3", "torus:2", "torus:4", "so:3", "euclidean:2", "sphere:2*torus:1*so:3"];

/// Points noised from the data for the times that are asked for.
fn noised(mixture: &KernelMixture, train: &[f64], s: &[f64], seed: u64) -> Vec<f64> {
    let manifold = mixture.manifold();
    let m = manifold.ambient_dim();
    let prior = default_prior(manifold).unwrap();
    let path = NoisingPath::new(Arc::clone(manifold), prior, PathChoice::Exact).unwrap();
    let starts: Vec<f64> = train[..s.len() * m].to_vec();
    let mut y = starts.clone();
    let rows = (Rows::new(&starts, m).unwrap(), RowsMut::new(&mut y, m).unwrap());
    path.sample(rows.0, s, &Streams::new(seed, "noised"), 0, rows.1).unwrap();
    y
}

#[test]
fn the_density_is_the_sum_of_kernels() {
    for (spec, local) in SPACES.into_iter().flat_map(|spec| [(spec, false), (spec, true)]) {
        let (train, mut mixture) = fitted(spec, 240, 3);
        if local {
            mixture = mixture.localised(&MixtureOptions::default()).unwrap();
        }
        let m = mixture.manifold().ambient_dim();
        let mut y = noised(&mixture, &train, &[1e-5, 1e-3, 0.03, 0.5, 2.0].repeat(6), 1);
        let uniform = sample_points(mixture.manifold().as_ref(), 10, &Streams::new(2, "far"));
        y.extend(uniform.unwrap());
        let rows = Rows::new(&y, m).unwrap();
        for s in [0.0, 1e-4, 0.02, 0.7] {
            let found = mixture.noised_log_density(rows, s).unwrap();
            for (y, found) in y.chunks_exact(m).zip(found) {
                let expected = brute_force(&mixture, &train, |_| false, y, s);
                let difference = (found - expected).abs();
                assert!(difference < 1e-8, "{spec}, s = {s}: {found}, {expected}, {difference:e}");
            }
        }
    }
}

#[test]
fn the_density_integrates_to_one() {
    // S²: Gauss–Legendre would be overkill for a density of this width; midpoints in (z, longitude)
    // are equal areas.
    let options = MixtureOptions { smallest: Some(0.08), ..MixtureOptions::default() };
    for spec in ["sphere:2", "torus:2"] {
        let (manifold, prior, x) = clustered(spec, 300, 5);
        let m = manifold.ambient_dim();
        let mixture =
            KernelMixture::fit(manifold, prior, Rows::new(&x, m).unwrap(), &options).unwrap();
        let (rows, columns) = (300, 300);
        let mut grid = Vec::new();
        for i in 0..rows {
            for j in 0..columns {
                let u = (f64::from(i) + 0.5) / f64::from(rows);
                let angle = std::f64::consts::TAU * (f64::from(j) + 0.5) / f64::from(columns);
                if spec == "sphere:2" {
                    let z = 2.0 * u - 1.0;
                    let r = (1.0 - z * z).sqrt();
                    grid.extend([r * angle.cos(), r * angle.sin(), z]);
                } else {
                    let other = std::f64::consts::TAU * u;
                    grid.extend([other.cos(), other.sin(), angle.cos(), angle.sin()]);
                }
            }
        }
        let area = mixture.manifold().log_volume().unwrap().exp();
        let log_p = mixture.log_density(Rows::new(&grid, m).unwrap()).unwrap();
        let mass = area * log_p.iter().map(|l| l.exp()).sum::<f64>() / f64::from(rows * columns);
        // Midpoints in z are of second order near the poles; on the torus they are exact for these
        // widths.
        let tolerance = if spec == "sphere:2" { 1e-4 } else { 1e-9 };
        assert!((mass - 1.0).abs() < tolerance, "{spec}: {mass}");
    }
    // SO(3) and ℝ²: importance sampling from a wider law, and the prior.
    for (spec, n) in [("so:3", 20_000), ("euclidean:2", 20_000)] {
        let (manifold, prior, x) = clustered(spec, 200, 5);
        let m = manifold.ambient_dim();
        let wide = MixtureOptions { smallest: Some(0.5), ..MixtureOptions::default() };
        let train = Rows::new(&x, m).unwrap();
        let mixture =
            KernelMixture::fit(Arc::clone(&manifold), Arc::clone(&prior), train, &wide).unwrap();
        let streams = Streams::new(1, "prior-draws");
        let mut draws = vec![0.0; n * m];
        for (i, x) in draws.chunks_exact_mut(m).enumerate() {
            prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
        }
        let log_p = mixture.log_density(Rows::new(&draws, m).unwrap()).unwrap();
        let ratios: Vec<f64> = draws
            .chunks_exact(m)
            .zip(log_p)
            .map(|(x, log_p)| (log_p - prior.log_density(x)).exp())
            .collect();
        let (mass, se) = mean_se(ratios.iter().copied());
        assert!((mass - 1.0).abs() < 4.0 * se && se < 0.05, "{spec}: {mass} ± {se}");
    }
}

#[test]
fn expectation_maximisation_climbs_the_leave_one_out_likelihood() {
    let (train, mixture) = fitted("sphere:2", 400, 7);
    let trace = mixture.objective_trace();
    assert!(trace.len() > 10);
    for pair in trace.windows(2) {
        assert!(pair[1] >= pair[0] - 1e-12, "{pair:?}");
    }
    let total: f64 = mixture.prior_weight() + mixture.weights().iter().sum::<f64>();
    assert!((total - 1.0).abs() < 1e-12);
    // The reported likelihood is that of every point under the others.
    let m = mixture.manifold().ambient_dim();
    let expected: f64 = train
        .chunks_exact(m)
        .enumerate()
        .map(|(i, x)| -brute_force(&mixture, &train, |j| j == i, x, 0.0))
        .sum::<f64>()
        / 400.0;
    // Cells smaller than a twentieth of a bandwidth are merged in the fit.
    assert!((mixture.leave_one_out_nll() - expected).abs() < 1e-3, "{expected}");
}

#[test]
fn tensors_return_the_same_bits() {
    for spec in ["so:3", "hyperbolic:2"] {
        let (train, mixture) = if spec == "so:3" {
            fitted(spec, 100, 2)
        } else {
            let set = Synthetic::new("hyperbolic-mixture").unwrap();
            let x = set.sample(100, 1).unwrap();
            let prior = default_prior(set.manifold()).unwrap();
            let rows = Rows::new(&x, 3).unwrap();
            let options = MixtureOptions::default();
            let fitted = KernelMixture::fit(Arc::clone(set.manifold()), prior, rows, &options);
            (x.clone(), fitted.unwrap())
        };
        let manifold = Arc::clone(mixture.manifold());
        let prior = default_prior(&manifold).unwrap();
        let tensors = mixture.to_tensors();
        let again = KernelMixture::from_tensors(Arc::clone(&manifold), prior, &tensors).unwrap();
        let rows = Rows::new(&train, manifold.ambient_dim()).unwrap();
        let bits = |m: &KernelMixture| -> Vec<u64> {
            m.log_density(rows).unwrap().iter().map(|v| v.to_bits()).collect()
        };
        assert_eq!(bits(&mixture), bits(&again));
        assert_eq!(tensors, again.to_tensors());
        assert_eq!(mixture.sample(20, 3).unwrap(), again.sample(20, 3).unwrap());
        for name in tensors.keys() {
            let mut less = tensors.clone();
            less.remove(name);
            let prior = default_prior(&manifold).unwrap();
            let error = KernelMixture::from_tensors(Arc::clone(&manifold), prior, &less);
            assert!(error.unwrap_err().to_string().contains(name));
        }
    }
}

#[test]
fn draws_follow_the_density() {
    // E over draws of log p and of a coordinate against the density's own integrals by importance
    // sampling from a wider mixture.
    for spec in ["sphere:2", "torus:2", "so:3", "euclidean:2", "hyperbolic:2"] {
        let manifold = parse(spec).unwrap();
        let m = manifold.ambient_dim();
        let prior = default_prior(&manifold).unwrap();
        let train = if spec == "hyperbolic:2" {
            Synthetic::new("hyperbolic-gaussians").unwrap().sample(60, 1).unwrap()
        } else {
            clustered(spec, 60, 1).2
        };
        let rows = Rows::new(&train, m).unwrap();
        let (a, b) = (
            MixtureOptions { smallest: Some(0.3), ..MixtureOptions::default() },
            MixtureOptions { largest: Some(0.6), smallest: Some(0.4), ..MixtureOptions::default() },
        );
        let fit =
            |o| KernelMixture::fit(Arc::clone(&manifold), Arc::clone(&prior), rows, o).unwrap();
        let (first, second) = (fit(&a), fit(&b));
        let n = 20_000;
        let (x, y) = (first.sample(n, 4).unwrap(), second.sample(n, 5).unwrap());
        for x in x.chunks_exact(m) {
            manifold.check_point(x).unwrap();
        }
        let logs = |mixture: &KernelMixture, x: &[f64]| {
            mixture.log_density(Rows::new(x, m).unwrap()).unwrap()
        };
        let statistic =
            |x: &[f64], log_p: f64, k: usize| [log_p.tanh(), x[0].tanh(), x[m - 1].tanh()][k];
        let (own, of_first, of_second) = (logs(&first, &x), logs(&first, &y), logs(&second, &y));
        for k in 0..3 {
            let direct = mean_se(x.chunks_exact(m).zip(&own).map(|(x, l)| statistic(x, *l, k)));
            let weighted = mean_se((0..n).map(|i| {
                let ratio = (of_first[i] - of_second[i]).exp();
                ratio * statistic(&y[i * m..(i + 1) * m], of_first[i], k)
            }));
            let allowed = 4.0 * direct.1.hypot(weighted.1);
            assert!(
                (direct.0 - weighted.0).abs() < allowed && allowed < 0.2,
                "{spec}, {k}: {direct:?} {weighted:?}"
            );
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (train, mixture) = fitted("sphere:2", 300, 19);
            let mixture = mixture.localised(&MixtureOptions::default()).unwrap();
            let rows = Rows::new(&train, 3).unwrap();
            let mut out = mixture.local_weights().unwrap().to_vec();
            out.extend(mixture.log_density(rows).unwrap());
            out.extend(mixture.sample(100, 1).unwrap());
            out.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        })
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn hyperbolic_space_has_wrapped_normals() {
    for metric in [Metric::Euclidean, Metric::Lorentz] {
        check_wrapped_normals(Hyperboloid::new(2, -1.0).unwrap().with_metric(metric));
    }
}

fn check_wrapped_normals(points: Hyperboloid) {
    let manifold: Arc<dyn Manifold> = Arc::new(points);
    let set = Synthetic::new("hyperbolic-gaussians").unwrap().on(&manifold).unwrap();
    let train = set.sample(50, 1).unwrap();
    let prior = default_prior(set.manifold()).unwrap();
    let rows = Rows::new(&train, 3).unwrap();
    let manifold = Arc::clone(set.manifold());
    let options = MixtureOptions::default();
    let mixture = KernelMixture::fit(manifold, Arc::clone(&prior), rows, &options).unwrap();
    let lorentz = Lorentz::new(2, -1.0).unwrap();
    let x = set.sample(10, 2).unwrap();
    let found = mixture.log_density(Rows::new(&x, 3).unwrap()).unwrap();
    for (x, found) in x.chunks_exact(3).zip(found) {
        let mut terms = vec![mixture.prior_weight().ln() + prior.log_density(x)];
        for (sigma, w) in mixture.bandwidths().iter().zip(mixture.weights()) {
            for c in train.chunks_exact(3) {
                let log_l = lorentz.wrapped_normal_log_density(c, &[*sigma; 2], x);
                terms.push((w / 50.0).ln() + log_l - points.log_lorentz_over_own(x));
            }
        }
        assert!((found - log_sum_exp(&terms)).abs() < 1e-9);
    }
    let error = mixture.noised_log_density(rows, 0.1).unwrap_err().to_string();
    assert!(error.contains("not known on hyperbolic:2"), "{error}");
    assert!(error.ends_with("use the mixture without noise"), "{error}");
    let error = mixture.localised(&options).unwrap_err().to_string();
    assert!(error.contains("local weights is not known on hyperbolic:2"), "{error}");
    assert!(error.ends_with("kernels are wrapped normals; keep the common weights"), "{error}");
}

#[test]
fn mistakes_are_named() {
    let fit = |spec: &str, x: &[f64]| {
        let manifold = parse(spec).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let m = manifold.ambient_dim();
        let rows = Rows::new(x, m).unwrap();
        KernelMixture::fit(manifold, prior, rows, &MixtureOptions::default())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let one = fit("sphere:2", &[0.0, 0.0, 1.0]);
    assert!(one.contains("number of training points = 1"), "{one}");
    let off = fit("sphere:2", &[0.0, 0.0, 1.0, 0.0, 0.0, 1.5]);
    assert!(off.contains("row 1") && off.contains("sphere:2"), "{off}");
    let x = sample_points(parse("so:4").unwrap().as_ref(), 4, &Streams::new(1, "x")).unwrap();
    let unknown = fit("so:4", &x);
    assert!(unknown.contains("a kernel mixture is not known on so:4"), "{unknown}");
}

#[test]
fn options_that_make_no_sense_are_named() {
    let (manifold, prior, x) = clustered("sphere:2", 20, 1);
    let usual = MixtureOptions::default();
    for (options, message) in [
        (
            MixtureOptions { largest: Some(-1.0), ..usual },
            "largest bandwidth = -1 is not allowed; it must be positive and finite",
        ),
        (
            MixtureOptions { smallest: Some(0.0), ..usual },
            "smallest bandwidth = 0 is not allowed; it must be positive and finite",
        ),
        (
            MixtureOptions { largest: Some(0.5), smallest: Some(2.0), ..usual },
            "the smallest bandwidth, 2, must not be above the largest, 0.5",
        ),
        (
            MixtureOptions { floor: f64::NAN, ..usual },
            "floor of the smallest bandwidth = NaN is not allowed; it must be positive and finite",
        ),
        (
            MixtureOptions { ratio: 1.0, ..usual },
            "ratio of consecutive bandwidths = 1 is not allowed; it must be finite and at least 1.05",
        ),
        (
            MixtureOptions { judges: 0, ..usual },
            "number of judges = 0 is not allowed; it must be positive and finite",
        ),
    ] {
        let rows = Rows::new(&x, 3).unwrap();
        let fit = KernelMixture::fit(Arc::clone(&manifold), Arc::clone(&prior), rows, &options);
        assert_eq!(fit.unwrap_err().to_string(), message);
    }
    let (train, mixture) = fitted("sphere:2", 20, 1);
    let noised = mixture.noised_log_density(Rows::new(&train, 3).unwrap(), -1.0);
    assert_eq!(
        noised.unwrap_err().to_string(),
        "noising time s = -1 is not allowed; it must be finite and not negative"
    );
    assert_eq!(
        mixture.widened(0.0).unwrap_err().to_string(),
        "factor of the bandwidths = 0 is not allowed; it must be positive and finite"
    );
}

type Tensors = BTreeMap<String, Vec<f64>>;

#[test]
fn stored_mixtures_that_make_no_sense_are_refused_in_words() {
    let (_, mixture) = fitted("sphere:2", 20, 1);
    let bands = mixture.bandwidths().len();
    let refused = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = mixture.to_tensors();
        change(&mut tensors);
        let manifold = Arc::clone(mixture.manifold());
        let prior = default_prior(&manifold).unwrap();
        let error = KernelMixture::from_tensors(manifold, prior, &tensors).unwrap_err().to_string();
        let start = "the stored kernel mixture cannot be used: ";
        error.strip_prefix(start).unwrap_or_else(|| panic!("{error}")).to_string()
    };
    assert_eq!(
        refused(&|t| drop(t.remove("objective_trace"))),
        "the array 'objective_trace' is missing"
    );
    assert_eq!(
        refused(&|t| t.get_mut("bandwidths").unwrap()[0] = -0.5),
        "bandwidths[0] is -0.5; all must be positive and finite"
    );
    assert_eq!(
        refused(&|t| t.get_mut("weights").unwrap()[1] = 0.0),
        "weights[1] is 0; all must be positive and finite"
    );
    assert_eq!(
        refused(&|t| t.get_mut("weights").unwrap().push(0.25)),
        format!(
            "{} weights and {bands} bandwidths; there must be a weight for the prior and one for \
             each bandwidth",
            bands + 2
        )
    );
    let sum = refused(&|t| t.get_mut("weights").unwrap()[0] += 1.0);
    assert!(sum.starts_with("the weights sum to 2") || sum.starts_with("the weights sum to 1.9"));
    assert!(sum.ends_with(" instead of 1"), "{sum}");
    assert_eq!(
        refused(&|t| t.get_mut("leave_one_out_nll").unwrap().push(1.0)),
        "leave_one_out_nll has 2 numbers instead of 1"
    );
    let local = |values: Vec<f64>| {
        refused(&|t| drop(t.insert(String::from("local_weights"), values.clone())))
    };
    assert_eq!(
        local(vec![1.0]),
        format!("1 local weights for 20 centres of {bands} bandwidths each")
    );
    let own = mixture.localised(&MixtureOptions::default()).unwrap();
    let mut weights = own.local_weights().unwrap().to_vec();
    weights[bands] = -0.5;
    assert_eq!(local(weights.clone()), "centre 1 has a local weight of -0.5; none may be negative");
    weights[bands] = 7.0;
    let sum = local(weights);
    assert!(sum.starts_with("the local weights of centre 1 sum to 7"), "{sum}");
    assert!(sum.ends_with(", what the prior leaves"), "{sum}");
}

#[test]
fn nearest_distances_are_those_of_brute_force() {
    for (spec, n, limit) in [
        ("sphere:2", 500, 1000),
        ("torus:3", 900, 100),
        ("euclidean:2", 400, 399),
        ("so:3", 300, 1),
    ] {
        let (manifold, _, mut x) = clustered(spec, n, 3);
        let m = manifold.ambient_dim();
        // Repeated rows, some of them often, and rows that are the same up to rounding.
        for row in (0..n).step_by(3) {
            let from = if row % 2 == 0 { 1 } else { row - 1 };
            x.copy_within(from * m..(from + 1) * m, row * m);
            if row % 5 == 0 {
                x[row * m] += 1e-13;
            }
        }
        let nearest = |x_i: &[f64]| {
            x.chunks_exact(m)
                .map(|y| x_i.iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum::<f64>())
                .filter(|square| *square > 1e-24)
                .fold(f64::INFINITY, f64::min)
                .sqrt()
        };
        let mut expected: Vec<f64> =
            x.chunks_exact(m).step_by(n.div_ceil(limit)).map(nearest).collect();
        expected.sort_by(f64::total_cmp);
        let found = nearest_distances(Rows::new(&x, m).unwrap(), limit);
        assert!(expected.len() <= limit && expected[0] > 1e-12);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-14, "{spec}: {found} instead of {expected}");
        }
    }
    // One point, however often, has no neighbour.
    let same = [0.0, 0.6, 0.8].repeat(7);
    assert!(nearest_distances(Rows::new(&same, 3).unwrap(), 10).is_empty());
}
