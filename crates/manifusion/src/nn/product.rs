//! The products of a layer on all rows of a shard and the gradient of its weights, by
//! Strassen–Winograd where the sizes allow it.

use super::matmul::{
    LANES, Line, PRODUCTS, Quadrants, RowPair, add_strassen_gradient, add_weight_gradient,
    multiply_panel, multiply_step, panels, quadrant_sums,
};
use super::packed::PackedMatrix;
use super::real::Real;
use super::shard::Stack;

/// The left operand of a product: stacked rows by panels, with the sums of its quadrants where
/// Strassen–Winograd is used.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a, T> {
    lines: &'a [Line<T>],
    stack: Stack,
    columns: usize,
    strassen: Option<Quadrants<'a, T>>,
}

/// Rows and columns of a matrix whose quadrants are summed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// For the product with a matrix.
    Rows,
    /// For the product of the transposed matrix with another.
    Transposed,
}

/// Panels of a matrix of stacked rows: `half` from the first on and, if it is multiplied by
/// Strassen–Winograd, as many from panel `second` on.
#[derive(Clone, Copy)]
pub(crate) struct HalvedColumns<'a, T> {
    pub(crate) lines: &'a [Line<T>],
    pub(crate) half: usize,
    pub(crate) second: usize,
}

impl<'a, T: Real> HalvedColumns<'a, T> {
    /// All columns of a matrix.
    pub(crate) fn whole(lines: &'a [Line<T>], columns: usize) -> Self {
        let half = panels(columns) / 2;
        Self { lines, half, second: half }
    }
}

fn quadrants<'a, T: Real>(
    columns: HalvedColumns<'a, T>,
    stack: Stack,
    pair: RowPair,
    order: Order,
    sums: &'a mut [Line<T>],
) -> Quadrants<'a, T> {
    let HalvedColumns { lines, half, second } = columns;
    let stride = stack.rows();
    let sums = &mut sums[..4 * half * pair.rows];
    let quadrant = |row: usize, column: usize| &lines[column * second * stride + row..];
    let [a11, a12] = [quadrant(pair.first, 0), quadrant(pair.first, 1)];
    let [a21, a22] = [quadrant(pair.second, 0), quadrant(pair.second, 1)];
    let in_order = match order {
        Order::Rows => [a11, a12, a21, a22],
        Order::Transposed => [a21, a11, a22, a12],
    };
    quadrant_sums(in_order, stride, pair.rows, sums);
    Quadrants { lines, stride, half, second, pair, sums }
}

impl<'a, T: Real> Operand<'a, T> {
    /// Rows to be multiplied by `b`; `sums` is scratch.
    pub(crate) fn new(
        lines: &'a [Line<T>],
        stack: Stack,
        b: &PackedMatrix<T>,
        sums: &'a mut [Line<T>],
    ) -> Self {
        let columns = b.depth;
        let pair = stack.pair().filter(|_| b.is_strassen());
        let whole = HalvedColumns::whole(lines, columns);
        let strassen = pair.map(|pair| quadrants(whole, stack, pair, Order::Rows, sums));
        Self { lines, stack, columns, strassen }
    }

    /// `c ← self·b`, panel by panel; `finish` gets each panel as soon as it is complete.
    pub(crate) fn multiply(
        &self,
        b: &PackedMatrix<T>,
        c: &mut [Line<T>],
        mut finish: impl FnMut(usize, &mut [Line<T>]),
    ) {
        let stack = self.stack;
        let Some(quadrants) = self.strassen else {
            for panel in 0..b.panels() {
                let c = &mut c[stack.panel(panel)];
                self.multiply_rows(b, panel, c);
                finish(panel, c);
            }
            return;
        };
        let half = b.panels() / 2;
        for step in 0..PRODUCTS {
            let (left, right) = c.split_at_mut(half * stack.rows());
            for panel in 0..half {
                let [c11, c21] = halves(&mut left[stack.panel(panel)], quadrants.pair);
                let [c12, c22] = halves(&mut right[stack.panel(panel)], quadrants.pair);
                let next = match panel + 1 {
                    next if next < half => b.panel_pair(next).operand(step),
                    _ => b.panel_pair(0).operand(step + 1),
                };
                multiply_step(step, quadrants, b.panel_pair(panel), next, [c11, c12, c21, c22]);
            }
        }
        for panel in 0..b.panels() {
            let c = &mut c[stack.panel(panel)];
            self.multiply_rows(b, panel, c);
            finish(panel, c);
        }
    }

    /// Its rows, stacked in this shape.
    pub(crate) fn rows(&self) -> (Stack, &'a [Line<T>]) {
        (self.stack, self.lines)
    }

    /// `g ← [g] + hᵀ·self` over all stacked rows, for some rows of a row-major gradient: those of
    /// the panels of `h`, in two halves if this operand is multiplied by Strassen–Winograd, else
    /// all in the first. `sums` is scratch.
    pub(crate) fn add_gradient(
        &self,
        h: HalvedColumns<'_, T>,
        sums: &mut [Line<T>],
        g: [&mut [T]; 2],
        fresh: bool,
    ) {
        let (stack, outputs) = (self.stack, self.columns);
        let [top, bottom] = g;
        let mut fresh = fresh;
        let pair = self.strassen.map(|z| {
            let h = quadrants(h, stack, z.pair, Order::Transposed, sums);
            add_strassen_gradient(h, z, [&mut *top, &mut *bottom], fresh);
            fresh = false;
            z.pair
        });
        for rows in stack.unpaired(pair) {
            if rows.is_empty() {
                continue;
            }
            for (first, g) in [(0, &mut *top), (h.second, &mut *bottom)] {
                for (p, g) in g.chunks_mut(LANES * outputs).enumerate() {
                    let h = &h.lines[stack.panel(first + p)][rows.clone()];
                    for q in 0..panels(outputs) {
                        let z = &self.lines[stack.panel(q)][rows.clone()];
                        add_weight_gradient(h, z, g, outputs, q * LANES, fresh);
                    }
                }
            }
            fresh = false;
        }
    }

    /// The rows that are not paired, for one panel.
    fn multiply_rows(&self, b: &PackedMatrix<T>, panel: usize, c: &mut [Line<T>]) {
        let next = b.panel((panel + 1) % b.panels());
        let (stride, pair) = (self.stack.rows(), self.strassen.map(|quadrants| quadrants.pair));
        for rows in self.stack.unpaired(pair) {
            if !rows.is_empty() {
                let a = &self.lines[rows.start..];
                multiply_panel(a, stride, self.columns, b.panel(panel), next, &mut c[rows]);
            }
        }
    }
}

/// Both halves of the paired rows of a panel.
fn halves<T>(c: &mut [Line<T>], pair: RowPair) -> [&mut [Line<T>]; 2] {
    let (before, after) = c.split_at_mut(pair.second);
    [&mut before[pair.first..pair.first + pair.rows], &mut after[..pair.rows]]
}
