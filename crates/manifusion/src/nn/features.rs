//! The inputs of the first layer from (x, s), with tangents and the reverse pass.
//!
//! A row is [x, time, sin, cos, grids]. Phases of Fourier features are formed in f64: with |B| in
//! the thousands, f32 would lose the digits that the features are for.

use super::activation::{FAR_PHASE, VectorMath};
use super::config::{FourierConfig, NetConfig, TimeConditioning};
use super::grid::Grid;
use super::real::Real;
use crate::rng::Streams;

/// Features handled together.
const CHUNK: usize = 16;

/// The map from (x, s) to the first layer's inputs.
#[derive(Clone, Debug)]
pub(crate) struct Features {
    dim: usize,
    time: TimeConditioning,
    fourier: Option<Fourier>,
    grid: Option<Grid>,
}

/// B by columns and |B|²/2 of each feature, in chunks of which the last one may end in zeros: loops
/// over arrays become vectors, loops over slices do not.
#[derive(Clone, Debug)]
pub struct Fourier {
    features: usize,
    /// m × chunks.
    columns: Vec<[f64; CHUNK]>,
    damping: Vec<[f64; CHUNK]>,
}

/// One row's place: the point, the time and k directions (e, e_s).
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The point.
    pub x: &'a [f64],
    /// The time.
    pub s: f64,
    /// k × m.
    pub e: &'a [f64],
    /// k numbers, or none if the directions leave the time alone.
    pub e_s: &'a [f64],
}

impl Place<'_> {
    pub(super) fn direction(&self, j: usize) -> (&[f64], f64) {
        let m = self.x.len();
        (&self.e[j * m..(j + 1) * m], self.e_s.get(j).copied().unwrap_or(0.0))
    }
}

/// Where the reverse pass adds the gradient with respect to one row's place.
pub(crate) struct PlaceGradient<'a> {
    pub(crate) x: &'a mut [f64],
    pub(crate) s: &'a mut f64,
    pub(crate) e: &'a mut [f64],
}

impl Features {
    pub(crate) fn new(config: &NetConfig, seed: u64) -> Self {
        let fourier = config.fourier.map(|f| Fourier::new(f, config.ambient_dim, seed));
        Self {
            dim: config.ambient_dim,
            time: config.time,
            fourier,
            grid: config.grid.map(Grid::new),
        }
    }

    /// B, features × m, if there are Fourier features.
    pub(crate) fn frequencies(&self) -> Option<Vec<f64>> {
        let fourier = self.fourier.as_ref()?;
        let numbers = 0..fourier.features * self.dim;
        Some(numbers.map(|i| fourier.frequency(i / self.dim, i % self.dim)).collect())
    }

    /// Replaces B by a stored one, features × m.
    pub(crate) fn set_frequencies(&mut self, b: &[f64]) {
        let dim = self.dim;
        if let Some(fourier) = &mut self.fourier {
            *fourier = Fourier::from_rows(b, dim);
        }
    }

    /// Whether the time must be positive.
    pub(crate) fn needs_positive_time(&self) -> bool {
        matches!(self.time, TimeConditioning::LogSines { .. })
    }

    /// Where the features of the grids begin in a row.
    fn grid_column(&self) -> usize {
        let fourier = self.fourier.as_ref().map_or(0, |fourier| 2 * fourier.features);
        self.dim + self.time.width() + fourier
    }

