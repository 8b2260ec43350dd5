//! Distributions of directions, in closed form: von Mises–Fisher and power spherical on S^d, Kent
//! on S².

mod bessel;
mod kent;
mod power_spherical;
mod vmf;

pub use kent::{Kent, KentMoments};
pub use power_spherical::PowerSpherical;
pub(crate) use power_spherical::half_cosine_lanes;
pub use vmf::VonMisesFisher;

use crate::linalg::{dot, norm};
use crate::rng::Stream;

/// Largest concentration: a spread of 3e-4 rad.
pub const MAX_CONCENTRATION: f64 = 1e7;

/// `x ←` a point with ⟨μ, x⟩ = 1 − `deficit`, in a uniform direction from μ.
fn draw_around(mean: &[f64], deficit: f64, stream: &mut Stream, x: &mut [f64]) {
    let mut length = 0.0;
    while length == 0.0 {
        x.fill_with(|| stream.normal());
        let along = dot(x, mean);
        for (x, mean) in x.iter_mut().zip(mean) {
            *x -= along * mean;
        }
        length = norm(x);
    }
    let (cosine, sine) = (1.0 - deficit, (deficit * (2.0 - deficit)).sqrt());
    for (x, mean) in x.iter_mut().zip(mean) {
        *x = cosine * mean + sine / length * *x;
    }
    let length = norm(x);
    for x in x {
        *x /= length;
    }
}
