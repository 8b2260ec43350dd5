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
    let mut pair = 0;
    // Normals come in pairs: two steps use M pairs.
    let mut step = 0;
    while step < steps {
        let mut noise = [[[0.0; LANES]; M]; 2];
        for p in 0..M {
            let (first, second) = streams.row_normals::<LANES>(first_row, pair);
            pair += 1;
            for (k, z) in [(2 * p, first), (2 * p + 1, second)] {
                for l in 0..LANES {
                    noise[k / M][k % M][l] = root[l] * z[l];
                }
            }
        }
        heun_step(x, &noise[0]);
        if step + 1 < steps {
            heun_step(x, &noise[1]);
        }
        step += 2;
    }
}

/// Ŷ = Y + P_Y ΔB, Y⁺ = π(Y + ½(P_Y + P_Ŷ)ΔB), where P_Y needs no division because |Y| = 1.
#[inline(always)]
fn heun_step<const M: usize>(x: &mut [[f64; LANES]; M], db: &[[f64; LANES]; M]) {
    for l in 0..LANES {
        let mut along = 0.0;
        for j in 0..M {
            along += x[j][l] * db[j][l];
        }
        let (mut predictor, mut dot, mut square) = ([0.0; M], 0.0, 0.0);
        for j in 0..M {
            predictor[j] = x[j][l] + (db[j][l] - along * x[j][l]);
            dot += predictor[j] * db[j][l];
            square += predictor[j] * predictor[j];
        }
        let c = dot / square;
        let (mut next, mut length) = ([0.0; M], 0.0);
        for j in 0..M {
            next[j] = x[j][l] + db[j][l] - 0.5 * (along * x[j][l] + c * predictor[j]);
            length += next[j] * next[j];
        }
        let scale = 1.0 / length.sqrt();
        for j in 0..M {
            x[j][l] = scale * next[j];
        }
    }
}