    /// Fills `rows`, 1 + k rows of `stride` numbers: the value, then its k derivatives. `table` are
    /// the trained numbers of the grids, if there are any.
    #[inline(always)]
    pub(crate) fn forward<T: Real>(
        &self,
        table: &[T],
        place: Place<'_>,
        rows: &mut [T],
        stride: usize,
    ) {
        let k = rows.len() / stride - 1;
        let (value, tangents) = rows.split_at_mut(stride);
        for (to, x) in value.iter_mut().zip(place.x) {
            *to = T::from_f64(*x);
        }
        for j in 0..k {
            let row = &mut tangents[j * stride..(j + 1) * stride];
            for (to, e) in row.iter_mut().zip(place.direction(j).0) {
                *to = T::from_f64(*e);
            }
        }
        self.time_forward(place, value, tangents, stride);
        if let Some(fourier) = &self.fourier {
            let first = self.dim + self.time.width();
            fourier.forward(place, first, value, tangents, stride);
        }
        if let Some(grid) = &self.grid {
            grid.forward(table, place, self.grid_column(), value, tangents, stride);
        }
    }

    /// The levels of the grids and the numbers of each; none without grids.
    pub(crate) fn table_levels(&self) -> (usize, usize) {
        self.grid.as_ref().map_or((0, 0), Grid::levels)
    }

    /// Adds the gradient of ⟨bar, rows⟩ with respect to the trained numbers of the grids, those of
    /// the levels from `first` on; `met` gets a bit for each entry that has a part in it.
    pub(crate) fn reverse_table<T: Real>(
        &self,
        place: Place<'_>,
        bar: &[T],
        stride: usize,
        first: usize,
        table_grad: &mut [T],
        met: &mut [u64],
    ) {
        if let Some(grid) = &self.grid {
            grid.reverse_table(place, self.grid_column(), bar, stride, first, table_grad, met);
        }
    }

    #[inline(always)]
    fn time_forward<T: Real>(
        &self,
        place: Place<'_>,
        value: &mut [T],
        tangents: &mut [T],
        stride: usize,
    ) {
        time_jets(&self.time, place.s, |i, [f, df, _]| {
            value[self.dim + i] = T::from_f64(f);
            for (j, row) in tangents.chunks_exact_mut(stride).enumerate() {
                row[self.dim + i] = T::from_f64(df * place.direction(j).1);
            }
        });
    }

    /// Adds to `grad` the gradient of ⟨bar, rows⟩, where `rows` is what [`Features::forward`]
    /// gives at `place` and `bar` has the same shape.
    pub(crate) fn reverse<T: Real>(
        &self,
        table: &[T],
        place: Place<'_>,
        bar: &[T],
        stride: usize,
        grad: &mut PlaceGradient<'_>,
    ) {
        if let Some(grid) = &self.grid {
            grid.reverse(table, place, self.grid_column(), bar, stride, grad);
        }
        let (value, tangents) = bar.split_at(stride);
        for (g, bar) in grad.x.iter_mut().zip(value) {
            *g += bar.to_f64();
        }
        for (g, bar) in grad.e.chunks_exact_mut(self.dim).zip(tangents.chunks_exact(stride)) {
            for (g, bar) in g.iter_mut().zip(bar) {
                *g += bar.to_f64();
            }
        }
        time_jets(&self.time, place.s, |i, [_, df, ddf]| {
            *grad.s += value[self.dim + i].to_f64() * df;
            for (j, row) in tangents.chunks_exact(stride).enumerate() {
                *grad.s += row[self.dim + i].to_f64() * ddf * place.direction(j).1;
            }
        });
        if let Some(fourier) = &self.fourier {
            let first = self.dim + self.time.width();
            fourier.reverse(place, first, value, tangents, stride, grad);
        }
    }
}

