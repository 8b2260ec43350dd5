//! Variances of a loss by quadrature.

use std::ops::ControlFlow;

use manifusion::time::{LogUniform, Uniform};
use manifusion::watch::Watch;
use manifusion_run::Config;
use manifusion_run::internals::{Extent, Quadrature, measure};

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
