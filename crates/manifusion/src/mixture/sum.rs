//! Sums of kernels over the cells of a tree: the mixture's density, score and Hessian at one point.

use super::radial::{Form, Radial, horner};
use super::space::{Point, QUATERNION_SCALE, Shape, Space};
use super::tree::{Tree, View};
use pulp::{Simd, WithSimd};

use crate::linalg::{dot, scratch};
use crate::prior::Prior;

/// Bandwidths whose squares are below this share of the noise time act as one kernel of their mean variance. The relative error is
/// of second order in half of it.
const COINCIDENT: f64 = 0.02;
/// Cells between this share of the opening size and the opening size are blended with their children, so that the field is smooth in
/// the noise time.
const BLEND_FROM: f64 = 0.8;

/// Cells farther out are merged and dropped by what they contribute to the density found so far: their share of it times their squared
/// size in standard deviations, and the share itself, at most.
const FAR_MERGE: f64 = 1e-5;
const FAR_DROP: f64 = 1e-9;

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
        let radial = |shape| {
            if accuracy.tabulated {
                Radial::tabulated(shape, accuracy.reach)
            } else {
                Radial::exact(shape, accuracy.reach)
            }
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
        let mut total: f64 = 1.0;
        work.score.clear();
        work.score.resize(d, 0.0);
        work.hessian.clear();
        work.hessian.resize(if order == Order::Hessian { d * d } else { 0 }, 0.0);
        add_prior(centres.space, order, work);
        // Narrow kernels first: near the data they are few and make most of the density, so that wide ones can be coarse.
        for component in self.components.iter().rev() {
            let log_factor = component.log_factor - centres.view.total.ln();
            let log_share = if self.accuracy.merge > 0.0 {
                log_factor - reference - total.ln()
            } else {
                f64::INFINITY
            };
            self.sum(component, log_share, centres, order, work);
            let Workspace { sums, score, hessian, .. } = work;
            if !(sums.value > 0.0) {
                continue;
            }
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
        finish(d, order, total, work);
        reference + total.ln()
    }

    /// The log of each component's density at the point in `work.point`, without its weight: the mean of K with the point's own kernel
    /// left out. The error is small beside the sum of all components, whatever weights above 1e-3 they will have.
    pub(super) fn leave_one_out(
        &self,
        centres: Centres<'_>,
        work: &mut Workspace,
        out: &mut [f64],
    ) {
        const SMALLEST_WEIGHT: f64 = 1e-3;
        let log_others = (centres.view.total - 1.0).ln();
        let mut log_total = f64::NEG_INFINITY;
        for (component, out) in self.components.iter().zip(out).rev() {
            let log_factor = component.log_factor - log_others;
            let log_share = log_factor - log_total - SMALLEST_WEIGHT.ln();
            self.sum(component, log_share, centres, Order::Value, work);
            // The own kernel is one peak; merging may leave a little less than it.
            let others = work.sums.value - 1.0;
            *out = if others > TINY { log_factor + others.ln() } else { f64::NEG_INFINITY };
            log_total = crate::linalg::log_sum_exp(&[log_total, *out]);
        }
    }

    /// Fills `work.sums` for one component; `log_share` is the log of what one point at the peak adds to the density found so far,
    /// relative to it.
    fn sum(
        &self,
        component: &Component,
        log_share: f64,
        centres: Centres<'_>,
        order: Order,
        work: &mut Workspace,
    ) {
        match centres.space.only_shape() {
            Some(Shape::Sphere { dim: 2, quotient: false }) => {
                let distance2 = |x: &[f64], c: &[f64]| component.sphere_distance2::<3, false>(x, c);
                self.collect(component, log_share, centres, distance2, work);
            }
            Some(Shape::Sphere { dim: 3, quotient: true }) => {
                let distance2 = |x: &[f64], c: &[f64]| component.sphere_distance2::<4, true>(x, c);
                self.collect(component, log_share, centres, distance2, work);
            }
            _ => {
                let distance2 = |x: &[f64], c: &[f64]| component.distance2(centres.space, x, c);
                self.collect(component, log_share, centres, distance2, work);
            }
        }
        let Workspace { point, cells, sums, .. } = work;
        let d = centres.space.dim;
        sums.value = 0.0;
        sums.first.clear();
        sums.first.resize(d, 0.0);
        sums.second.clear();
        sums.second.resize(d * d, 0.0);
        let arch = pulp::Arch::new();
        let view = centres.view;
        match centres.space.only_shape() {
            Some(Shape::Sphere { dim: 2, quotient: false }) => {
                arch.dispatch(SphereSum::<2, 3, false> {
                    component,
                    view,
                    point,
                    cells,
                    order,
                    sums,
                });
            }
            Some(Shape::Sphere { dim: 3, quotient: false }) => {
                arch.dispatch(SphereSum::<3, 4, false> {
                    component,
                    view,
                    point,
                    cells,
                    order,
                    sums,
                });
            }
            Some(Shape::Sphere { dim: 3, quotient: true }) => {
                arch.dispatch(SphereSum::<3, 4, true> {
                    component,
                    view,
                    point,
                    cells,
                    order,
                    sums,
                });
            }
            Some(Shape::Circles { count }) if count <= MAX_CIRCLES => {
                arch.dispatch(CirclesSum { count, component, view, point, cells, order, sums });
            }
            _ => product_sum(component, centres, point, cells, order, sums),
        }
    }

    /// Fills `work.cells` with the cells of the component and their shares.
    #[inline]
    fn collect(
        &self,
        component: &Component,
        log_share: f64,
        centres: Centres<'_>,
        distance2: impl Fn(&[f64], &[f64]) -> f64,
        work: &mut Workspace,
    ) {
        let Workspace { point, open, cells, .. } = work;
        let Centres { space, tree, all, view } = centres;
        let merge = self.accuracy.merge;
        let per_blend = 1.0 / ((1.0 - BLEND_FROM) * merge.max(f64::MIN_POSITIVE));
        let log_drop = log_share - FAR_DROP.ln();
        let log_merge = log_share - FAR_MERGE.ln() + 2.0 * component.per_length.ln();
        let (x, width, nodes) = (&point.inner[..], space.width, &tree.nodes[..]);
        cells.clear();
        open.clear();
        let (mut index, mut share) = (0, 1.0);
        loop {
            let node = &nodes[index as usize];
            let at = index as usize * width;
            let distance = distance2(x, &all.inner[at..at + width]).sqrt();
            let apart = (distance - node.reach * component.per_distance).max(0.0);
            let log_kernel = node.log_mass - 0.5 * apart * apart;
            let dropped = apart > self.accuracy.reach || log_kernel + log_drop < 0.0;
            let size = node.rms * component.per_length;
            // The share of the cell as one kernel; its children have the rest.
            let kept = if dropped {
                0.0
            } else if node.is_leaf() || log_kernel + log_merge + node.log_square < 0.0 {
                1.0
            } else {
                let blend = (merge - size) * per_blend;
                if blend >= 1.0 {
                    1.0
                } else if blend <= 0.0 {
                    0.0
                } else {
                    blend * blend * (3.0 - 2.0 * blend)
                }
            };
            if kept > 0.0 && view.mass[index as usize] > 0.0 {
                cells.push((index, share * kept));
            }
            if !dropped && kept < 1.0 {
                share *= 1.0 - kept;
                open.push((node.right, share));
                index += 1;
            } else if let Some(next) = open.pop() {
                (index, share) = next;
            } else {
                break;
            }
        }
    }
}

