//! Normal kernels in normal coordinates, each with the covariance of a neighbourhood.

use super::charts::Charts;
use crate::error::SolveError;
use crate::linalg::{axpy, log_sum_exp, scratch, symmetric_eigen};
use crate::parallel;
use crate::rng::Stream;
use crate::rows::Rows;

/// Pseudo-observations of a round neighbourhood of the same size.
const ROUND: f64 = 0.03;
/// Kernels end this many standard deviations beyond √d: what is cut off is below 1e-8.
const CUT: f64 = 5.0;

/// A number of neighbours and a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Component {
    /// Which [`Shapes`].
    pub(super) shape: usize,
    /// h².
    pub(super) scale2: f64,
}

/// Second moments of the neighbours of every centre, by eigenvectors.
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    /// k.
    pub(super) neighbours: usize,
    /// Eigenvectors in rows, centres × d × d.
    pub(super) axes: Vec<f64>,
    /// Eigenvalues, centres × d.
    pub(super) squares: Vec<f64>,
}

impl Shapes {
    /// Those of the first `count` neighbours in `near`, which has as many for every centre.
    pub(super) fn of_neighbours(
        charts: &Charts,
        located: &[f64],
        near: &[u32],
        count: usize,
    ) -> Result<Self, SolveError> {
        let (d, width) = (charts.dim(), charts.space.width);
        let centres = located.len() / width;
        let each = near.len() / centres;
        let numbers = d * d + d;
        let mut both = vec![0.0; centres * numbers];
        parallel::for_each_chunk(&mut both, numbers, 64, |first, chunk| {
            let mut v = vec![0.0; d];
            for (i, both) in chunk.chunks_exact_mut(numbers).enumerate() {
                let centre = first + i;
                let x = &located[centre * width..(centre + 1) * width];
                let (axes, squares) = both.split_at_mut(d * d);
                let mut moments = vec![0.0; d * d];
                for &j in &near[centre * each..centre * each + count] {
                    let y = &located[j as usize * width..(j as usize + 1) * width];
                    charts.coordinates(x, y, &mut v);
                    for (row, a) in moments.chunks_exact_mut(d).zip(&v) {
                        axpy(*a, &v, row);
                    }
                }
                let trace: f64 = (0..d).map(|j| moments[j * (d + 1)]).sum();
                let round = ROUND * trace / (d * count) as f64;
                let total = count as f64 + ROUND;
                for j in 0..d {
                    moments[j * (d + 1)] += round;
                }
                for moment in &mut moments {
                    *moment /= total;
                }
                symmetric_eigen(&mut moments, d, axes, squares);
            }
            Ok(())
        })?;
        let (mut axes, mut squares) = (Vec::new(), Vec::new());
        for both in both.chunks_exact(numbers) {
            axes.extend_from_slice(&both[..d * d]);
            // Of finite points (the mixture has checked them): rounding may leave −1e-17 for 0.
            squares.extend(both[d * d..].iter().map(|square| square.max(0.0)));
        }
        Ok(Self { neighbours: count, axes, squares })
    }
}

/// Which centres have a point among their neighbours, with its place there.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// (centre, place), by point.
    of: Vec<Vec<(u32, u32)>>,
}

impl Neighbours {
    pub(super) fn of(near: &[u32], each: usize, points: usize) -> Self {
        let mut of = vec![Vec::new(); points];
        for (at, point) in near.iter().enumerate() {
            of[*point as usize].push(((at / each) as u32, (at % each) as u32));
        }
        Self { of }
    }
}

/// Kernels around centres.
#[derive(Clone, Debug)]
pub(super) struct Kernels {
    pub(super) charts: Charts,
    /// Centres in internal coordinates.
    located: Vec<f64>,
    pub(super) shapes: Vec<Shapes>,
    pub(super) components: Vec<Component>,
    floor2: f64,
    /// The largest variance: a kernel as wide as the space would not have mass one in its normal
    /// coordinates.
    most2: f64,
    /// For every centre the squared distance beyond which none of its kernels reaches.
    reach2: Vec<f64>,
    /// The same for each component, components × centres.
    reaches2: Vec<Vec<f64>>,
    /// log of the standard deviations' product, components × centres.
    log_widths: Vec<Vec<f64>>,
}

