//! Stratonovich–Heun on low-dimensional spheres with rows in vector lanes: the scheme of
//! [`crate::sde::Heun`], with the same noise.

use crate::rng::Streams;

/// Rows side by side.
const LANES: usize = 16;

/// Moves rows of S^{M−1} (row-major in `y`) from time 0 to their own `s`; rows are numbered from
/// `first_row`.
pub(super) fn walk<const M: usize>(
    steps: usize,
    streams: &Streams,
    first_row: u64,
    s: &[f64],
    y: &mut [f64],
) {
    pulp::Arch::new().dispatch(Walk::<M> { steps, streams, first_row, s, y });
}

struct Walk<'a, const M: usize> {
    steps: usize,
    streams: &'a Streams,
    first_row: u64,
    s: &'a [f64],
    y: &'a mut [f64],
}

impl<const M: usize> pulp::NullaryFnOnce for Walk<'_, M> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let groups = self.y.chunks_mut(LANES * M).zip(self.s.chunks(LANES));
        for (group, (y, s)) in groups.enumerate() {
            let first_row = self.first_row + (group * LANES) as u64;
            // A last group that is not full walks with copies of its first row.
            let mut x = [[0.0; LANES]; M];
            let mut root = [0.0; LANES];
            for l in 0..LANES {
                let row = if l < s.len() { l } else { 0 };
                root[l] = (s[row] / self.steps as f64).sqrt();
                for j in 0..M {
                    x[j][l] = y[row * M + j];
                }
            }
            walk_lanes(self.steps, self.streams, first_row, &root, &mut x);
            for (l, row) in y.chunks_exact_mut(M).enumerate() {
                for j in 0..M {
                    row[j] = x[j][l];
                }
            }
        }
    }
}

#[inline(always)]
fn walk_lanes<const M: usize>(
    steps: usize,
    streams: &Streams,
    first_row: u64,
    root: &[f64; LANES],
    x: &mut [[f64; LANES]; M],
) {
    // Normals come in fours: four steps use M blocks. Every round overwrites all of them.
    let mut noise = [[[0.0; LANES]; M]; 4];
    for (round, step) in (0..steps).step_by(4).enumerate() {
        for p in 0..M {
            let z = streams.row_normals::<LANES>(first_row, (round * M + p) as u32);
            for (i, z) in z.into_iter().enumerate() {
                let k = 4 * p + i;
                for l in 0..LANES {
                    noise[k / M][k % M][l] = root[l] * z[l];
                }
            }
        }
        for db in noise.iter().take(steps - step) {
            heun_step(x, db);
        }
    }
}

/// Ŷ = Y + P_Y ΔB, Y⁺ = π(Y + ½(P_Y + P_Ŷ)ΔB), written in the plane of Y and ΔB: with
/// b = ⟨Y, ΔB⟩ and q = |P_Y ΔB|² = |ΔB|² − b² it is ⟨Ŷ, ΔB⟩ = b + q and |Ŷ|² = 1 + q, so
/// that (1 + q)(Y + ½(P_Y + P_Ŷ)ΔB) = A·Y + B·ΔB with A = (1+q)(1 − b/2) − ½(b+q)(1−b) and
/// B = (1+q) − ½(b+q). The factor drops out under π, and with it the division by |Ŷ|²; the
/// length of A·Y + B·ΔB is √(A² + 2ABb + B²|ΔB|²).
#[inline(always)]
fn heun_step<const M: usize>(x: &mut [[f64; LANES]; M], db: &[[f64; LANES]; M]) {
    for l in 0..LANES {
        let (mut b, mut square) = (0.0f64, 0.0f64);
        for j in 0..M {
            b = x[j][l].mul_add(db[j][l], b);
            square = db[j][l].mul_add(db[j][l], square);
        }
        let q = (-b).mul_add(b, square);
        let (predictor, half) = (1.0 + q, 0.5 * (b + q));
        let along_x = predictor.mul_add((-0.5f64).mul_add(b, 1.0), -half * (1.0 - b));
        let along_db = predictor - half;
        let cross = (2.0 * along_x).mul_add(b, along_db * square);
        let length = along_x.mul_add(along_x, along_db * cross);
        let scale = 1.0 / length.sqrt();
        let (along_x, along_db) = (scale * along_x, scale * along_db);
        for j in 0..M {
            x[j][l] = along_x.mul_add(x[j][l], along_db * db[j][l]);
        }
    }
}
