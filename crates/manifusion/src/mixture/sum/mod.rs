//! Sums of kernels over the cells of a tree: the mixture's density, score and Hessian at one point.

mod blocks;
mod lanes;

use blocks::{CirclesSum, MAX_CIRCLES, ProductSum, SphereSum, Sum, Terms, Vectorised};

use super::radial::{Radial, RadialForm};
use super::space::{Point, Shape, Space};
use super::tree::{CellWeights, Tree};
use crate::prior::Prior;

/// Bandwidths whose squares are below this share of the noise time act as one kernel of their mean
/// variance. The relative error is of second order in half of it.
const COINCIDENT: f64 = 0.02;
/// Cells between this share of the opening size and the opening size are blended with their
/// children, so that the field is smooth in the noise time.
const BLEND_FROM: f64 = 0.8;

/// Cells farther out are merged and dropped by what they contribute to the density found so far:
/// their share of it times their squared size in standard deviations, and the share itself, at
/// most.
const FAR_MERGE: f64 = 1e-5;
const FAR_DROP: f64 = 1e-9;

/// How finely sums are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accuracy {
    /// Cells are merged when their root mean square radius is below this many standard deviations
    /// of the kernel.
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
    /// Largest weight of a bandwidth, and of all bandwidths from it on, over the centres, where
    /// these have weights of their own.
    largest: Option<Largest>,
}

/// See [`Kernels::largest`].
#[derive(Clone, Debug)]
struct Largest {
    own: Vec<f64>,
    from: Vec<f64>,
}

