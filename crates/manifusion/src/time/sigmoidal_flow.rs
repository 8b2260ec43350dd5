//! A learned proposal: a deep sigmoidal flow onto [s_min, T] with a floor.
//!
//! A logistic variable x = logit u goes through the layers to z, and σ(z) is scaled to [s_min, T]:
//! the paper's flow without its last logit. The paper scales s; scaled in log s the flow starts at
//! the log-uniform law, which is the one to start from for networks that resolve the data, since
//! their losses grow like 1/s towards small s. The density is mixed with small shares of the
//! uniform and of the log-uniform law: q never vanishes, so 1/q stays bounded.

use serde::{Deserialize, Serialize};

use super::layer::{Layer, Output, inverse_softplus, log_sigmoid, sigmoid};
use super::{LogUniform, Proposal, TimeError};
use crate::rng::Streams;

/// Largest number of layers; the layers' outputs live on the stack.
const MAX_LAYERS: usize = 8;

/// How σ(z) becomes a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowScale {
    /// ln s = ln s_min + ln(T/s_min)·σ(z).
    #[default]
    Log,
    /// s = s_min + (T − s_min)·σ(z), as in the paper.
    Linear,
}

/// The shape of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowConfig {
    /// Number of layers, 1 to 8.
    pub layers: usize,
    /// Sigmoids per layer.
    pub units: usize,
    /// Share of the floor, half uniform in s, half in ln s.
    pub floor: f64,
    /// How σ(z) becomes a time.
    pub scale: FlowScale,
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self { layers: 2, units: 8, floor: 0.05, scale: FlowScale::Log }
    }
}

/// A time drawn from the flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The time.
    pub s: f64,
    /// ln q(s).
    pub log_q: f64,
    /// The logistic variable behind it; none if the floor was drawn.
    pub x: Option<f64>,
}

/// The learned proposal.
#[derive(Clone, Debug, PartialEq)]
pub struct SigmoidalFlow {
    config: FlowConfig,
    s_min: f64,
    t_end: f64,
    /// ln(T/s_min).
    log_span: f64,
    params: Vec<f64>,
}

/// The layers' outputs at one x.
struct Pass {
    inputs: [f64; MAX_LAYERS],
    outputs: [Option<Output>; MAX_LAYERS],
    z: f64,
    log_slope: f64,
}

impl SigmoidalFlow {
    /// A flow close to the law on [s_min, T] that is uniform on its scale. The shifts get a small
    /// random part, without which all units would stay alike.
    pub fn new(config: FlowConfig, s_min: f64, t_end: f64, seed: u64) -> Result<Self, TimeError> {
        LogUniform::new(s_min, t_end)?;
        let setting = |name, value, expected| Err(TimeError::Setting { name, value, expected });
        if !(1..=MAX_LAYERS).contains(&config.layers) {
            return setting("layers", config.layers as f64, "1 to 8");
        }
        if config.units == 0 {
            return setting("units", 0.0, "at least 1");
        }
        if !(0.0..1.0).contains(&config.floor) {
            return setting("floor", config.floor, "a number in [0, 1)");
        }
        let j = config.units;
        let streams = Streams::new(seed, "time/flow");
        let mut params = vec![0.0; 3 * j * config.layers];
        for (l, layer) in params.chunks_exact_mut(3 * j).enumerate() {
            let mut stream = streams.stream(l as u64, 0);
            layer[..j].fill(inverse_softplus(1.0));
            layer[j..2 * j].fill_with(|| 0.1 * stream.normal());
        }
        Ok(Self { config, s_min, t_end, log_span: (t_end / s_min).ln(), params })
    }

    /// The shape.
    pub fn config(&self) -> &FlowConfig {
        &self.config
    }

    /// All parameters, flat.
    pub fn params(&self) -> &[f64] {
        &self.params
    }

    /// All parameters, to be trained.
    pub fn params_mut(&mut self) -> &mut [f64] {
        &mut self.params
    }

    fn layers(&self) -> impl DoubleEndedIterator<Item = (usize, Layer<'_>)> + ExactSizeIterator {
        self.params.chunks_exact(3 * self.config.units).map(Layer::new).enumerate()
    }

    fn pass(&self, x: f64) -> Pass {
        let mut pass =
            Pass { inputs: [0.0; MAX_LAYERS], outputs: [None; MAX_LAYERS], z: x, log_slope: 0.0 };
        for (l, layer) in self.layers() {
            let output = layer.forward(pass.z);
            pass.inputs[l] = pass.z;
            pass.z = output.value;
            pass.log_slope += output.log_slope;
            pass.outputs[l] = Some(output);
        }
        pass
    }

    /// Adds the gradient of z_bar·z + slope_bar·ln(dz/dx); returns its derivative by x.
    fn reverse(&self, pass: &Pass, mut z_bar: f64, slope_bar: f64, grad: &mut [f64]) -> f64 {
        let width = 3 * self.config.units;
        for (l, layer) in self.layers().rev() {
            let Some(output) = pass.outputs[l] else { unreachable!("every layer has an output") };
            let grad = &mut grad[l * width..(l + 1) * width];
            z_bar = layer.reverse(pass.inputs[l], output, z_bar, slope_bar, grad);
        }
        z_bar
    }

