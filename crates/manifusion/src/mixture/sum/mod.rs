//! Sums of kernels over the cells of a tree: the mixture's density at one point.

mod blocks;
mod lanes;

use blocks::{CirclesSum, SphereSum, Terms, product_sum};

use super::radial::{Radial, RadialForm};
use super::space::{Shape, Space};
use super::tree::{CellWeights, Tree};
use crate::prior::Prior;

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
}

impl Accuracy {
    /// Every centre by itself.
    pub(super) fn exact(dim: usize) -> Self {
        Self { merge: 0.0, reach: (dim as f64).sqrt() + 8.5 }
    }

    /// With merged cells; `merge` in standard deviations.
    pub(super) fn merged(dim: usize, merge: f64) -> Self {
        Self { merge, reach: (dim as f64).sqrt() + 5.0 }
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
    /// Largest weight of a bandwidth over the centres, where these have weights of their own.
    largest: Option<Vec<f64>>,
}

/// One bandwidth at one noise time.
#[derive(Clone, Debug)]
struct Component {
    /// log of weight times peak; of the peak alone where the centres have weights of their own.
    log_factor: f64,
    /// log of the largest weight of a centre, beyond `log_factor`.
    log_weight: f64,
    /// The number of its bandwidth.
    band: usize,
    forms: Vec<RadialForm>,
    /// ρ²/T of each block: cell variances in units of the kernel's.
    per_variance: Vec<f64>,
    /// Largest ρ/√T over all blocks, and over those that are not wide.
    per_length: f64,
    per_distance: f64,
}

/// The centres, as the sums see them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Centres<'a> {
    pub(super) space: &'a Space,
    pub(super) tree: &'a Tree,
    pub(super) weights: &'a CellWeights,
}

/// Buffers of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Workspace {
    /// The point, in internal coordinates.
    pub(super) x: Vec<f64>,
    open: Vec<u32>,
    /// Cells with their masses.
    cells: Vec<(u32, f64)>,
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
        let radial = |shape| Radial::new(shape, accuracy.reach);
        let radials = space.blocks.iter().map(|b| radial(b.shape)).collect();
        let (squares, weights) = (squares.to_vec(), weights.to_vec());
        let largest = local.map(|local| {
            let mut largest = vec![0.0f64; weights.len()];
            for centre in local.chunks_exact(weights.len()) {
                for (largest, weight) in largest.iter_mut().zip(centre) {
                    *largest = largest.max(*weight);
                }
            }
            largest
        });
        Self { radials, accuracy, squares, weights, prior_weight, largest }
    }

    /// The mixture's components after noise for time s.
    pub(super) fn at(&self, space: &Space, s: f64) -> Noised {
        let component = |k: usize| {
            let largest = self.largest.as_ref().map(|largest| largest[k]);
            self.component(space, self.squares[k], (self.weights[k], largest), k, s)
        };
        let components = (0..self.squares.len()).map(component).collect();
        Noised { components, accuracy: self.accuracy, prior_weight: self.prior_weight }
    }

    /// `weight`: of all centres, and the largest of one that has its own.
    fn component(
        &self,
        space: &Space,
        square: f64,
        weight: (f64, Option<f64>),
        band: usize,
        s: f64,
    ) -> Component {
        let mut component = Component {
            log_factor: if weight.1.is_some() { 0.0 } else { weight.0.ln() },
            log_weight: weight.1.map_or(0.0, f64::ln),
            band,
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
    /// log p at the point `x` whose internal coordinates are `work.x`.
    pub(super) fn log_density(
        &self,
        centres: Centres<'_>,
        prior: &dyn Prior,
        x: &[f64],
        work: &mut Workspace,
    ) -> f64 {
        let mut terms = vec![self.prior_weight.ln() + prior.log_density(x)];
        for component in &self.components {
            let log_factor = component.log_factor - centres.weights.total.ln();
            terms.push(log_factor + self.sum(component, f64::INFINITY, centres, work).ln());
        }
        crate::linalg::log_sum_exp(&terms)
    }

    /// The log of each component's density at the point in `work.x`, without its weight: the
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
        let log_others = (centres.weights.total - 1.0).ln();
        let mut log_total = f64::NEG_INFINITY;
        for (k, (component, out)) in self.components.iter().zip(out).enumerate().rev() {
            let log_factor = component.log_factor - log_others;
            let log_share = log_factor + component.log_weight - log_total - SMALLEST_WEIGHT.ln();
            let sum = self.sum(component, log_share, centres, work);
            // The own kernel is one peak; merging may leave a little less than it.
            let mass = own.map_or(1.0, |own| own[k]);
            let others = sum - mass;
            *out = if others > TINY * mass { log_factor + others.ln() } else { f64::NEG_INFINITY };
            log_total = crate::linalg::log_sum_exp(&[log_total, *out]);
        }
    }

    /// Σ m K of one component; `log_share` is the log of what one point at the peak adds to the
    /// density found so far, relative to it.
    fn sum(
        &self,
        component: &Component,
        log_share: f64,
        centres: Centres<'_>,
        work: &mut Workspace,
    ) -> f64 {
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
        let Workspace { x, cells, .. } = work;
        let arch = pulp::Arch::new();
        let terms = Terms { component, weights: centres.weights, x, cells };
        match centres.space.only_shape() {
            Some(Shape::Sphere { dim: 2, quotient: false }) => {
                arch.dispatch(SphereSum::<2, 3, false>(terms))
            }
            Some(Shape::Sphere { dim: 3, quotient: false }) => {
                arch.dispatch(SphereSum::<3, 4, false>(terms))
            }
            Some(Shape::Sphere { dim: 3, quotient: true }) => {
                arch.dispatch(SphereSum::<3, 4, true>(terms))
            }
            Some(Shape::Circles { count }) => arch.dispatch(CirclesSum { count, terms }),
            _ => product_sum(centres.space, &terms),
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
        let Workspace { x, open, cells } = work;
        let Centres { space, tree, weights } = centres;
        let log_drop = log_share - FAR_DROP.ln();
        let log_merge = log_share - FAR_MERGE.ln() + 2.0 * component.per_length.ln();
        let (width, nodes) = (space.width, &tree.nodes[..]);
        cells.clear();
        open.clear();
        let mut index = 0;
        loop {
            let node = &nodes[index as usize];
            let at = index as usize * width;
            let distance = distance2(x, &weights.inner[at..at + width]).sqrt();
            let apart = (distance - node.reach * component.per_distance).max(0.0);
            let log_kernel = node.log_mass - 0.5 * apart * apart;
            let dropped = apart > self.accuracy.reach || log_kernel + log_drop < 0.0;
            let is_one = node.is_leaf()
                || log_kernel + log_merge + node.log_square < 0.0
                || node.rms * component.per_length < self.accuracy.merge;
            if !dropped && is_one {
                let mass = weights.mass_of(index as usize, component.band);
                if mass > 0.0 {
                    cells.push((index, mass));
                }
            }
            if !dropped && !is_one {
                open.push(node.right);
                index += 1;
            } else if let Some(next) = open.pop() {
                index = next;
            } else {
                break;
            }
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