/// One bandwidth at one noise time.
#[derive(Clone, Debug)]
struct Component {
    /// log of weight times peak; of the peak alone where the centres have weights of their own.
    log_factor: f64,
    /// log of the largest weight of a centre, beyond `log_factor`.
    log_weight: f64,
    /// First and last-but-one bandwidth that it stands for.
    bands: (usize, usize),
    forms: Vec<RadialForm>,
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
    pub(super) all: &'a CellWeights,
    /// The points that are summed.
    pub(super) view: &'a CellWeights,
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
        local: Option<&[f64]>,
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
        let largest = local.map(|local| {
            let bands = weights.len();
            let (mut own, mut from) = (vec![0.0f64; bands], vec![0.0f64; bands]);
            for centre in local.chunks_exact(bands) {
                let mut sum = 0.0;
                for k in (0..bands).rev() {
                    sum += centre[k];
                    own[k] = own[k].max(centre[k]);
                    from[k] = from[k].max(sum);
                }
            }
            Largest { own, from }
        });
        Self { radials, accuracy, squares, weights, prior_weight, largest }
    }

    /// The mixture's components after noise for time s.
    pub(super) fn at(&self, space: &Space, s: f64) -> Noised {
        let mut merged = (0.0, 0.0);
        let mut components = Vec::with_capacity(self.squares.len());
        for (k, (&square, &weight)) in self.squares.iter().zip(&self.weights).enumerate() {
            if self.accuracy.merge > 0.0 && square < COINCIDENT * s {
                merged = (merged.0 + weight, merged.1 + weight * square);
            } else {
                let largest = self.largest.as_ref().map(|largest| largest.own[k]);
                components.push(self.component(space, square, (weight, largest), (k, k + 1), s));
            }
        }
        if merged.0 > 0.0 {
            // Bandwidths descend, so that the last ones are merged.
            let bands = (components.len(), self.squares.len());
            let largest = self.largest.as_ref().map(|largest| largest.from[bands.0]);
            let square = merged.1 / merged.0;
            components.push(self.component(space, square, (merged.0, largest), bands, s));
        }
        Noised { components, accuracy: self.accuracy, prior_weight: self.prior_weight }
    }

    /// `weight`: of all centres, and the largest of one that has its own.
    fn component(
        &self,
        space: &Space,
        square: f64,
        weight: (f64, Option<f64>),
        bands: (usize, usize),
        s: f64,
    ) -> Component {
        let mut component = Component {
            log_factor: if weight.1.is_some() { 0.0 } else { weight.0.ln() },
            log_weight: weight.1.map_or(0.0, f64::ln),
            bands,
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
            if !matches!(form, RadialForm::Wide { .. }) {
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
    /// log p at the point x that is placed in `work.point`; with `order`, score and Hessian of log
    /// p in tangent components.
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
        // Narrow kernels first: near the data they are few and make most of the density, so that
        // wide ones can be coarse.
        for component in self.components.iter().rev() {
            let log_factor = component.log_factor - centres.view.total.ln();
            let log_share = if self.accuracy.merge > 0.0 {
                log_factor + component.log_weight - reference - total.ln()
            } else {
                f64::INFINITY
            };
            self.sum(component, log_share, centres, order, work);
            let Workspace { sums, score, hessian, .. } = work;
            if !(sums.value > 0.0) {
                continue;
            }
            // The reference is the largest term so far, so that nothing overflows in high
            // dimension.
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

    /// The log of each component's density at the point in `work.point`, without its weight: the
    /// mean of K with the point's own kernel left out. The error is small beside the sum of all
    /// components, whatever weights above 1e-3 they will have. Where centres have weights of their
    /// own, these are part of it, and `own` are the point's.
    pub(super) fn leave_one_out(
        &self,
        centres: Centres<'_>,
        own: Option<&[f64]>,
        work: &mut Workspace,
        out: &mut [f64],
    ) {
        const SMALLEST_WEIGHT: f64 = 1e-3;
        let log_others = (centres.view.total - 1.0).ln();
        let mut log_total = f64::NEG_INFINITY;
        for (k, (component, out)) in self.components.iter().zip(out).enumerate().rev() {
            let log_factor = component.log_factor - log_others;
            let log_share = log_factor + component.log_weight - log_total - SMALLEST_WEIGHT.ln();
            self.sum(component, log_share, centres, Order::Value, work);
            // The own kernel is one peak; merging may leave a little less than it.
            let mass = own.map_or(1.0, |own| own[k]);
            let others = work.sums.value - mass;
            *out = if others > TINY * mass { log_factor + others.ln() } else { f64::NEG_INFINITY };
            log_total = crate::linalg::log_sum_exp(&[log_total, *out]);
        }
    }

    /// Fills `work.sums` for one component; `log_share` is the log of what one point at the peak
    /// adds to the density found so far, relative to it.
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
        let terms = Terms { component, view: centres.view, point, cells, order, sums };
        match centres.space.only_shape() {
            Some(Shape::Sphere { dim: 2, quotient: false }) => {
                arch.dispatch(Vectorised(SphereSum::<2, 3, false>(terms)));
            }
            Some(Shape::Sphere { dim: 3, quotient: false }) => {
                arch.dispatch(Vectorised(SphereSum::<3, 4, false>(terms)));
            }
            Some(Shape::Sphere { dim: 3, quotient: true }) => {
                arch.dispatch(Vectorised(SphereSum::<3, 4, true>(terms)));
            }
            Some(Shape::Circles { count }) if count <= MAX_CIRCLES => {
                arch.dispatch(Vectorised(CirclesSum { count, terms }));
            }
            _ => ProductSum { space: centres.space, terms }.fill(),
        }
    }

    /// Fills `work.cells` with the cells of the component and their masses.
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
            if kept > 0.0 {
                let mass = view.mass_of(index as usize, component.bands);
                if mass > 0.0 {
                    cells.push((index, share * kept * mass));
                }
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

/// Value (one), gradient and Hessian of the prior's density relative to its value: −x and xxᵀ − I
/// on ℝ^d, zero elsewhere.
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

/// From derivatives of p to those of log p, from unit quaternions to rotations, and the upper
/// triangle.
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
        let RadialForm::Narrow { half_precision, .. } = &self.forms[0] else { return 0.0 };
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
                (RadialForm::Narrow { half_precision, .. }, Shape::Sphere { quotient, .. }) => {
                    let mut q = 0.0;
                    for (x, c) in x.iter().zip(c) {
                        q += (x - c) * (x - c);
                    }
                    // |x + c|² = 4 − |x − c|²
                    let q = if quotient { q.min(4.0 - q) } else { q };
                    total += 2.0 * half_precision * q;
                }
                (RadialForm::Gauss { precision, .. }, Shape::Circles { count }) => {
                    let mut q = 0.0;
                    for (x, c) in x[..count].iter().zip(c) {
                        let delta = wrapped(x - c);
                        q += delta * delta;
                    }
                    total += precision * q;
                }
                (RadialForm::Gauss { precision, decay }, _) => {
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

/// Least value of a wide kernel relative to its peak: below it the series is rounding.
const TINY: f64 = 1e-15;
