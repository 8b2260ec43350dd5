//! Step-size control.

/// Proportional–integral control of the step (Gustafsson 1991): smoother than control by the last
/// error alone, with fewer rejections.
#[derive(Clone, Copy, Debug)]
pub(super) struct PiController {
    /// Error ratio of the last accepted step.
    last: f64,
    rejected: bool,
}

const SAFETY: f64 = 0.9;
const SHRINK: f64 = 0.2;
const GROW: f64 = 10.0;

impl PiController {
    pub(super) fn new() -> Self {
        Self { last: 1.0, rejected: false }
    }

    /// The factor for the next step after a step with this error ratio (accepted if at most 1), for
    /// a method of `order`.
    pub(super) fn factor(&mut self, error: f64, order: u32) -> f64 {
        let p = f64::from(order);
        // An error of zero or NaN takes the limits.
        let error = if error.is_nan() { f64::INFINITY } else { error.max(1e-10) };
        if error > 1.0 {
            self.rejected = true;
            return (SAFETY * error.powf(-1.0 / p)).max(SHRINK);
        }
        let factor = SAFETY * error.powf(-0.7 / p) * self.last.powf(0.4 / p);
        self.last = error.max(1e-4);
        // No growth right after a rejection.
        let limit = if std::mem::take(&mut self.rejected) { 1.0 } else { GROW };
        factor.clamp(SHRINK, limit)
    }
}