    fn time(&self, z: f64) -> f64 {
        let s = match self.config.scale {
            FlowScale::Log => self.s_min * (self.log_span * sigmoid(z)).exp(),
            FlowScale::Linear => self.s_min + (self.t_end - self.s_min) * sigmoid(z),
        };
        s.min(self.t_end)
    }

    /// ds/dσ at the time s.
    fn time_by_share(&self, s: f64) -> f64 {
        match self.config.scale {
            FlowScale::Log => self.log_span * s,
            FlowScale::Linear => self.t_end - self.s_min,
        }
    }

    /// The logistic variable x of the time s: the inverse of the flow.
    pub fn inverse(&self, s: f64) -> f64 {
        let (below, above) = (s - self.s_min, self.t_end - s);
        let (below, above) = match self.config.scale {
            FlowScale::Log => ((below / self.s_min).ln_1p(), (above / s).ln_1p()),
            FlowScale::Linear => (below, above),
        };
        // Beyond ±700 e^z leaves the doubles; the flow's tails are exponentials of x anyway.
        let z = (below.max(f64::MIN_POSITIVE).ln() - above.max(f64::MIN_POSITIVE).ln())
            .clamp(-700.0, 700.0);
        self.solve(z)
    }

    /// The time of the logistic variable x.
    pub fn forward(&self, x: f64) -> f64 {
        self.time(self.pass(x).z)
    }

    /// x with z(x) = z: Newton's method, kept inside a shrinking bracket. Between logits the flow
    /// is nearly linear in its tails, so x = z is a fair start.
    fn solve(&self, z: f64) -> f64 {
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut x = z;
        for _ in 0..200 {
            let pass = self.pass(x);
            let error = pass.z - z;
            if error > 0.0 {
                high = x;
            } else {
                low = x;
            }
            let newton = x - error * (-pass.log_slope).exp();
            let inside = newton > low && newton < high;
            let next =
                if inside || !(high - low).is_finite() { newton } else { 0.5 * (low + high) };
            if (next - x).abs() <= 1e-15 * (1.0 + x.abs()) {
                return next;
            }
            x = next;
        }
        x
    }

    /// ln of the flow's own density at its point x, the time s.
    fn log_flow(&self, s: f64, x: f64, pass: &Pass) -> f64 {
        let logistic = |t: f64| log_sigmoid(t) + log_sigmoid(-t);
        logistic(x) - pass.log_slope - logistic(pass.z) - self.time_by_share(s).ln()
    }

    /// ln q(s) and the flow's share of q(s).
    fn mix(&self, s: f64, log_flow: f64) -> (f64, f64) {
        let half = 0.5 * self.config.floor;
        let flat = half / (self.t_end - self.s_min);
        let log_flat = half / (s * self.log_span);
        let flow = (1.0 - self.config.floor) * log_flow.exp();
        let q = flow + flat + log_flat;
        (q.ln(), flow / q)
    }

    /// The draw that a uniform number u in (0, 1] stands for: the first shares of the interval
    /// are the floor's.
    pub fn draw(&self, u: f64) -> Draw {
        let half = 0.5 * self.config.floor;
        let (s_min, t_end) = (self.s_min, self.t_end);
        if u <= 2.0 * half {
            let s = if u <= half {
                s_min + u / half * (t_end - s_min)
            } else {
                s_min * ((u - half) / half * self.log_span).exp()
            };
            let s = s.clamp(s_min, t_end);
            return Draw { s, log_q: self.log_density(s), x: None };
        }
        // u = 1 would be an infinite x; the next number below stands for it.
        let v = ((u - 2.0 * half) / (1.0 - 2.0 * half)).clamp(1e-300, 1.0 - f64::EPSILON / 2.0);
        let x = v.ln() - (-v).ln_1p();
        let pass = self.pass(x);
        let s = self.time(pass.z).max(s_min);
        Draw { s, log_q: self.mix(s, self.log_flow(s, x, &pass)).0, x: Some(x) }
    }

    /// Adds weight·∇_φ ln q(s), s fixed.
    pub fn add_score(&self, s: f64, weight: f64, grad: &mut [f64]) {
        self.add_score_at(s, self.inverse(s), weight, grad);
    }

    fn add_score_at(&self, s: f64, x: f64, weight: f64, grad: &mut [f64]) {
        let pass = self.pass(x);
        let share = self.mix(s, self.log_flow(s, x, &pass)).1;
        // z stays where it is, so x moves by −∂_φz/z′; Λ = ln z′ and the base density follow it.
        let mut scratch = ScratchGradient::new(grad.len());
        let slope_by_x = self.reverse(&pass, 0.0, 1.0, scratch.get());
        let pull = (1.0 - 2.0 * sigmoid(x)) - slope_by_x;
        let factor = weight * share;
        let z_bar = -factor * pull * (-pass.log_slope).exp();
        self.reverse(&pass, z_bar, -factor, grad);
    }

