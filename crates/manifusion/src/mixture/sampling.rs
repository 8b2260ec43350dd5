//! Draws from a mixture.

use std::sync::Arc;

use super::space::Shape;
use super::{KernelFamily, KernelMixture};
use crate::error::SolveError;
use crate::parallel;
use crate::path::{NoisingPath, PathChoice};
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};

impl KernelMixture {
    /// `n` draws, rows `first_row` and on of all that the seed gives: a component by its weight, a
    /// centre, and exact noise from it.
    pub fn sample_from(
        &self,
        first_row: usize,
        n: usize,
        seed: u64,
    ) -> Result<Vec<f64>, SolveError> {
        let m = self.manifold.ambient_dim();
        let count = self.num_centres();
        let picks = Streams::new(seed, "mixture-pick");
        let noise = Streams::new(seed, "mixture-noise");
        let mut starts = Vec::with_capacity(n * m);
        // 0 for the prior, k + 1 for bandwidth k.
        let mut components = Vec::with_capacity(n);
        for row in first_row..first_row + n {
            let mut stream = picks.stream(row as u64, 0);
            let mut level = stream.uniform();
            let centre = ((stream.uniform() * count as f64) as usize).min(count - 1);
            let mut pick = 0;
            if level > self.weights[0] {
                level -= self.weights[0];
                let bands = self.bandwidths.len();
                let own = match &self.local {
                    Some(local) => &local[centre * bands..(centre + 1) * bands],
                    None => self.weights(),
                };
                pick = 1;
                while pick < bands && level > own[pick - 1] {
                    level -= own[pick - 1];
                    pick += 1;
                }
            }
            components.push(pick);
            starts.extend_from_slice(&self.centres[centre * m..(centre + 1) * m]);
        }
        // Those of the prior are overwritten below.
        let bandwidth = |pick: usize| if pick == 0 { 1.0 } else { self.bandwidths[pick - 1] };
        let mut out = starts.clone();
        match &self.family {
            KernelFamily::Heat { .. } => {
                let (manifold, prior) = (Arc::clone(&self.manifold), Arc::clone(&self.prior));
                let path = NoisingPath::new(manifold, prior, PathChoice::Exact)?;
                let times: Vec<f64> = components.iter().map(|k| bandwidth(*k).powi(2)).collect();
                if n > 0 {
                    let (from, to) = (Rows::new(&starts, m)?, RowsMut::new(&mut out, m)?);
                    path.sample(from, &times, &noise, first_row as u64, to)?;
                }
            }
            KernelFamily::Wrapped(_) => {}
        }
        parallel::for_each_chunk(&mut out, m, 64, |first, chunk| {
            for (i, x) in chunk.chunks_exact_mut(m).enumerate() {
                let row = first + i;
                let pick = components[row];
                // Step 1: the path has used step 0.
                let mut stream = noise.stream((first_row + row) as u64, 1);
                let start = &starts[row * m..(row + 1) * m];
                if pick == 0 {
                    self.prior.sample(&mut stream, x).map_err(SolveError::at(i, 0.0))?;
                    continue;
                }
                match &self.family {
                    KernelFamily::Wrapped(space) => {
                        let std = vec![bandwidth(pick); space.dim()];
                        space.sample_wrapped_normal(start, &std, &mut stream, x);
                    }
                    // On ℝ^d the kernel is a normal around the centre, not the noise that pulls
                    // towards the origin.
                    KernelFamily::Heat { heat, .. } => {
                        for block in &heat.space.blocks {
                            if let Shape::Flat { .. } = block.shape {
                                for j in block.ambient.clone() {
                                    x[j] = start[j] + bandwidth(pick) * stream.normal();
                                }
                            }
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(out)
    }
}