/// Value (one), gradient and Hessian of the prior's density relative to its value: −x and xxᵀ − I on ℝ^d, zero elsewhere.
fn add_prior(space: &Space, order: Order, work: &mut Workspace) {
    let Workspace { point, score, hessian, .. } = work;
    for block in &space.blocks {
        let Shape::Flat { .. } = block.shape else { continue };
        for (v, x) in score[block.tangent.clone()].iter_mut().zip(&point.inner[block.inner.clone()])
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
fn finish(d: usize, order: Order, total: f64, work: &mut Workspace) {
    let Workspace { score, hessian, .. } = work;
    for v in score.iter_mut() {
        *v /= total;
    }
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

impl Component {
    /// [`Component::distance2`] on one sphere.
    #[inline]
    fn sphere_distance2<const W: usize, const QUOTIENT: bool>(&self, x: &[f64], c: &[f64]) -> f64 {
        let Form::Narrow { half_precision, .. } = &self.forms[0] else { return 0.0 };
        let mut q = 0.0;
        for j in 0..W {
            q += (x[j] - c[j]) * (x[j] - c[j]);
        }
        // |x + c|² = 4 − |x − c|²
        2.0 * half_precision * if QUOTIENT { q.min(4.0 - q) } else { q }
    }

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

/// The sum on one sphere of dimension D (of unit quaternions, up to sign, with QUOTIENT), four cells at a time.
struct SphereSum<'a, const D: usize, const W: usize, const QUOTIENT: bool> {
    component: &'a Component,
    view: &'a View,
    point: &'a Point,
    cells: &'a [(u32, f64)],
    order: Order,
    sums: &'a mut Sums,
}

const LANES: usize = 4;
type Lanes = [f64; LANES];

impl<const D: usize, const W: usize, const QUOTIENT: bool> WithSimd
    for SphereSum<'_, D, W, QUOTIENT>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.order {
            Order::Value => self.run::<0>(),
            Order::Score => self.run::<1>(),
            Order::Hessian => self.run::<2>(),
        }
    }
}

