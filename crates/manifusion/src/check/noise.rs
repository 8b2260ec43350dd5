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

/// Small time at which the drift of the mean is measured.
const SMALL: f64 = 0.02;

pub(super) fn check(
    manifold: &Arc<dyn Manifold>,
    points: &[f64],
    draws: usize,
    streams: &Streams,
) -> Result<Vec<Check>, SolveError> {
    let m = manifold.ambient_dim();
    // Only the drift matters here: a manifold without a closed-form volume is taken as driftless, which spares the
    // long run for its volume.
    let closed = manifold.log_volume().is_some() || manifold.kind() != crate::manifold::Kind::Other;
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
    // Second-order terms of the mean and the scheme's own bias are both of order s² times curvatures squared.
    let bias = (1.0 + norm(&rate)).powi(2) * SMALL * SMALL;
    checks.push(mean_check(
        "E[Y_s] - y = (H/2 + U0) s at s = 0.02 (Heun)",
        &heun,
        start,
        SMALL,
        draws,
        &streams.part(1),
        |i| start[i] + SMALL * rate[i],
        bias,
    )?);

    // Where H = −c·x and U₀ = 0 the coordinates are eigenfunctions: E[Y_s] = e^{−cs/2} y at every s.
    let c = -2.0 * dot(&rate, start) / dot(start, start);
    let linear = rate.iter().zip(start).all(|(r, x)| (r + 0.5 * c * x).abs() < 1e-9);
    if linear && prior.is_driftless() {
        let path = NoisingPath::new(Arc::clone(manifold), prior, PathChoice::Auto)?;
        let s = 0.5;
        let decay = (-0.5 * c * s).exp();
        // Heun with 100 steps has a weak bias of order Δ; exact draws have none.
        let bias = if path.is_exact() { 1e-4 } else { c * s / 100.0 };
        let law = "E[Y_s] = exp(-c s/2) y at s = 0.5";
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
