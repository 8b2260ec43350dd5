//! Sums of kernels over the cells of a tree: the mixture's density, score and Hessian at one point.

use super::radial::{Form, Radial, horner};
use super::space::{Point, Shape, Space};
use super::tree::{Tree, View};
use crate::linalg::{dot, scratch};
use crate::prior::Prior;

/// Bandwidths whose squares are below this share of the noise time act as one kernel of their mean variance. The relative error is
/// of second order in half of it.
const COINCIDENT: f64 = 0.02;
/// Cells between this share of the opening size and the opening size are blended with their children, so that the field is smooth in
/// the noise time.
const BLEND_FROM: f64 = 0.8;

/// How finely sums are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accuracy {
    /// Cells are merged when their root mean square radius is below this many standard deviations of the kernel.
    pub(super) merge: f64,
    /// Kernels are dropped beyond this many standard deviations.
    pub(super) reach: f64,
    /// Whether narrow kernels come from a table in the time.
    pub(super) tabulated: bool,
}

impl Accuracy {
    /// Every centre by itself.
    pub(super) fn exact(dim: usize) -> Self {
        Self { merge: 0.0, reach: (dim as f64).sqrt() + 8.5, tabulated: false }
    }

    /// With merged cells; `merge` in standard deviations.
    pub(super) fn merged(dim: usize, merge: f64) -> Self {
        Self { merge, reach: (dim as f64).sqrt() + 5.0, tabulated: true }
    }
}

/// The kernels of a mixture: bandwidths with their weights, ready for any noise time.
#[derive(Clone, Debug)]
pub(super) struct Kernels {
    radials: Vec<Radial>,
    accuracy: Accuracy,
    /// σ_k², descending.
    squares: Vec<f64>,
    /// w_k
    weights: Vec<f64>,
    /// w_0
    prior_weight: f64,
}

/// One bandwidth at one noise time.
#[derive(Clone, Debug)]
struct Component {
    /// log of weight times peak.
    log_factor: f64,
    forms: Vec<Form>,
    /// ρ²/T of each block: cell variances in units of the kernel's.
    per_variance: Vec<f64>,
    /// Largest ρ/√T over all blocks, and over those that are not wide.
    per_length: f64,
    per_distance: f64,
}

/// Σ m K, its gradient and its Hessian (lower triangle, row by row).
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    value: f64,
    first: Vec<f64>,
    second: Vec<f64>,
}

/// What is computed beside the density.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    Value,
    Score,
    Hessian,
}

/// The centres, as the sums see them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Centres<'a> {
    pub(super) space: &'a Space,
    pub(super) tree: &'a Tree,
    /// All points: what decides which cells are opened.
    pub(super) all: &'a View,
    /// The points that are summed.
    pub(super) view: &'a View,
}

/// Buffers of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Workspace {
    pub(super) point: Point,
    open: Vec<(u32, f64)>,
    cells: Vec<(u32, f64)>,
    sums: Sums,
    /// Score and Hessian in tangent components.
    pub(super) score: Vec<f64>,
    pub(super) hessian: Vec<f64>,
}

impl Kernels {
    pub(super) fn new(
        space: &Space,
        accuracy: Accuracy,
        squares: &[f64],
        weights: &[f64],
        prior_weight: f64,
    ) -> Self {
        let radial = |shape| match accuracy.tabulated {
            true => Radial::tabulated(shape, accuracy.reach),
            false => Radial::exact(shape, accuracy.reach),
        };
        let radials = space.blocks.iter().map(|b| radial(b.shape)).collect();
        let (squares, weights) = (squares.to_vec(), weights.to_vec());
        Self { radials, accuracy, squares, weights, prior_weight }
    }

