//! Stratonovich–Heun on low-dimensional spheres with rows in vector lanes: the scheme of [`crate::sde::Heun`], the same
//! noise, about ten times faster than row by row.

use crate::rng::Streams;

/// Rows side by side.
const LANES: usize = 8;

/// Moves rows of S^{M−1} (row-major in `y`) from time 0 to their own `s`; rows are numbered from `first_row`.
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
    // Normals come in fours: four steps use M blocks.
    for (round, step) in (0..steps).step_by(4).enumerate() {
        let mut noise = [[[0.0; LANES]; M]; 4];
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

/// Ŷ = Y + P_Y ΔB, Y⁺ = π(Y + ½(P_Y + P_Ŷ)ΔB), where P_Y needs no division because |Y| = 1.
#[inline(always)]
fn heun_step<const M: usize>(x: &mut [[f64; LANES]; M], db: &[[f64; LANES]; M]) {
    for l in 0..LANES {
        let mut along = 0.0f64;
        for j in 0..M {
            along = x[j][l].mul_add(db[j][l], along);
        }
        let (mut predictor, mut dot, mut square) = ([0.0f64; M], 0.0f64, 0.0f64);
        for j in 0..M {
            predictor[j] = (-along).mul_add(x[j][l], x[j][l] + db[j][l]);
            dot = predictor[j].mul_add(db[j][l], dot);
            square = predictor[j].mul_add(predictor[j], square);
        }
        let half = -0.5 * dot / square;
        let (mut next, mut length) = ([0.0f64; M], 0.0f64);
        for j in 0..M {
            let tangent = (-0.5 * along).mul_add(x[j][l], x[j][l] + db[j][l]);
            next[j] = half.mul_add(predictor[j], tangent);
            length = next[j].mul_add(next[j], length);
        }
        let scale = 1.0 / length.sqrt();
        for j in 0..M {
            x[j][l] = scale * next[j];
        }
    }
}
