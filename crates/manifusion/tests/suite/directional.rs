//! Directional distributions: normalisers against reference values in high precision, draws against
//! densities.

use crate::common::{golden, mean_se, number, rows};
use manifusion::directional::{Kent, KentMoments, VonMisesFisher};
use manifusion::rng::Streams;

const UP: [[f64; 3]; 3] = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]];

/// Relative error of the normaliser at most 1e-8, for κ from 0 to 1e7 and β up to κ/2.
#[test]
fn normalisers_over_the_whole_range() {
    let file = golden("directional");
    for row in rows(&file, "vmf") {
        let (d, kappa) = (number(&row, "d") as usize, number(&row, "kappa"));
        let found = VonMisesFisher::log_scaled_norm(d + 1, kappa);
        let error = found - number(&row, "log_scaled_norm");
        assert!(error.abs() < 1e-8, "vMF on S^{d}, κ = {kappa}: off by {error:e}");
    }
    for row in rows(&file, "kent") {
        let (kappa, beta) = (number(&row, "kappa"), number(&row, "beta"));
        let found = KentMoments::of(kappa, beta).log_scaled_norm;
        let error = found - number(&row, "log_scaled_norm");
        assert!(error.abs() < 1e-8, "Kent, κ = {kappa}, β = {beta}: off by {error:e}");
    }
}

/// log c is the cumulant generating function: its differences are the means, theirs the
/// covariances.
#[test]
fn moments_of_kent_are_derivatives() {
    for (kappa, beta) in [(0.5, 0.1), (20.0, 3.0), (20.0, 9.5), (400.0, 150.0)] {
        let at = |kappa: f64, beta: f64| {
            let found = KentMoments::of(kappa, beta);
            (found.log_scaled_norm + kappa, found.mean)
        };
        let h = 1e-4 * kappa;
        let (more, less) = (at(kappa + h, beta), at(kappa - h, beta));
        let (wider, rounder) = (at(kappa, beta + h), at(kappa, beta - h));
        let slope = |a: f64, b: f64| (a - b) / (2.0 * h);
        let found = KentMoments::of(kappa, beta);
        for (what, a, b) in [
            ("mean of t", found.mean[0], slope(more.0, less.0)),
            ("mean of w", found.mean[1], slope(wider.0, rounder.0)),
            ("variance of t", found.covariance[0], slope(more.1[0], less.1[0])),
            ("covariance", found.covariance[1], slope(more.1[1], less.1[1])),
            ("variance of w", found.covariance[2], slope(wider.1[1], rounder.1[1])),
        ] {
            let scale = found.covariance[0].max(found.covariance[2]).max(b.abs());
            assert!((a - b).abs() < 1e-5 * scale, "κ = {kappa}, β = {beta}, {what}: {a} {b}");
        }
    }
}

#[test]
fn the_highest_likelihood_finds_the_parameters() {
    for kappa in [1e-3, 0.3, 5.0, 300.0, 1e5, 3e6] {
        let mean = KentMoments::of(kappa, 0.0).mean[0];
        let found = VonMisesFisher::from_mean(&[0.0, 0.0, mean]).concentration();
        // The mean itself has rounding errors of 1e-16 beside 1/κ.
        let allowed = 1e-6 + 1e-15 * kappa;
        assert!((found / kappa - 1.0).abs() < allowed, "{found} instead of {kappa}");
        for share in [0.05, 0.3, 0.45] {
            if kappa < 1.0 {
                continue;
            }
            let [mean, difference] = KentMoments::of(kappa, share * kappa).mean;
            let found = Kent::from_moments(UP, mean, difference, None);
            let (k, b) = (found.concentration() / kappa, found.ovalness() / (share * kappa));
            assert!((k - 1.0).abs() < 1e-3 && (b - 1.0).abs() < 5e-3, "{kappa} {share}: {k} {b}");
        }
    }
}