/// Buffers of one thread.
#[derive(Debug)]
pub(super) struct Workspace {
    inner: Vec<f64>,
    v: Vec<f64>,
    along: Vec<f64>,
    /// Logarithms of the kernels found, by component.
    found: Vec<Vec<f64>>,
    /// Place of the judge among the neighbours of every centre.
    place: Vec<u32>,
}

/// Points in internal coordinates.
pub(super) fn locate(charts: &Charts, x: Rows<'_>) -> Vec<f64> {
    let width = charts.space.width;
    let mut located = vec![0.0; x.len() * width];
    for (x, inner) in x.rows().zip(located.chunks_exact_mut(width)) {
        charts.space.locate(x, inner);
    }
    located
}

impl Kernels {
    pub(super) fn new(
        charts: Charts,
        located: Vec<f64>,
        shapes: Vec<Shapes>,
        components: Vec<Component>,
        floor: f64,
    ) -> Self {
        let d = charts.dim();
        let (floor2, reach) = (floor * floor, CUT + (d as f64).sqrt());
        let most2 = charts.widest().powi(2);
        let centres = located.len() / charts.space.width;
        let mut reach2 = vec![0.0f64; centres];
        let (mut reaches2, mut log_widths) = (Vec::new(), Vec::new());
        for component in &components {
            let squares = shapes[component.shape].squares.chunks_exact(d);
            let (mut own, mut logs) = (Vec::with_capacity(centres), Vec::with_capacity(centres));
            for (squares, reach2) in squares.zip(&mut reach2) {
                let (mut widest, mut log) = (0.0f64, 0.0);
                for square in squares {
                    let variance = (component.scale2 * square + floor2).min(most2);
                    widest = widest.max(variance);
                    log += 0.5 * variance.ln();
                }
                own.push(widest * reach * reach);
                *reach2 = reach2.max(widest * reach * reach);
                logs.push(log);
            }
            reaches2.push(own);
            log_widths.push(logs);
        }
        Self { charts, located, shapes, components, floor2, most2, reach2, reaches2, log_widths }
    }

    /// Those of some components, and the shapes that these need.
    pub(super) fn with_components(&self, kept: &[usize]) -> Self {
        let components: Vec<Component> = kept.iter().map(|c| self.components[*c]).collect();
        let mut used: Vec<usize> = components.iter().map(|component| component.shape).collect();
        used.dedup();
        let place = |shape: usize| used.iter().position(|other| *other == shape).unwrap_or(0);
        let components = components
            .iter()
            .map(|component| Component { shape: place(component.shape), ..*component })
            .collect();
        let shapes = used.iter().map(|shape| self.shapes[*shape].clone()).collect();
        let (charts, located) = (self.charts.clone(), self.located.clone());
        Self::new(charts, located, shapes, components, self.floor2.sqrt())
    }

    /// The same, `factor` times as wide.
    pub(super) fn widened(&self, factor: f64) -> Self {
        let wider = |component: &Component| Component {
            scale2: factor * factor * component.scale2,
            ..*component
        };
        let components = self.components.iter().map(wider).collect();
        let (charts, located, shapes) =
            (self.charts.clone(), self.located.clone(), self.shapes.clone());
        Self::new(charts, located, shapes, components, factor * self.floor2.sqrt())
    }

    pub(super) fn workspace(&self) -> Workspace {
        let d = self.charts.dim();
        Workspace {
            inner: vec![0.0; self.charts.space.width],
            v: vec![0.0; d],
            along: vec![0.0; d],
            found: vec![Vec::new(); self.components.len()],
            place: vec![u32::MAX; self.reach2.len()],
        }
    }

    /// log of the mean of every component's kernels at a point; −∞ where none reaches it.
    pub(super) fn logs(&self, x: &[f64], work: &mut Workspace, logs: &mut [f64]) {
        self.charts.space.locate(x, &mut work.inner);
        self.sum(None, work);
        self.means(self.reach2.len(), work, logs);
    }

    /// The same at a centre without its own kernel, and without it in the covariances of the
    /// others.
    pub(super) fn leave_one_out(
        &self,
        judge: usize,
        neighbours: &Neighbours,
        work: &mut Workspace,
        logs: &mut [f64],
    ) {
        let width = self.charts.space.width;
        work.inner.copy_from_slice(&self.located[judge * width..(judge + 1) * width]);
        for (centre, place) in &neighbours.of[judge] {
            work.place[*centre as usize] = *place;
        }
        self.sum(Some(judge), work);
        for (centre, _) in &neighbours.of[judge] {
            work.place[*centre as usize] = u32::MAX;
        }
        self.means(self.reach2.len() - 1, work, logs);
    }