    /// The mixture's components after noise for time s.
    pub(super) fn at(&self, space: &Space, s: f64) -> Noised {
        let mut merged = (0.0, 0.0);
        let mut components = Vec::with_capacity(self.squares.len());
        for (&square, &weight) in self.squares.iter().zip(&self.weights) {
            if self.accuracy.merge > 0.0 && square < COINCIDENT * s {
                merged = (merged.0 + weight, merged.1 + weight * square);
            } else {
                components.push(self.component(space, square, weight, s));
            }
        }
        if merged.0 > 0.0 {
            components.push(self.component(space, merged.1 / merged.0, merged.0, s));
        }
        Noised { components, accuracy: self.accuracy, prior_weight: self.prior_weight }
    }

    fn component(&self, space: &Space, square: f64, weight: f64, s: f64) -> Component {
        let mut component = Component {
            log_factor: weight.ln(),
            forms: Vec::with_capacity(space.blocks.len()),
            per_variance: Vec::with_capacity(space.blocks.len()),
            per_length: 0.0,
            per_distance: 0.0,
        };
        for (block, radial) in space.blocks.iter().zip(&self.radials) {
            let (time, variance, decay) = match block.shape {
                Shape::Sphere { quotient: true, .. } => (square + s, (square + s) / 8.0, 1.0),
                Shape::Flat { .. } => {
                    let time = square * (-s).exp() - (-s).exp_m1();
                    (time, time, (-0.5 * s).exp())
                }
                _ => (square + s, square + s, 1.0),
            };
            let (form, log_peak) = radial.form(variance, decay);
            let per_length = decay / time.sqrt();
            component.log_factor += log_peak;
            component.per_variance.push(per_length * per_length);
            component.per_length = component.per_length.max(per_length);
            if !matches!(form, Form::Wide { .. }) {
                component.per_distance = component.per_distance.max(per_length);
            }
            component.forms.push(form);
        }
        component
    }
}

/// A mixture after noise for one time.
#[derive(Clone, Debug)]
pub(super) struct Noised {
    components: Vec<Component>,
    accuracy: Accuracy,
    prior_weight: f64,
}

impl Noised {
    /// log p at the point x that is placed in `work.point`; with `order`, score and Hessian of log p in tangent components.
    pub(super) fn evaluate(
        &self,
        centres: Centres<'_>,
        prior: &dyn Prior,
        x: &[f64],
        order: Order,
        work: &mut Workspace,
    ) -> f64 {
        let d = centres.space.dim;
        let log_prior = self.prior_weight.ln() + prior.log_density(x);
        let mut reference = log_prior;
        let mut total = 1.0;
        work.score.clear();
        work.score.resize(d, 0.0);
        work.hessian.clear();
        work.hessian.resize(if order == Order::Hessian { d * d } else { 0 }, 0.0);
        self.add_prior(centres.space, order, work);
        for component in &self.components {
            self.sum(component, centres, order, work);
            let Workspace { sums, score, hessian, .. } = work;
            if !(sums.value > 0.0) {
                continue;
            }
            let log_factor = component.log_factor - centres.view.total.ln();
            // The reference is the largest term so far, so that nothing overflows in high dimension.
            let log_term = log_factor + sums.value.ln();
            if log_term > reference {
                let shrink = (reference - log_term).exp();
                total *= shrink;
                score.iter_mut().chain(hessian.iter_mut()).for_each(|v| *v *= shrink);
                reference = log_term;
            }
            let factor = (log_factor - reference).exp();
            total += factor * sums.value;
            if order >= Order::Score {
                crate::linalg::axpy(factor, &sums.first, score);
            }
            if order == Order::Hessian {
                crate::linalg::axpy(factor, &sums.second, hessian);
            }
        }
        self.finish(d, order, total, work);
        reference + total.ln()
    }

    /// Value (one), gradient and Hessian of the prior's density relative to its value: −x and xxᵀ − I on ℝ^d, zero elsewhere.
    fn add_prior(&self, space: &Space, order: Order, work: &mut Workspace) {
        let Workspace { point, score, hessian, .. } = work;
        for block in &space.blocks {
            let Shape::Flat { .. } = block.shape else { continue };
            for (v, x) in
                score[block.tangent.clone()].iter_mut().zip(&point.inner[block.inner.clone()])
            {
                *v = -x;
            }
        }
        if order < Order::Hessian {
            return;
        }
        let d = space.dim;
        for i in 0..d {
            for j in 0..=i {
                hessian[i * d + j] = score[i] * score[j];
            }
        }
        for block in &space.blocks {
            if let Shape::Flat { .. } = block.shape {
                for i in block.tangent.clone() {
                    hessian[i * d + i] -= 1.0;
                }
            }
        }
    }

