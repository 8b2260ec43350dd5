//! Variances of a loss by quadrature.

use std::ops::ControlFlow;

use manifusion::time::{LogUniform, Uniform};
use manifusion::watch::Watch;
use manifusion_run::Config;
use manifusion_run::internals::{Extent, Quadrature, measure};
use manifusion_run::reproduce::{
    Budget, TimeVariance, VarianceCurve, Variant, time_variance_markdown,
};

/// E[ℓ] = 1/s and E[ℓ²] = 2/s²: q ∝ 1/s, the log-uniform proposal, is the best.
#[test]
fn variances_of_a_loss_with_known_moments() {
    let (s_min, t_end) = (1e-3, 6.0);
    let mut quadrature = Quadrature::new(s_min, t_end, 2000);
    let moment = |s: &f64| [1.0 / s, 2.0 / (s * s)];
    quadrature.moments = quadrature.times.iter().map(moment).collect();
    let span = f64::ln(t_end / s_min);
    let uniform = 2.0 * (t_end - s_min) * (1.0 / s_min - 1.0 / t_end) - span * span;
    let close = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
    };
    close(quadrature.loss(), span);
    close(quadrature.variance(&Uniform::new(s_min, t_end).unwrap()), uniform);
    close(quadrature.variance(&LogUniform::new(s_min, t_end).unwrap()), span * span);
    close(quadrature.least(), span * span);
}

/// A measurement that is stopped goes on from its last point, with the same bits.
#[test]
fn a_stopped_measurement_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let text = "manifold = 'sphere:2'\nmethod = 'rdm'\n[data]\nsource = 'synthetic:sphere-mixture'\n\
                rows = 200\n[rdm]\npreset = 'paper'\n[rdm.net]\nwidth = 16\ndepth = 1\n\
                [rdm.train]\nbatch = 8\ntimes_every = 3\n[rdm.model]\ns_min = 1e-3\n";
    let choices = || Config::parse(text).unwrap().choices().unwrap();
    let extent = Extent { steps: 20, nodes: 4, paths: 8 };
    let (kept, other) = (folder.path().join("kept"), folder.path().join("other"));
    let whole = measure(&choices(), extent, &other, &Watch::default()).unwrap().unwrap();
    assert_eq!(whole.steps.len(), 20);
    let halfway = |progress: &manifusion::watch::Progress| {
        if progress.stage == "training" && progress.done >= 11 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    assert!(measure(&choices(), extent, &kept, &Watch::new(halfway)).unwrap().is_none());
    let before = std::fs::metadata(&kept).unwrap().len();
    assert!(before > 1000, "{before} bytes");
    // Another number of steps has other rates: not the same measurement.
    let longer = Extent { steps: 40, ..extent };
    let error = measure(&choices(), longer, &kept, &Watch::default()).unwrap_err().to_string();
    assert!(error.contains("20 with") && error.contains("40 with"), "{error}");
    let again = measure(&choices(), extent, &kept, &Watch::default()).unwrap().unwrap();
    assert_eq!(again, whole);
    // A damaged file is named.
    std::fs::write(&kept, "not networks").unwrap();
    let error = measure(&choices(), extent, &kept, &Watch::default()).unwrap_err().to_string();
    assert!(error.contains("kept"), "{error}");
}

/// Ratios and differences are taken within a seed, and then averaged.
#[test]
fn a_table_of_variances_is_paired_by_seed() {
    let curves = |values: &[(&str, f64)]| -> Vec<VarianceCurve> {
        let curve = |(name, value): &(&str, f64)| VarianceCurve {
            name: (*name).to_owned(),
            values: vec![9.0, *value],
        };
        values.iter().map(curve).collect()
    };
    let of = |variances: [f64; 4], losses: [f64; 3], test_nll: [f64; 3]| {
        let names = ["uniform", "log-uniform", "learned", "least"];
        let named: Vec<(&str, f64)> = names.into_iter().zip(variances).collect();
        let lost: Vec<(&str, f64)> = names.into_iter().zip(losses).collect();
        TimeVariance {
            steps: vec![1, 7],
            variances: curves(&named),
            losses: curves(&lost),
            test_nll: test_nll.to_vec(),
            proposal: Vec::new(),
            s_min: 0.5,
            t_end: 6.0,
            nodes: 3,
            paths: 4,
            batch: 5,
        }
    };
    let seeds = vec![
        of([40.0, 20.0, 10.0, 5.0], [1.5, 1.0, 1.25], [0.5, 0.25, 0.5]),
        of([12.0, 4.0, 2.0, 1.0], [2.5, 1.0, 1.25], [1.5, 0.25, 1.0]),
    ];
    let title = "a loss";
    let variant = Variant { suffix: "", title, settings: &[], budget: Budget::StepsPerMinute(1) };
    let text = time_variance_markdown("T", &[(&variant, seeds)]);
    let row = |name: &str| text.lines().find(|l| l.starts_with(&format!("| {name} |"))).unwrap();
    assert_eq!(
        row("uniform"),
        "| uniform | 2.6000e1 | 10.000 ± 2.000 | 5.000 ± 1.000 | 3.000 ± 0.500 | 2.000 ± 0.500 | \
         0.750 ± 0.500 | 1.000 ± 0.500 | 0.250 ± 0.250 |"
    );
    let of_learned: Vec<&str> = row("learned").split(" | ").collect();
    assert_eq!((of_learned[3], of_learned[6]), ("1.000 ± 0.000", "–"));
    assert!(text.contains("## a loss") && text.contains("7 steps of 5 rows; seeds: 2"));
}