impl<const D: usize, const W: usize, const QUOTIENT: bool> SphereSum<'_, D, W, QUOTIENT> {
    #[inline(always)]
    fn run<const ORDER: usize>(self) {
        let Self { component, view, point, cells, sums, .. } = self;
        let x: [f64; W] = std::array::from_fn(|j| point.inner[j]);
        let frame: [[f64; W]; D] =
            std::array::from_fn(|a| std::array::from_fn(|j| point.frame[a * W + j]));
        let per_variance = component.per_variance[0];
        let mut value = [0.0; LANES];
        let mut first = [[0.0; LANES]; D];
        let mut second = [[[0.0; LANES]; D]; D];
        for cells in cells.chunks(LANES) {
            let mut c = [[0.0; LANES]; W];
            let (mut epsilon, mut weight) = ([0.0; LANES], [0.0; LANES]);
            for l in 0..LANES {
                // Lanes beyond the last cell repeat it without weight.
                let (index, share) = cells[l.min(cells.len() - 1)];
                let i = index as usize;
                for j in 0..W {
                    c[j][l] = view.inner[i * W + j];
                }
                epsilon[l] = view.variance[i] * per_variance;
                weight[l] = if l < cells.len() { share * view.mass[i] } else { 0.0 };
            }
            // K and its first and second derivative in t = ⟨x, c⟩.
            let (k, k1, k2, t);
            match &component.forms[0] {
                Form::Narrow { half_precision, q_max, poly } => {
                    if QUOTIENT {
                        let mut t = [0.0; LANES];
                        for j in 0..W {
                            for l in 0..LANES {
                                t[l] += x[j] * c[j][l];
                            }
                        }
                        for j in 0..W {
                            for l in 0..LANES {
                                c[j][l] = if t[l] < 0.0 { -c[j][l] } else { c[j][l] };
                            }
                        }
                    }
                    let mut q = [0.0; LANES];
                    for j in 0..W {
                        for l in 0..LANES {
                            q[l] += (x[j] - c[j][l]) * (x[j] - c[j][l]);
                        }
                    }
                    for l in 0..LANES {
                        weight[l] = if q[l] <= *q_max { weight[l] } else { 0.0 };
                        q[l] = q[l].min(*q_max);
                    }
                    let per_q = 2.0 / q_max;
                    let y = q.map(|q| per_q * q - 1.0);
                    let (p, p1, p2) = horner_lanes::<ORDER>(poly, &y);
                    let mut exponent = [0.0; LANES];
                    let (mut l1, mut l2) = ([0.0; LANES], [0.0; LANES]);
                    for l in 0..LANES {
                        // The variance is (1 + ε)V, to second order in ε.
                        let e = epsilon[l];
                        let precision = half_precision * (1.0 - e + e * e);
                        exponent[l] =
                            p[l] - precision * q[l] - 0.5 * D as f64 * e * (1.0 - 0.5 * e);
                        l1[l] = per_q * p1[l] - precision;
                        l2[l] = per_q * per_q * p2[l];
                    }
                    let e = exp_lanes(&exponent);
                    t = q.map(|q| 1.0 - 0.5 * q);
                    k = map2(&weight, &e, |w, e| w * e);
                    // dq/dt = −2
                    k1 = map2(&k, &l1, |k, l1| -2.0 * l1 * k);
                    let mut both = [0.0; LANES];
                    for l in 0..LANES {
                        both[l] = 4.0 * (l1[l] * l1[l] + l2[l]) * k[l];
                    }
                    k2 = both;
                }
                Form::Wide { value, change } => {
                    let mut cosine = [0.0; LANES];
                    for j in 0..W {
                        for l in 0..LANES {
                            cosine[l] += x[j] * c[j][l];
                        }
                    }
                    let y = if QUOTIENT { cosine.map(|t| t * t) } else { cosine };
                    let (mut p, mut p1, mut p2) = horner_lanes::<ORDER>(value, &y);
                    if epsilon.iter().any(|e| *e > 0.0) {
                        let (g, g1, g2) = horner_lanes::<ORDER>(change, &y);
                        for l in 0..LANES {
                            p[l] += epsilon[l] * g[l];
                            p1[l] += epsilon[l] * g1[l];
                            p2[l] += epsilon[l] * g2[l];
                        }
                    }
                    if QUOTIENT {
                        // d/dt of a function of t²
                        for l in 0..LANES {
                            p2[l] = 2.0 * p1[l] + 4.0 * y[l] * p2[l];
                            p1[l] *= 2.0 * cosine[l];
                        }
                    }
                    t = cosine;
                    k = map2(&weight, &p, |w, p| w * p);
                    k1 = map2(&weight, &p1, |w, p| w * p);
                    k2 = map2(&weight, &p2, |w, p| w * p);
                }
                Form::Gauss { .. } => return,
            }
            for l in 0..LANES {
                value[l] += k[l];
            }
            if ORDER == 0 {
                continue;
            }
            let mut along = [[0.0; LANES]; D];
            for a in 0..D {
                for j in 0..W {
                    for l in 0..LANES {
                        along[a][l] += frame[a][j] * c[j][l];
                    }
                }
                for l in 0..LANES {
                    first[a][l] += k1[l] * along[a][l];
                }
            }
            if ORDER == 2 {
                for a in 0..D {
                    for b in 0..=a {
                        for l in 0..LANES {
                            second[a][b][l] += k2[l] * along[a][l] * along[b][l];
                        }
                    }
                    for l in 0..LANES {
                        second[a][a][l] -= t[l] * k1[l];
                    }
                }
            }
        }
        // Lengths of rotations are √8 times those of quaternions.
        let unit: f64 = if QUOTIENT { 1.0 / QUATERNION_SCALE } else { 1.0 };
        sums.value = total(&value);
        for a in 0..D {
            sums.first[a] = unit * total(&first[a]);
            for b in 0..=a {
                sums.second[a * D + b] = unit * unit * total(&second[a][b]);
            }
        }
    }
}