    /// From derivatives of p to those of log p, from unit quaternions to rotations, and the upper triangle.
    #[expect(clippy::unused_self, reason = "a step of evaluate")]
    fn finish(&self, d: usize, order: Order, total: f64, work: &mut Workspace) {
        let Workspace { score, hessian, .. } = work;
        score.iter_mut().for_each(|v| *v /= total);
        if order < Order::Hessian {
            return;
        }
        for i in 0..d {
            for j in 0..=i {
                let value = hessian[i * d + j] / total - score[i] * score[j];
                hessian[i * d + j] = value;
                hessian[j * d + i] = value;
            }
        }
    }

    /// The log of each component's density at the point in `work.point`, without its weight, over `total` centres: the mean of K
    /// with the point's own kernel left out.
    pub(super) fn leave_one_out(
        &self,
        centres: Centres<'_>,
        work: &mut Workspace,
        out: &mut [f64],
    ) {
        for (component, out) in self.components.iter().zip(out) {
            self.sum(component, centres, Order::Value, work);
            // The own kernel is one peak; merging may leave a little less than it.
            let others = work.sums.value - 1.0;
            *out = if others > TINY {
                component.log_factor + (others / (centres.view.total - 1.0)).ln()
            } else {
                f64::NEG_INFINITY
            };
        }
    }

    /// Fills `work.sums` for one component.
    fn sum(&self, component: &Component, centres: Centres<'_>, order: Order, work: &mut Workspace) {
        self.collect(component, centres, work);
        let Workspace { point, cells, sums, .. } = work;
        let d = centres.space.dim;
        sums.value = 0.0;
        sums.first.clear();
        sums.first.resize(d, 0.0);
        sums.second.clear();
        sums.second.resize(d * d, 0.0);
        match (&centres.space.blocks[..], &component.forms[..]) {
            ([block], [form]) => match block.shape {
                Shape::Sphere { dim: 2, quotient: false } => {
                    sphere_sum::<2, 3, false>(
                        component,
                        form,
                        centres.view,
                        point,
                        cells,
                        order,
                        sums,
                    );
                }
                Shape::Sphere { dim: 3, quotient: false } => {
                    sphere_sum::<3, 4, false>(
                        component,
                        form,
                        centres.view,
                        point,
                        cells,
                        order,
                        sums,
                    );
                }
                Shape::Sphere { dim: 3, quotient: true } => {
                    sphere_sum::<3, 4, true>(
                        component,
                        form,
                        centres.view,
                        point,
                        cells,
                        order,
                        sums,
                    );
                }
                _ => product_sum(component, centres, point, cells, order, sums),
            },
            _ => product_sum(component, centres, point, cells, order, sums),
        }
    }

    /// Fills `work.cells` with the cells of the component and their shares.
    fn collect(&self, component: &Component, centres: Centres<'_>, work: &mut Workspace) {
        let Workspace { point, open, cells, .. } = work;
        let Centres { space, tree, all, view } = centres;
        let merge = self.accuracy.merge;
        let x = &point.inner[..];
        cells.clear();
        open.clear();
        open.push((0, 1.0));
        while let Some((index, share)) = open.pop() {
            let i = index as usize;
            if view.mass[i] == 0.0 {
                continue;
            }
            let node = &tree.nodes[i];
            let centre = &all.inner[i * space.width..(i + 1) * space.width];
            // The mean of a cell on a sphere is moved to the sphere by at most half of the squared radius.
            let radius = (node.radius + 0.5 * node.radius * node.radius) * component.per_distance;
            let bound = self.accuracy.reach + radius;
            if component.distance2(space, x, centre) > bound * bound {
                continue;
            }
            if node.is_leaf() {
                cells.push((index, share));
                continue;
            }
            let size = node.rms * component.per_length;
            if size < merge {
                let blend = ((merge - size) / ((1.0 - BLEND_FROM) * merge)).min(1.0);
                let kept = blend * blend * (3.0 - 2.0 * blend);
                cells.push((index, share * kept));
                if kept == 1.0 {
                    continue;
                }
                open.extend([
                    (node.right, share * (1.0 - kept)),
                    (index + 1, share * (1.0 - kept)),
                ]);
            } else {
                open.extend([(node.right, share), (index + 1, share)]);
            }
        }
    }
}