/// Calls `take` with every time input at s: its number, its value and its first two derivatives in
/// s.
#[inline(always)]
fn time_jets(time: &TimeConditioning, s: f64, mut take: impl FnMut(usize, [f64; 3])) {
    match *time {
        TimeConditioning::Concat => take(0, [s, 1.0, 0.0]),
        TimeConditioning::LogSines { s_min, t_end, .. } => {
            let span = (t_end / s_min).ln();
            let lambda = (s / s_min).ln() / span;
            // λ′ = 1/(s·span), λ″ = −λ′/s.
            let d = 1.0 / (s * span);
            let dd = -d / s;
            take(0, [2.0 * lambda - 1.0, 2.0 * d, 2.0 * dd]);
            for pair in 0..(time.width() - 1) / 2 {
                let omega = std::f64::consts::FRAC_PI_2 * f64::from(1u32 << pair);
                let (sin, cos) = (omega * lambda).sin_cos();
                for (i, (f, df)) in [(sin, cos), (cos, -sin)].into_iter().enumerate() {
                    let first = omega * df * d;
                    let second = omega * df * dd - omega * omega * f * d * d;
                    take(1 + 2 * pair + i, [f, first, second]);
                }
            }
        }
    }
}

impl Fourier {
    fn new(config: FourierConfig, dim: usize, seed: u64) -> Self {
        let streams = Streams::new(seed, "nn/fourier");
        let mut rows = vec![0.0; config.features * dim];
        for (i, row) in rows.chunks_exact_mut(dim).enumerate() {
            let mut stream = streams.stream(i as u64, 0);
            row.fill_with(|| stream.normal());
            let norm = row.iter().map(|b| b * b).sum::<f64>().sqrt();
            let length = config.f_max.powf(stream.uniform());
            for b in row.iter_mut() {
                *b *= length / norm;
            }
        }
        Self::from_rows(&rows, dim)
    }

    /// From the rows of B.
    pub fn from_rows(b: &[f64], dim: usize) -> Self {
        let features = b.len() / dim;
        let chunks = features.div_ceil(CHUNK);
        let mut columns = vec![[0.0; CHUNK]; dim * chunks];
        let mut damping = vec![[0.0; CHUNK]; chunks];
        for (f, b) in b.chunks_exact(dim).enumerate() {
            damping[f / CHUNK][f % CHUNK] = 0.5 * b.iter().map(|b| b * b).sum::<f64>();
            for (c, b) in b.iter().enumerate() {
                columns[c * chunks + f / CHUNK][f % CHUNK] = *b;
            }
        }
        Self { features, columns, damping }
    }

    /// An entry of B.
    fn frequency(&self, feature: usize, column: usize) -> f64 {
        self.columns[column * self.damping.len() + feature / CHUNK][feature % CHUNK]
    }

    /// B·v for the features of a chunk.
    #[inline(always)]
    fn project(&self, chunk: usize, v: &[f64]) -> [f64; CHUNK] {
        let mut sum = [0.0; CHUNK];
        for (v, b) in v.iter().zip(self.columns.chunks_exact(self.damping.len())) {
            let b = &b[chunk];
            for l in 0..CHUNK {
                sum[l] += b[l] * v;
            }
        }
        sum
    }

    /// The complex features f = e^{p + iq} of a chunk with p = −s|B|²/2 and q = Bx, as (sin, cos)
    /// parts.
    #[inline(always)]
    pub fn waves<T: Real>(&self, chunk: usize, place: Place<'_>) -> [[T; CHUNK]; 2] {
        let phase = self.project(chunk, place.x);
        let (mut sin, mut cos) = ([T::ZERO; CHUNK], [T::ZERO; CHUNK]);
        for l in 0..CHUNK {
            (sin[l], cos[l]) = <T as VectorMath>::sin_cos_of(phase[l]);
        }
        if phase.iter().fold(0.0, |most: f64, q| most.max(q.abs())) > FAR_PHASE {
            for l in 0..CHUNK {
                if phase[l].abs() > FAR_PHASE {
                    let (far_sin, far_cos) = phase[l].sin_cos();
                    (sin[l], cos[l]) = (T::from_f64(far_sin), T::from_f64(far_cos));
                }
            }
        }
        let damping = &self.damping[chunk];
        for l in 0..CHUNK {
            let size = T::from_f64(-damping[l] * place.s).exp_nonpositive::<false>();
            sin[l] = sin[l] * size;
            cos[l] = cos[l] * size;
        }
        [sin, cos]
    }