/// Moments of the denoising loss of a network that is zero, against those of wrapped normal
/// distributions: ℓ = ½(ψ(θ₁)² + ψ(θ₂)²) with the score ψ of the angles' noise.
#[test]
fn moments_of_a_network_that_is_zero() {
    let folder = tempfile::tempdir().unwrap();
    let text = "manifold = 'torus:2'\nmethod = 'rdm'\n[data]\nsource = 'synthetic:torus-mixture'\n\
                rows = 200\n[rdm]\npreset = 'paper'\n[rdm.net]\nwidth = 16\ndepth = 1\n\
                zero_output = true\n[rdm.train]\nloss = 'denoising'\nnoise_steps = 0\nbatch = 8\n\
                rate = 1e-12\n[rdm.model]\ns_min = 0.01\n";
    let choices = Config::parse(text).unwrap().choices().unwrap();
    let extent = Extent { steps: 1, nodes: 32, paths: 4000 };
    let kept = folder.path().join("kept");
    let found = measure(&choices, extent, &kept, &Watch::default()).unwrap().unwrap();

    let (s_min, t_end) = (found.s_min, found.t_end);
    let mut expected = Quadrature::new(s_min, t_end, extent.nodes);
    let moments = |s: &f64| {
        let [second, fourth] = score_moments_of_a_wrapped_normal(*s);
        [second, 0.5 * (fourth + second * second)]
    };
    expected.moments = expected.times.iter().map(moments).collect();
    // Where s is small ℓ is exponential with mean 1/s: variances 1/s² of ℓ and 20/s⁴ of ℓ². The
    // nodes have the weights s·log(T/s_min)/nodes.
    let (nodes, paths) = (extent.nodes as f64, extent.paths as f64);
    let span = f64::ln(t_end / s_min) / nodes;
    let of_loss = (nodes / paths).sqrt() * span;
    let loss = expected.loss();
    for curve in &found.losses {
        let gap = (curve.values[0] - loss).abs();
        assert!(gap < 4.0 * of_loss, "{}: {} and {loss}", curve.name, curve.values[0]);
    }
    let squares: f64 = expected.times.iter().map(|s| s.powi(-2)).sum();
    let of_uniform = (t_end - s_min) * span * (20.0 * squares / paths).sqrt();
    let of_log_uniform = (nodes * 20.0 / paths).sqrt() * span * span * nodes;
    for (i, variance, error) in [
        (0, expected.variance(&Uniform::new(s_min, t_end).unwrap()), of_uniform),
        (1, expected.variance(&LogUniform::new(s_min, t_end).unwrap()), of_log_uniform),
    ] {
        let value = found.variances[i].values[0];
        let error = error + 2.0 * loss * of_loss;
        assert!((value - variance).abs() < 4.0 * error, "{i}: {value}, {variance} ± {error}");
    }
}

/// E ψ² and E ψ⁴ of ψ = d log p/dθ for the normal distribution of variance s, wrapped.
fn score_moments_of_a_wrapped_normal(s: f64) -> [f64; 2] {
    let (nodes, tau) = (4000, std::f64::consts::TAU);
    let (mut mass, mut moments) = (0.0, [0.0; 2]);
    for node in 0..nodes {
        let theta = tau * (f64::from(node) / f64::from(nodes) - 0.5);
        let (mut p, mut slope) = (0.0, 0.0);
        for turn in -6..=6 {
            let off = theta + tau * f64::from(turn);
            let term = (-0.5 * off * off / s).exp();
            p += term;
            slope -= off / s * term;
        }
        if p > 0.0 {
            mass += p;
            moments[0] += p * (slope / p).powi(2);
            moments[1] += p * (slope / p).powi(4);
        }
    }
    moments.map(|moment| moment / mass)
}
