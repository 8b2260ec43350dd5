//! Bogacki & Shampine (1989), order 3(2): three evaluations per step, for few digits.

use super::Tableau;

/// The tableau.
pub const BS3: Tableau<4> = Tableau {
    c: [0.0, 1.0 / 2.0, 3.0 / 4.0, 1.0],
    a: [[0.0; 4], [1.0 / 2.0, 0.0, 0.0, 0.0], [0.0, 3.0 / 4.0, 0.0, 0.0], B],
    b: B,
    e: [B[0] - 7.0 / 24.0, B[1] - 1.0 / 4.0, B[2] - 1.0 / 3.0, -1.0 / 8.0],
    order: 3,
};

const B: [f64; 4] = [2.0 / 9.0, 1.0 / 3.0, 4.0 / 9.0, 0.0];
