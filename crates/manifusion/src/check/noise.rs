//! Moments of the noise.

use std::sync::Arc;

use super::Check;
use crate::error::SolveError;
use crate::linalg::{dot, norm};
use crate::manifold::Manifold;
use crate::path::{NoisingPath, PathChoice};
use crate::prior::{Prior, default_prior};
use crate::rng::{Stream, Streams};
use crate::rows::{Rows, RowsMut};

/// Time at which the drift of the mean is measured, in units of the time in which curvature is
/// felt.
const SMALL: f64 = 0.02;

pub(super) fn check(
    manifold: &Arc<dyn Manifold>,
    points: &[f64],
    draws: usize,
    streams: &Streams,
) -> Result<Vec<Check>, SolveError> {
    if !manifold.metric_is_induced() {
        // The mean of the coordinates obeys no law that the trait knows.
        return Ok(Vec::new());
    }
    let m = manifold.ambient_dim();
    // Only the drift matters here: a manifold without a closed-form volume is taken as driftless,
    // which spares the long run for its volume.
    let closed =
        manifold.log_volume().is_some() || manifold.family() != crate::manifold::Family::Other;
    let prior: Arc<dyn Prior> = if closed { default_prior(manifold)? } else { Arc::new(Driftless) };
    let start = &points[..m];
    let mut checks = Vec::new();

    let mut rate = vec![0.0; m];
    manifold.mean_curvature(start, &mut rate);
    let mut drift = vec![0.0; m];
    prior.drift(start, &mut drift);
    for (rate, drift) in rate.iter_mut().zip(&drift) {
        *rate = 0.5 * *rate + drift;
    }
    let heun =
        NoisingPath::new(Arc::clone(manifold), Arc::clone(&prior), PathChoice::Heun { steps: 8 })?;
    // Curvature varies: the strongest that the sampled points have decides.
    let mut h = vec![0.0; m];
    let strongest = points.chunks_exact(m).fold(0.0f64, |strongest, x| {
        manifold.mean_curvature(x, &mut h);
        strongest.max(dot(&h, &h))
    });
    let s = SMALL / (1.0 + strongest);
    // Second-order terms of the mean and the scheme's own bias are a few per cent of the first
    // order at this time.
    let bias = 0.1 * norm(&rate) * s + 1e-12;
    checks.push(mean_check(
        "E[Y_s] - y = (H/2 + U0) s at small s (Heun)",
        &heun,
        start,
        s,
        draws,
        &streams.part(1),
        |i| start[i] + s * rate[i],
        bias,
    )?);

    // Where H = −c·x and U₀ = 0 the coordinates are eigenfunctions: E[Y_s] = e^{−cs/2} y at every
    // s.
    let c = -2.0 * dot(&rate, start) / dot(start, start);
    let linear = rate.iter().zip(start).all(|(r, x)| (r + 0.5 * c * x).abs() < 1e-9);
    if linear && c > 1e-6 && prior.is_driftless() {
        let path = NoisingPath::new(Arc::clone(manifold), prior, PathChoice::Auto)?;
        let s = 1.0 / c;
        let decay = (-0.5f64).exp();
        // Heun with 100 steps has a weak bias of a few steps, relative to |y|; exact draws have
        // none.
        let bias = if path.is_exact() { 1e-4 } else { 0.03 } * norm(start);
        let law = "E[Y_s] = exp(-1/2) y at s = 1/c, H = -c y";
        let draws = if path.is_exact() { draws } else { draws / 10 };
        checks.push(mean_check(
            law,
            &path,
            start,
            s,
            draws,
            &streams.part(2),
            |i| decay * start[i],
            bias,
        )?);
    }
    Ok(checks)
}

#[expect(clippy::too_many_arguments, reason = "a local helper; a struct would hide the formula")]
fn mean_check(
    law: &'static str,
    path: &NoisingPath,
    start: &[f64],
    s: f64,
    draws: usize,
    streams: &Streams,
    expected: impl Fn(usize) -> f64,
    bias: f64,
) -> Result<Check, SolveError> {
    let m = start.len();
    let n = draws.max(100);
    let x = start.repeat(n);
    let mut y = vec![0.0; n * m];
    path.sample(Rows::new(&x, m)?, &vec![s; n], streams, 0, RowsMut::new(&mut y, m)?)?;
    let mut check = Check::new(law, 0.0, bias);
    for i in 0..m {
        let column = || y.chunks_exact(m).map(|y| y[i]);
        let mean = column().sum::<f64>() / n as f64;
        let variance = column().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        // The worst coordinate is reported, measured against its own tolerance.
        let (value, tolerance) =
            ((mean - expected(i)).abs(), bias + 4.0 * (variance / n as f64).sqrt());
        if value * check.tolerance >= check.value * tolerance || value.is_nan() {
            check = Check::new(law, value, tolerance);
        }
    }
    Ok(check)
}

/// U₀ = 0 without a volume, for measuring the noise alone.
#[derive(Debug)]
struct Driftless;

impl Prior for Driftless {
    fn log_density(&self, _x: &[f64]) -> f64 {
        f64::NAN
    }

    fn sample(&self, _: &mut Stream, _: &mut [f64]) -> Result<(), crate::error::PointError> {
        Ok(())
    }

    fn drift(&self, _x: &[f64], u: &mut [f64]) {
        u.fill(0.0);
    }

    fn drift_divergence(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn langevin(&self) -> crate::prior::Langevin {
        crate::prior::Langevin::Brownian
    }
}