    fn means(&self, centres: usize, work: &Workspace, logs: &mut [f64]) {
        let d = self.charts.dim() as f64;
        let change = (centres as f64).ln() + 0.5 * d * std::f64::consts::TAU.ln();
        for (log, found) in logs.iter_mut().zip(&work.found) {
            *log = log_sum_exp(found) - change;
        }
    }

    /// Collects the logarithms of all kernels at the point of the workspace.
    fn sum(&self, skip: Option<usize>, work: &mut Workspace) {
        let (d, width) = (self.charts.dim(), self.charts.space.width);
        let Workspace { inner, v, along, found, place } = work;
        for found in found.iter_mut() {
            found.clear();
        }
        for (centre, x) in self.located.chunks_exact(width).enumerate() {
            let is_near = self.charts.chord2(x, inner) <= self.reach2[centre];
            if !is_near || Some(centre) == skip {
                continue;
            }
            let log_volume = self.charts.coordinates(x, inner, v);
            let apart2 = crate::linalg::dot(v, v);
            let mut turned = usize::MAX;
            for (number, component) in self.components.iter().enumerate() {
                if apart2 > self.reaches2[number][centre] {
                    continue;
                }
                let shape = &self.shapes[component.shape];
                if turned != component.shape {
                    turned = component.shape;
                    let axes = &shape.axes[centre * d * d..(centre + 1) * d * d];
                    for (along, axis) in along.iter_mut().zip(axes.chunks_exact(d)) {
                        *along = crate::linalg::dot(axis, v);
                    }
                }
                let squares = &shape.squares[centre * d..(centre + 1) * d];
                let log = if (place[centre] as usize) < shape.neighbours {
                    self.without_itself(component, shape.neighbours, squares, along)
                } else {
                    let terms = along.iter().zip(squares).map(|(along, square)| {
                        let variance = component.scale2 * square + self.floor2;
                        along * along / variance.min(self.most2)
                    });
                    -0.5 * terms.sum::<f64>() - self.log_widths[number][centre]
                };
                found[number].push(log - log_volume);
            }
        }
    }

    /// A kernel, but for the factor (2π)^{−d/2}, at one of the neighbours that its covariance is
    /// from, as if that were not among them: a change of rank one.
    fn without_itself(
        &self,
        component: &Component,
        neighbours: usize,
        squares: &[f64],
        along: &[f64],
    ) -> f64 {
        let total = neighbours as f64 + ROUND;
        // Second moments are means over one neighbour less.
        let scale2 = component.scale2 * total / (total - 1.0);
        let (mut square_sum, mut log_width) = (0.0, 0.0);
        for (along, square) in along.iter().zip(squares) {
            let variance = (scale2 * square + self.floor2).min(self.most2);
            square_sum += along * along / variance;
            log_width += 0.5 * variance.ln();
        }
        // Rounding, and variances that are cut, must not take away more than there is.
        let left = (1.0 - scale2 / total * square_sum).max(1e-6);
        -0.5 * square_sum / left - log_width - 0.5 * left.ln()
    }

    /// Draws from a kernel, `factor` times as wide.
    pub(super) fn draw(
        &self,
        centre: usize,
        component: usize,
        factor: f64,
        stream: &mut Stream,
        x: &mut [f64],
    ) {
        let (d, width) = (self.charts.dim(), self.charts.space.width);
        let Component { shape, scale2 } = self.components[component];
        let shape = &self.shapes[shape];
        let axes = &shape.axes[centre * d * d..(centre + 1) * d * d];
        let squares = &shape.squares[centre * d..(centre + 1) * d];
        let mut v = scratch(d);
        for (axis, square) in axes.chunks_exact(d).zip(squares) {
            let std = (scale2 * square + self.floor2).min(self.most2).sqrt();
            axpy(factor * std * stream.normal(), axis, &mut v);
        }
        self.charts.point(&self.located[centre * width..(centre + 1) * width], &v, x);
    }
}
