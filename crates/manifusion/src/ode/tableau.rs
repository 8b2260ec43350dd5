//! Butcher tableaux.

/// An explicit embedded pair with S stages, of which the last is evaluated at the new point (FSAL).
#[derive(Debug)]
pub struct Tableau<const S: usize> {
    /// Nodes.
    pub c: [f64; S],
    /// Coefficients, strictly lower triangular.
    pub a: [[f64; S]; S],
    /// Weights of the higher-order solution; equal to the last row of `a`.
    pub b: [f64; S],
    /// Weights of the error estimate: higher minus lower order.
    pub e: [f64; S],
    /// Order of the solution that is kept.
    pub order: u32,
}