/// The share of draws within angles of the mean, and on either side of the major axis, is the
/// integral of the density there.
#[test]
fn draws_follow_the_density() {
    let n = 4000usize;
    let check = |name: &str, log_density: &dyn Fn(&[f64]) -> f64, drawn: &[[f64; 3]]| {
        // The density over u = 1 − height and longitude, finer towards the mean.
        let (heights, turns) = (400, 64);
        let height = |i: i32| 2.0 * (f64::from(i) / f64::from(heights)).powi(5);
        let mut within = Vec::new();
        let (mut mass, mut along) = (0.0, 0.0);
        for i in 0..heights {
            let (a, b) = (height(i), height(i + 1));
            // Two Gauss points of the interval.
            for node in [-1.0, 1.0] {
                let u = 0.5 * (a + b) + node * 0.5 * (b - a) / 3f64.sqrt();
                let radius = (u * (2.0 - u)).sqrt();
                for j in 0..turns {
                    let turn = std::f64::consts::TAU * (f64::from(j) + 0.5) / f64::from(turns);
                    let (sin, cos) = turn.sin_cos();
                    let p = log_density(&[radius * cos, radius * sin, 1.0 - u]).exp();
                    let p = p * 0.5 * (b - a) * std::f64::consts::TAU / f64::from(turns);
                    mass += p;
                    along += if cos.abs() > sin.abs() { p } else { 0.0 };
                }
            }
            within.push((b, mass));
        }
        assert!((mass - 1.0).abs() < 2e-3, "{name}: mass {mass}");
        let mut deficits: Vec<f64> = drawn.iter().map(|x| 1.0 - x[2]).collect();
        deficits.sort_by(f64::total_cmp);
        let mut worst = 0.0f64;
        for (u, expected) in within {
            let found = deficits.partition_point(|d| *d <= u) as f64 / n as f64;
            worst = worst.max((found - expected).abs());
        }
        // Kolmogorov: exceeded with probability 1e-4.
        assert!(worst < 2.23 / (n as f64).sqrt() + 2e-3, "{name}: {worst}");
        let near: f64 = drawn.iter().filter(|x| x[0].abs() > x[1].abs()).count() as f64 / n as f64;
        let se = (along * (1.0 - along) / n as f64).sqrt();
        assert!((near - along).abs() < 4.0 * se + 2e-3, "{name}: {near} instead of {along}");
    };
    for (number, kappa) in [0.2, 3.0, 50.0, 1e4].into_iter().enumerate() {
        for share in [0.0, 0.25, 0.49] {
            let streams = Streams::new(number as u64, "kent-draws");
            let kent = Kent::new(UP, kappa, share * kappa);
            let vmf = VonMisesFisher::new(UP[0].to_vec(), kappa);
            let draw = |sample: &dyn Fn(&mut manifusion::rng::Stream, &mut [f64])| {
                let one = |row: u64| {
                    let mut x = [0.0; 3];
                    sample(&mut streams.stream(row, 0), &mut x);
                    x
                };
                (0..n as u64).map(one).collect::<Vec<_>>()
            };
            let drawn = draw(&|stream, x| kent.sample(stream, x));
            let name = format!("Kent κ = {kappa}, β = {share} κ");
            check(&name, &|x| kent.log_density(x), &drawn);
            if share == 0.0 {
                let drawn = draw(&|stream, x| vmf.sample(stream, x));
                check(&format!("vMF κ = {kappa}"), &|x| vmf.log_density(x), &drawn);
            }
        }
    }
}

/// Wood's rejection on other spheres: the mean of ⟨μ, x⟩ is that of the distribution with the same
/// mean.
#[test]
fn draws_on_other_spheres_have_the_mean_of_the_density() {
    for m in [2, 4, 8] {
        for kappa in [0.0, 1.0, 30.0, 1e5] {
            let mut mean = vec![0.0; m];
            mean[m - 1] = 1.0;
            let vmf = VonMisesFisher::new(mean, kappa);
            let streams = Streams::new(7, "vmf-draws");
            let deficit = |row: u64| {
                let mut x = vec![0.0; m];
                vmf.sample(&mut streams.stream(row, 0), &mut x);
                assert!((x.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-12);
                0.5 * x[..m - 1].iter().map(|x| x * x).sum::<f64>() + 0.5 * (1.0 - x[m - 1]).powi(2)
            };
            let values: Vec<f64> = (0..4000).map(deficit).collect();
            let (found, se) = mean_se(values.iter().copied());
            // The derivative of log Z is the mean of ⟨μ, x⟩.
            let h = 1e-4 * kappa.max(1e-2);
            let (low, high) = ((kappa - h).max(0.0), kappa + h);
            let norm = |kappa: f64| VonMisesFisher::log_scaled_norm(m, kappa);
            let expected = -(norm(high) - norm(low)) / (high - low);
            let allowed = 4.0 * se + 1e-3 * expected;
            assert!((found - expected).abs() < allowed, "S^{}, {kappa}: {found} {expected}", m - 1);
        }
    }
}