impl Component {
    /// Squared distance in standard deviations, blocks with a wide kernel left out.
    #[inline]
    fn distance2(&self, space: &Space, x: &[f64], centre: &[f64]) -> f64 {
        let mut total = 0.0;
        for (block, form) in space.blocks.iter().zip(&self.forms) {
            let (x, c) = (&x[block.inner.clone()], &centre[block.inner.clone()]);
            match (form, block.shape) {
                (Form::Narrow { half_precision, .. }, Shape::Sphere { quotient, .. }) => {
                    let mut q = 0.0;
                    for (x, c) in x.iter().zip(c) {
                        q += (x - c) * (x - c);
                    }
                    // |x + c|² = 4 − |x − c|²
                    let q = if quotient { q.min(4.0 - q) } else { q };
                    total += 2.0 * half_precision * q;
                }
                (Form::Gauss { precision, .. }, Shape::Circles { count }) => {
                    let mut q = 0.0;
                    for (x, c) in x[..count].iter().zip(c) {
                        let delta = wrapped(x - c);
                        q += delta * delta;
                    }
                    total += precision * q;
                }
                (Form::Gauss { precision, decay }, _) => {
                    let mut q = 0.0;
                    for (x, c) in x.iter().zip(c) {
                        let delta = x - decay * c;
                        q += delta * delta;
                    }
                    total += precision * q;
                }
                _ => {}
            }
        }
        total
    }
}

/// An angle's difference, in [−π, π].
#[inline]
fn wrapped(delta: f64) -> f64 {
    use std::f64::consts::{PI, TAU};
    // Both angles are in [−π, π].
    if delta > PI {
        delta - TAU
    } else if delta < -PI {
        delta + TAU
    } else {
        delta
    }
}

/// The sum on one sphere of dimension D (of unit quaternions, up to sign, with QUOTIENT).
fn sphere_sum<const D: usize, const W: usize, const QUOTIENT: bool>(
    component: &Component,
    form: &Form,
    view: &View,
    point: &Point,
    cells: &[(u32, f64)],
    order: Order,
    sums: &mut Sums,
) {
    let x: [f64; W] = std::array::from_fn(|j| point.inner[j]);
    let frame: [[f64; W]; D] =
        std::array::from_fn(|a| std::array::from_fn(|j| point.frame[a * W + j]));
    let per_variance = component.per_variance[0];
    let (mut value, mut first, mut second) = (0.0, [0.0; D], [[0.0; D]; D]);
    for &(index, share) in cells {
        let i = index as usize;
        let mut c: [f64; W] = std::array::from_fn(|j| view.inner[i * W + j]);
        let epsilon = view.variance[i] * per_variance;
        let weight = share * view.mass[i];
        // Value of K and its first and second derivative in t = ⟨x, c⟩.
        let (k, k1, k2, t);
        match form {
            Form::Narrow { half_precision, q_max, poly } => {
                let mut q = squared_distance(&x, &c);
                if QUOTIENT && q > 2.0 {
                    c = c.map(|v| -v);
                    q = squared_distance(&x, &c);
                }
                if q > *q_max {
                    continue;
                }
                let (k0, l1, l2) = narrow(*half_precision, *q_max, poly, q, epsilon, D as f64);
                t = 1.0 - 0.5 * q;
                k = weight * k0;
                // dq/dt = −2
                k1 = -2.0 * l1 * k;
                k2 = 4.0 * (l1 * l1 + l2) * k;
            }
            Form::Wide { value, change } => {
                t = dot(&x, &c);
                let (k0, k0_1, k0_2) = wide(value, change, t, epsilon, QUOTIENT);
                (k, k1, k2) = (weight * k0, weight * k0_1, weight * k0_2);
            }
            Form::Gauss { .. } => continue,
        }
        value += k;
        if order == Order::Value {
            continue;
        }
        let along: [f64; D] = std::array::from_fn(|a| dot(&frame[a], &c));
        for a in 0..D {
            first[a] += k1 * along[a];
        }
        if order == Order::Hessian {
            for a in 0..D {
                for b in 0..=a {
                    second[a][b] += k2 * along[a] * along[b];
                }
                second[a][a] -= t * k1;
            }
        }
    }
    // Lengths of rotations are √8 times those of quaternions.
    let unit: f64 = if QUOTIENT { 1.0 / super::space::QUATERNION_SCALE } else { 1.0 };
    sums.value = value;
    for a in 0..D {
        sums.first[a] = unit * first[a];
        for b in 0..=a {
            sums.second[a * D + b] = unit * unit * second[a][b];
        }
    }
}