/// The sum on a torus of at most [`MAX_CIRCLES`] circles, four cells at a time.
struct CirclesSum<'a> {
    count: usize,
    component: &'a Component,
    view: &'a View,
    point: &'a Point,
    cells: &'a [(u32, f64)],
    order: Order,
    sums: &'a mut Sums,
}

const MAX_CIRCLES: usize = 8;

impl WithSimd for CirclesSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.order {
            Order::Value => self.run::<0>(),
            Order::Score => self.run::<1>(),
            Order::Hessian => self.run::<2>(),
        }
    }
}

impl CirclesSum<'_> {
    #[inline(always)]
    fn run<const ORDER: usize>(self) {
        let Self { count, component, view, point, cells, sums, .. } = self;
        let per_variance = component.per_variance[0];
        let (width, x) = (3 * count, &point.inner[..3 * count]);
        let mut value = [0.0; LANES];
        let mut first = [[0.0; LANES]; MAX_CIRCLES];
        let mut second = [[[0.0; LANES]; MAX_CIRCLES]; MAX_CIRCLES];
        for cells in cells.chunks(LANES) {
            // Lanes beyond the last cell repeat it without weight.
            let cell: [usize; LANES] =
                std::array::from_fn(|l| cells[l.min(cells.len() - 1)].0 as usize);
            let mut k: Lanes = std::array::from_fn(|l| {
                if l < cells.len() { cells[l].1 * view.mass[cell[l]] } else { 0.0 }
            });
            let epsilon = cell.map(|i| view.variance[i] * per_variance);
            let gather = |j: usize| -> Lanes { cell.map(|i| view.inner[i * width + j]) };
            // ∇ log K and the diagonal of its derivative.
            let (mut slope, mut bend) = ([[0.0; LANES]; MAX_CIRCLES], [[0.0; LANES]; MAX_CIRCLES]);
            match &component.forms[0] {
                Form::Gauss { precision, .. } => {
                    let precision = epsilon.map(|e| precision * (1.0 - e + e * e));
                    let mut q = [0.0; LANES];
                    for j in 0..count {
                        let c = gather(j);
                        for l in 0..LANES {
                            let delta = wrapped(x[j] - c[l]);
                            q[l] += delta * delta;
                            slope[j][l] = -precision[l] * delta;
                            bend[j][l] = -precision[l];
                        }
                    }
                    let exponent = std::array::from_fn(|l| {
                        let e = epsilon[l];
                        -0.5 * (precision[l] * q[l] + count as f64 * e * (1.0 - 0.5 * e))
                    });
                    k = map2(&k, &exp_lanes(&exponent), |k, e| k * e);
                }
                Form::Wide { value, change } => {
                    let merged = epsilon.iter().any(|e| *e > 0.0);
                    for j in 0..count {
                        let (cos, sin) = (gather(count + j), gather(2 * count + j));
                        let (own_cos, own_sin) = (x[count + j], x[2 * count + j]);
                        let t = map2(&cos, &sin, |cos, sin| own_cos * cos + own_sin * sin);
                        let sin = map2(&cos, &sin, |cos, sin| own_sin * cos - own_cos * sin);
                        let (mut p, mut p1, mut p2) = horner_lanes::<ORDER>(value, &t);
                        if merged {
                            let (g, g1, g2) = horner_lanes::<ORDER>(change, &t);
                            for l in 0..LANES {
                                p[l] += epsilon[l] * g[l];
                                p1[l] += epsilon[l] * g1[l];
                                p2[l] += epsilon[l] * g2[l];
                            }
                        }
                        for l in 0..LANES {
                            let p = if p[l] > TINY { p[l] } else { TINY };
                            k[l] *= p;
                            slope[j][l] = -sin[l] * p1[l] / p;
                            bend[j][l] = (sin[l] * sin[l] * p2[l] - t[l] * p1[l]) / p
                                - slope[j][l] * slope[j][l];
                        }
                    }
                }
                Form::Narrow { .. } => return,
            }
            for l in 0..LANES {
                value[l] += k[l];
            }
            if ORDER == 0 {
                continue;
            }
            for a in 0..count {
                let scaled = map2(&k, &slope[a], |k, v| k * v);
                for l in 0..LANES {
                    first[a][l] += scaled[l];
                }
                if ORDER == 2 {
                    for b in 0..=a {
                        for l in 0..LANES {
                            second[a][b][l] += scaled[l] * slope[b][l];
                        }
                    }
                    for l in 0..LANES {
                        second[a][a][l] += k[l] * bend[a][l];
                    }
                }
            }
        }
        sums.value = total(&value);
        for a in 0..count {
            sums.first[a] = total(&first[a]);
            for b in 0..=a {
                sums.second[a * count + b] = total(&second[a][b]);
            }
        }
    }
}

