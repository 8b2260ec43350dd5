//! Which diffusion a prior makes, and where its law is known.

use std::ops::Range;

use super::Prior;
use crate::manifold::{Family, Manifold};

/// The Langevin diffusion dY = U₀ ds + P∘dB of a prior.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Langevin {
    /// U₀ = 0.
    Brownian,
    /// U₀ = −x/2 on ℝ^d.
    OrnsteinUhlenbeck,
    /// Each factor of a product on its own.
    Factors(Vec<Langevin>),
    /// Any other.
    Other,
}

impl Langevin {
    /// The diffusion of factor i of a product.
    pub fn factor(&self, i: usize) -> &Self {
        match self {
            Self::Factors(factors) => factors.get(i).unwrap_or(&Self::Other),
            Self::Brownian => &Self::Brownian,
            _ => &Self::Other,
        }
    }

    pub(super) fn is_brownian(&self) -> bool {
        match self {
            Self::Brownian => true,
            Self::Factors(factors) => factors.iter().all(Self::is_brownian),
            _ => false,
        }
    }
}

/// A block of coordinates on which the law of the noise is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownNoise {
    /// Brownian motion on S^d.
    Sphere {
        /// d
        dim: usize,
    },
    /// Brownian motion on unit circles.
    Circles,
    /// Brownian motion on SO(3).
    Rotation,
    /// The Ornstein–Uhlenbeck process.
    OrnsteinUhlenbeck,
}

/// The blocks of a manifold with the law of the noise on each; `None` if it is not known on all of
/// them.
pub(crate) fn known_noise(
    manifold: &dyn Manifold,
    prior: &dyn Prior,
) -> Option<Vec<(Range<usize>, KnownNoise)>> {
    let mut blocks = Vec::new();
    collect(manifold, &prior.langevin(), 0, &mut blocks)?;
    Some(blocks)
}

fn collect(
    manifold: &dyn Manifold,
    langevin: &Langevin,
    start: usize,
    blocks: &mut Vec<(Range<usize>, KnownNoise)>,
) -> Option<()> {
    let noise = match (manifold.family(), langevin) {
        (Family::Product, _) => {
            let mut at = start;
            for (i, factor) in manifold.factors().iter().enumerate() {
                collect(factor.as_ref(), langevin.factor(i), at, blocks)?;
                at += factor.ambient_dim();
            }
            return Some(());
        }
        (Family::Sphere { dim: 1 } | Family::Torus { .. }, Langevin::Brownian) => {
            KnownNoise::Circles
        }
        (Family::Sphere { dim }, Langevin::Brownian) => KnownNoise::Sphere { dim },
        (Family::Orthogonal { n: 3, special: true }, Langevin::Brownian) => KnownNoise::Rotation,
        (Family::Euclidean { .. }, Langevin::OrnsteinUhlenbeck) => KnownNoise::OrnsteinUhlenbeck,
        _ => return None,
    };
    blocks.push((start..start + manifold.ambient_dim(), noise));
    Some(())
}
