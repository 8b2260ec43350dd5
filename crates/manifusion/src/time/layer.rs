//! One layer of a deep sigmoidal flow (Huang, Krueger, Lacoste & Courville 2018) between logits.
//!
//! y = Σ_j w_j σ(a_j x + b_j) with w a softmax and a > 0 by a softplus; the layer's output is
//! logit y. Everything is formed from log σ, so that tails of e^{−700} keep their digits.

/// Added to the softplus, so that a layer is strictly increasing.
const SLOPE_FLOOR: f64 = 1e-6;

/// ln σ(t).
pub(super) fn log_sigmoid(t: f64) -> f64 {
    -softplus(-t)
}

/// σ(t).
pub(super) fn sigmoid(t: f64) -> f64 {
    log_sigmoid(t).exp()
}

/// ln(1 + eᵗ).
fn softplus(t: f64) -> f64 {
    t.max(0.0) + (-t.abs()).exp().ln_1p()
}

/// t with softplus(t) = a.
pub(super) fn inverse_softplus(a: f64) -> f64 {
    a + (-(-a).exp_m1()).ln()
}

/// The parameters of a layer: J raw slopes, J shifts, J raw weights.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    params: &'a [f64],
    units: usize,
    /// ln Σ e^{raw weight}.
    log_total: f64,
}

/// A layer's output with the logarithm of its slope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) value: f64,
    pub(super) log_slope: f64,
    /// ln y, ln(1 − y) and ln dy/dx.
    parts: [f64; 3],
}

/// One unit at x.
struct Unit {
    slope: f64,
    t: f64,
    /// The unit's terms of ln y, ln(1 − y) and ln dy/dx.
    terms: [f64; 3],
}

/// A running ln Σ eᵛ.
#[derive(Clone, Copy)]
struct LogSum {
    largest: f64,
    sum: f64,
}

impl LogSum {
    const EMPTY: Self = Self { largest: f64::NEG_INFINITY, sum: 0.0 };

    fn add(&mut self, v: f64) {
        if v <= self.largest {
            self.sum += (v - self.largest).exp();
        } else {
            self.sum = self.sum * (self.largest - v).exp() + 1.0;
            self.largest = v;
        }
    }

    fn value(self) -> f64 {
        self.largest + self.sum.ln()
    }
}

impl<'a> Layer<'a> {
    pub(super) fn new(params: &'a [f64]) -> Self {
        let units = params.len() / 3;
        let mut total = LogSum::EMPTY;
        params[2 * units..].iter().for_each(|w| total.add(*w));
        Self { params, units, log_total: total.value() }
    }

    fn unit(&self, j: usize, x: f64) -> Unit {
        let slope = softplus(self.params[j]) + SLOPE_FLOOR;
        let t = slope * x + self.params[self.units + j];
        let log_weight = self.params[2 * self.units + j] - self.log_total;
        let (up, down) = (log_sigmoid(t), log_sigmoid(-t));
        let terms = [log_weight + up, log_weight + down, log_weight + up + down + slope.ln()];
        Unit { slope, t, terms }
    }

    pub(super) fn forward(&self, x: f64) -> Output {
        let mut sums = [LogSum::EMPTY; 3];
        for j in 0..self.units {
            for (sum, term) in sums.iter_mut().zip(self.unit(j, x).terms) {
                sum.add(term);
            }
        }
        let parts = sums.map(LogSum::value);
        let [up, down, slope] = parts;
        Output { value: up - down, log_slope: slope - up - down, parts }
    }

    /// Adds to `grad` the gradient of value_bar·value + slope_bar·log_slope with respect to the
    /// parameters; returns the derivative with respect to x.
    pub(super) fn reverse(
        &self,
        x: f64,
        output: Output,
        value_bar: f64,
        slope_bar: f64,
        grad: &mut [f64],
    ) -> f64 {
        // value = A − B and log_slope = D − A − B.
        let bars = [value_bar - slope_bar, -value_bar - slope_bar, slope_bar];
        let total: f64 = bars.iter().sum();
        let mut x_bar = 0.0;
        for j in 0..self.units {
            let unit = self.unit(j, x);
            let share: [f64; 3] =
                std::array::from_fn(|p| bars[p] * (unit.terms[p] - output.parts[p]).exp());
            let (up, down) = (sigmoid(unit.t), sigmoid(-unit.t));
            let t_bar = share[0] * down - share[1] * up + share[2] * (down - up);
            let slope_bar = t_bar * x + share[2] / unit.slope;
            let weight = (self.params[2 * self.units + j] - self.log_total).exp();
            grad[j] += slope_bar * sigmoid(self.params[j]);
            grad[self.units + j] += t_bar;
            grad[2 * self.units + j] += share.iter().sum::<f64>() - weight * total;
            x_bar += t_bar * unit.slope;
        }
        x_bar
    }
}