#[inline]
fn squared_distance<const W: usize>(x: &[f64; W], c: &[f64; W]) -> f64 {
    let mut q = 0.0;
    for j in 0..W {
        q += (x[j] - c[j]) * (x[j] - c[j]);
    }
    q
}

/// K relative to the peak at ε = 0, d log K/dq and d² log K/dq²; the variance is (1 + ε)V, to second order in ε.
#[inline]
fn narrow(
    half_precision: f64,
    q_max: f64,
    poly: &[f64],
    q: f64,
    epsilon: f64,
    dim: f64,
) -> (f64, f64, f64) {
    let per_q = 2.0 / q_max;
    let (c, c1, c2) = horner(poly, per_q * q - 1.0);
    let precision = half_precision * (1.0 - epsilon + epsilon * epsilon);
    let spread = 0.5 * dim * epsilon * (1.0 - 0.5 * epsilon);
    ((c - precision * q - spread).exp(), per_q * c1 - precision, per_q * per_q * c2)
}

/// K relative to the peak at ε = 0, and its derivatives in t.
#[inline]
fn wide(value: &[f64], change: &[f64], t: f64, epsilon: f64, quotient: bool) -> (f64, f64, f64) {
    let y = if quotient { t * t } else { t };
    let (mut k, mut k1, mut k2) = horner(value, y);
    if epsilon > 0.0 {
        let (g, g1, g2) = horner(change, y);
        k += epsilon * g;
        k1 += epsilon * g1;
        k2 += epsilon * g2;
    }
    if quotient {
        // d/dt of a function of t²
        k2 = 2.0 * k1 + 4.0 * y * k2;
        k1 *= 2.0 * t;
    }
    (k, k1, k2)
}