    /// Adds weight·d/dφ [ln|ℓ(s)| − ln q(s)] with s = s(x; φ) moving along with φ, given
    /// d ln|ℓ|/ds. A draw from the floor does not move and adds −weight·∇_φ ln q(s).
    pub fn add_pathwise(&self, draw: Draw, log_loss_slope: f64, weight: f64, grad: &mut [f64]) {
        let Some(x) = draw.x else {
            self.add_score(draw.s, -weight, grad);
            return;
        };
        let pass = self.pass(x);
        let share = self.mix(draw.s, self.log_flow(draw.s, x, &pass)).1;
        let half = 0.5 * self.config.floor;
        let log_share = half / (draw.s * self.log_span) / draw.log_q.exp();
        let s_by_z = self.time_by_share(draw.s) * sigmoid(pass.z) * sigmoid(-pass.z);
        // ln q_flow moves by −Λ − ln σ(z)σ(−z) − ln ds/dσ, ln of the log-uniform density by −ln s.
        let by_log_s = match self.config.scale {
            FlowScale::Log => share + log_share,
            FlowScale::Linear => log_share,
        };
        let moved = share * (1.0 - 2.0 * sigmoid(pass.z)) + by_log_s * s_by_z / draw.s;
        let z_bar = weight * (log_loss_slope * s_by_z + moved);
        self.reverse(&pass, z_bar, weight * share, grad);
    }

    /// The mean of I² over times drawn from q with losses ℓ, and the unbiased gradient of its
    /// logarithm, `−E[I²·∇_φ ln q(s)]/E[I²]` (only ratios of losses matter: I² spans decades).
    pub fn variance_gradient(
        &self,
        s: &[f64],
        losses: &[f64],
        grad: &mut [f64],
    ) -> Result<f64, TimeError> {
        check_len(losses.len(), s.len())?;
        check_len(grad.len(), self.params.len())?;
        let place = |(s, loss): (&f64, &f64)| {
            let x = self.inverse(*s);
            let log_q = self.mix(*s, self.log_flow(*s, x, &self.pass(x))).0;
            (*s, x, (loss / log_q.exp()).powi(2))
        };
        let places: Vec<_> = s.iter().zip(losses).map(place).collect();
        let total: f64 = places.iter().map(|(_, _, square)| square).sum();
        grad.fill(0.0);
        if total > 0.0 {
            for (s, x, square) in places {
                self.add_score_at(s, x, -square / total, grad);
            }
        }
        Ok(total / s.len() as f64)
    }

    /// The same by the paper's reparameterised gradient: s moves with φ while Y_s is held fixed,
    /// which is slightly biased. `slopes` is dℓ/ds of each row.
    pub fn pathwise_variance_gradient(
        &self,
        draws: &[Draw],
        losses: &[f64],
        slopes: &[f64],
        grad: &mut [f64],
    ) -> Result<f64, TimeError> {
        check_len(losses.len(), draws.len())?;
        check_len(slopes.len(), draws.len())?;
        check_len(grad.len(), self.params.len())?;
        let square = |draw: &Draw, loss: f64| (loss / draw.log_q.exp()).powi(2);
        let total: f64 = draws.iter().zip(losses).map(|(draw, loss)| square(draw, *loss)).sum();
        grad.fill(0.0);
        if total > 0.0 {
            for ((draw, loss), slope) in draws.iter().zip(losses).zip(slopes) {
                let weight = 2.0 * square(draw, *loss) / total;
                let log_slope = if *loss == 0.0 { 0.0 } else { slope / loss };
                self.add_pathwise(*draw, log_slope, weight, grad);
            }
        }
        Ok(total / draws.len() as f64)
    }
}

/// A gradient that is computed and thrown away; on the stack for flows of usual size.
struct ScratchGradient {
    values: smallvec::SmallVec<[f64; 256]>,
}

impl ScratchGradient {
    fn new(len: usize) -> Self {
        Self { values: smallvec::smallvec![0.0; len] }
    }

    fn get(&mut self) -> &mut [f64] {
        &mut self.values
    }
}

fn check_len(found: usize, expected: usize) -> Result<(), TimeError> {
    if found == expected { Ok(()) } else { Err(TimeError::Len { found, expected }) }
}

impl Proposal for SigmoidalFlow {
    fn support(&self) -> (f64, f64) {
        (self.s_min, self.t_end)
    }

    fn sample(&self, u: f64) -> f64 {
        self.draw(u).s
    }

    fn log_density(&self, s: f64) -> f64 {
        if !(self.s_min..=self.t_end).contains(&s) {
            return f64::NEG_INFINITY;
        }
        let x = self.inverse(s);
        self.mix(s, self.log_flow(s, x, &self.pass(x))).0
    }
}