    #[inline(always)]
    fn forward<T: Real>(
        &self,
        place: Place<'_>,
        column: usize,
        value: &mut [T],
        tangents: &mut [T],
        stride: usize,
    ) {
        let n = self.features;
        for chunk in 0..self.damping.len() {
            let [sin, cos] = self.waves::<T>(chunk, place);
            let at = column + chunk * CHUNK;
            let len = CHUNK.min(n - chunk * CHUNK);
            write(&sin, &mut value[at..at + len]);
            write(&cos, &mut value[at + n..at + n + len]);
            for (j, row) in tangents.chunks_exact_mut(stride).enumerate() {
                // ḟ = f·(ṗ + i q̇).
                let (e, e_s) = place.direction(j);
                let q = self.project(chunk, e);
                let (mut sin_dot, mut cos_dot) = ([T::ZERO; CHUNK], [T::ZERO; CHUNK]);
                for l in 0..CHUNK {
                    let q = T::from_f64(q[l]);
                    let p = T::from_f64(-self.damping[chunk][l] * e_s);
                    sin_dot[l] = p * sin[l] + q * cos[l];
                    cos_dot[l] = p * cos[l] - q * sin[l];
                }
                write(&sin_dot, &mut row[at..at + len]);
                write(&cos_dot, &mut row[at + n..at + n + len]);
            }
        }
    }

    /// With w = p + iq: w̄ = f*·f̄ + Σ_j (f ẇ_j)*·ḟ̄_j and ẇ̄_j = f*·ḟ̄_j, in f64: this pass serves
    /// checks and maximum-likelihood flows, not the training loop.
    fn reverse<T: Real>(
        &self,
        place: Place<'_>,
        column: usize,
        value: &[T],
        tangents: &[T],
        stride: usize,
        grad: &mut PlaceGradient<'_>,
    ) {
        let (n, dim) = (self.features, place.x.len());
        for f in 0..n {
            let damping = self.damping[f / CHUNK][f % CHUNK];
            let dot = |v: &[f64]| v.iter().enumerate().map(|(c, v)| v * self.frequency(f, c)).sum();
            let phase: f64 = dot(place.x);
            let size = (-damping * place.s).exp();
            let (sin, cos) = (size * phase.sin(), size * phase.cos());
            let bars = |row: &[T]| (row[column + f].to_f64(), row[column + n + f].to_f64());
            // The pair (s̄, c̄) gives p̄ = s̄ sin + c̄ cos and q̄ = s̄ cos − c̄ sin.
            let (s_bar, c_bar) = bars(value);
            let mut p_bar = s_bar * sin + c_bar * cos;
            let mut q_bar = s_bar * cos - c_bar * sin;
            for (j, row) in tangents.chunks_exact(stride).enumerate() {
                let (e, e_s) = place.direction(j);
                let (q, p): (f64, f64) = (dot(e), -damping * e_s);
                let (s_bar, c_bar) = bars(row);
                let (s_dot, c_dot) = (p * sin + q * cos, p * cos - q * sin);
                p_bar += s_bar * s_dot + c_bar * c_dot;
                q_bar += s_bar * c_dot - c_bar * s_dot;
                let q_dot_bar = s_bar * cos - c_bar * sin;
                for c in 0..dim {
                    grad.e[j * dim + c] += q_dot_bar * self.frequency(f, c);
                }
            }
            for c in 0..dim {
                grad.x[c] += q_bar * self.frequency(f, c);
            }
            *grad.s -= p_bar * damping;
        }
    }
}

/// As much of a chunk as there is room for.
#[inline(always)]
fn write<T: Real>(chunk: &[T; CHUNK], to: &mut [T]) {
    match <&mut [T; CHUNK]>::try_from(&mut *to) {
        Ok(whole) => *whole = *chunk,
        Err(_) => to.copy_from_slice(&chunk[..to.len()]),
    }
}