/// The sum on any product.
fn product_sum(
    component: &Component,
    centres: Centres<'_>,
    point: &Point,
    cells: &[(u32, f64)],
    order: Order,
    sums: &mut Sums,
) {
    let Centres { space, view, .. } = centres;
    let d = space.dim;
    // ∇ log K, and the diagonal of its derivative; a sphere block has a full square more.
    let (mut slope, mut bend) = (scratch(d), scratch(d));
    let mut along = scratch(d);
    'cells: for &(index, share) in cells {
        let i = index as usize;
        let centre = &view.inner[i * space.width..(i + 1) * space.width];
        let (mut factor, mut exponent) = (share * view.mass[i], 0.0);
        let mut squares: smallvec::SmallVec<[f64; 4]> = smallvec::SmallVec::new();
        for (b, block) in space.blocks.iter().enumerate() {
            let (x, c) = (&point.inner[block.inner.clone()], &centre[block.inner.clone()]);
            let at = block.tangent.clone();
            let epsilon = view.variance[i] * component.per_variance[b];
            let mut square = 0.0;
            match (&component.forms[b], block.shape) {
                (Form::Gauss { precision, decay }, shape) => {
                    let precision = precision * (1.0 - epsilon + epsilon * epsilon);
                    let circles = matches!(shape, Shape::Circles { .. });
                    let mut q = 0.0;
                    for (j, a) in at.clone().enumerate() {
                        let delta =
                            if circles { wrapped(x[j] - c[j]) } else { x[j] - decay * c[j] };
                        q += delta * delta;
                        slope[a] = -precision * delta;
                        bend[a] = -precision;
                    }
                    exponent -=
                        0.5 * (precision * q + at.len() as f64 * epsilon * (1.0 - 0.5 * epsilon));
                }
                (Form::Wide { value, change }, Shape::Circles { count }) => {
                    for (j, a) in at.clone().enumerate() {
                        let (cos, sin) = (c[count + j], c[2 * count + j]);
                        let (own_cos, own_sin) = (x[count + j], x[2 * count + j]);
                        let t = own_cos * cos + own_sin * sin;
                        let sin = own_sin * cos - own_cos * sin;
                        let (k, k1, k2) = wide(value, change, t, epsilon, false);
                        let k = k.max(TINY);
                        factor *= k;
                        slope[a] = -sin * k1 / k;
                        bend[a] = (sin * sin * k2 - t * k1) / k - slope[a] * slope[a];
                    }
                }
                (form, Shape::Sphere { dim, quotient }) => {
                    let unit = if quotient { 1.0 / super::space::QUATERNION_SCALE } else { 1.0 };
                    let mut t = dot(x, c);
                    let (sign, l1, l2);
                    match form {
                        Form::Narrow { half_precision, q_max, poly } => {
                            sign = if quotient && t < 0.0 { -1.0 } else { 1.0 };
                            let q: f64 = x.iter().zip(c).map(|(x, c)| (x - sign * c).powi(2)).sum();
                            if q > *q_max {
                                continue 'cells;
                            }
                            t = 1.0 - 0.5 * q;
                            let (k, q1, q2) =
                                narrow(*half_precision, *q_max, poly, q, epsilon, dim as f64);
                            factor *= k;
                            (l1, l2) = (-2.0 * q1, 4.0 * q2);
                        }
                        Form::Wide { value, change } => {
                            sign = 1.0;
                            let (k, k1, k2) = wide(value, change, t, epsilon, quotient);
                            let k = k.max(TINY);
                            factor *= k;
                            (l1, l2) = (k1 / k, k2 / k - (k1 / k).powi(2));
                        }
                        Form::Gauss { .. } => continue,
                    }
                    square = l2;
                    let frame = &point.frame[block.frame..];
                    for (a, e) in at.clone().zip(frame.chunks_exact(dim + 1)) {
                        along[a] = sign * unit * dot(e, c);
                        slope[a] = l1 * along[a];
                        bend[a] = -t * l1 * unit * unit;
                    }
                }
                _ => {}
            }
            squares.push(square);
        }
        let k = factor * exponent.exp();
        sums.value += k;
        if order == Order::Value {
            continue;
        }
        crate::linalg::axpy(k, &slope, &mut sums.first);
        if order == Order::Hessian {
            for a in 0..d {
                let scaled = k * slope[a];
                for (second, slope) in sums.second[a * d..=a * d + a].iter_mut().zip(&slope) {
                    *second += scaled * slope;
                }
                sums.second[a * d + a] += k * bend[a];
            }
            for (block, square) in space.blocks.iter().zip(&squares) {
                if let Shape::Sphere { .. } = block.shape {
                    for a in block.tangent.clone() {
                        for b in block.tangent.start..=a {
                            sums.second[a * d + b] += k * square * along[a] * along[b];
                        }
                    }
                }
            }
        }
    }
}

/// Least value of a wide kernel relative to its peak: below it the series is rounding.
const TINY: f64 = 1e-15;
