//! Variances of a loss by quadrature.

use manifusion::time::{LogUniform, Uniform};
use manifusion_run::internals::Quadrature;

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
