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
