//! Draws on S²: the Beta distribution has a closed form there, u = 1 − ξ^{1/(1+M)} with ξ
//! uniform, and ξ = e^{−|z|²/2} of the tangent Gaussian z that also gives the direction.

use super::ancestral::AncestralProcess;
use crate::rng::Streams;

/// Rows whose normals are drawn side by side.
const LANES: usize = 16;

/// `y ← Y_s` for consecutive rows, numbered from `first_row`.
pub(super) fn apply_rows(
    ancestral: &AncestralProcess,
    streams: &Streams,
    first_row: u64,
    s: &[f64],
    y: &mut [f64],
) {
    for (group, (y, s)) in y.chunks_mut(3 * LANES).zip(s.chunks(LANES)).enumerate() {
        let first_row = first_row + (group * LANES) as u64;
        let z = pulp::Arch::new().dispatch(Normals { streams, first_row });
        for (l, (y, &s)) in y.as_chunks_mut::<3>().0.iter_mut().zip(s).enumerate() {
            let lineages = if ancestral.is_series(s) {
                let u = streams.stream(first_row + l as u64, 1).uniform();
                ancestral.invert(s, u)
            } else {
                ancestral.nearly_normal(s, z[3][l])
            };
            step(y, [z[0][l], z[1][l], z[2][l]], lineages);
        }
    }
}

/// Four normals for each of `LANES` rows, in the form that `pulp` compiles once per instruction
/// set.
struct Normals<'a> {
    streams: &'a Streams,
    first_row: u64,
}

impl pulp::NullaryFnOnce for Normals<'_> {
    type Output = [[f64; LANES]; 4];

    #[inline(always)]
    fn call(self) -> Self::Output {
        self.streams.row_normals(self.first_row, 0)
    }
}

/// Y_s = (1 − 2u)Y_0 + 2√(u(1−u)) z/|z|.
fn step(y: &mut [f64; 3], mut z: [f64; 3], lineages: f64) {
    let along = y[0] * z[0] + y[1] * z[1] + y[2] * z[2];
    for j in 0..3 {
        z[j] -= along * y[j];
    }
    let square = z[0] * z[0] + z[1] * z[1] + z[2] * z[2];
    let u = -(-0.5 * square / (1.0 + lineages)).exp_m1();
    let across = 2.0 * (u * (1.0 - u) / square).sqrt();
    let mut length = 0.0;
    for j in 0..3 {
        y[j] = (1.0 - 2.0 * u) * y[j] + across * z[j];
        length += y[j] * y[j];
    }
    let scale = 1.0 / length.sqrt();
    for y in y {
        *y *= scale;
    }
}