#[inline(always)]
fn total(lanes: &Lanes) -> f64 {
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

#[inline(always)]
fn map2(a: &Lanes, b: &Lanes, f: impl Fn(f64, f64) -> f64) -> Lanes {
    std::array::from_fn(|l| f(a[l], b[l]))
}

/// Value and, up to ORDER, derivatives of a polynomial.
#[inline(always)]
fn horner_lanes<const ORDER: usize>(c: &[f64], y: &Lanes) -> (Lanes, Lanes, Lanes) {
    let (mut value, mut first, mut second) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for c in c.iter().rev() {
        for l in 0..LANES {
            if ORDER > 1 {
                second[l] = second[l] * y[l] + first[l];
            }
            if ORDER > 0 {
                first[l] = first[l] * y[l] + value[l];
            }
            value[l] = value[l] * y[l] + c;
        }
    }
    (value, first, second.map(|v| 2.0 * v))
}

/// exp for arguments up to 700, to 2e-15; 0 below −700. Vectorised, unlike the library's.
#[inline(always)]
fn exp_lanes(x: &Lanes) -> Lanes {
    /// 1/n!, highest first.
    const TAYLOR: [f64; 13] = [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    // 1.5·2⁵²: adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        let clamped = if x[l] > -700.0 { x[l] } else { -700.0 };
        let shifted = clamped * std::f64::consts::LOG2_E + ROUND;
        let k = shifted - ROUND;
        // ln 2 in two parts, the first with 32 bits, so that k times it is exact.
        let r = (clamped - k * 0.693_147_180_369_123_8) - k * 1.908_214_929_270_587_7e-10;
        let mut sum = TAYLOR[0];
        for c in &TAYLOR[1..] {
            sum = sum * r + c;
        }
        let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
        out[l] = if x[l] > -700.0 { sum * power } else { 0.0 };
    }
    out
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
                    let unit = if quotient { 1.0 / QUATERNION_SCALE } else { 1.0 };
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
