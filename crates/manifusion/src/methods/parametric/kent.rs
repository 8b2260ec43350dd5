//! `kent`: mixtures of Kent distributions on S².

use super::{Component, Parametric};
use crate::directional::Kent;
use crate::linalg::dot;
use crate::manifold::{Family, Manifold};
use crate::methods::MethodInfo;
use crate::methods::references::KENT;
use crate::rng::Stream;

impl Component for Kent {
    const INFO: &'static MethodInfo = &MethodInfo {
        name: "kent",
        title: "mixture of Kent distributions",
        help: "A mixture of Kent distributions, no network",
        manifolds: "the sphere sphere:2",
        settings: &[Parametric::DESCRIPTIONS],
        references: &[KENT],
    };

    fn knows(manifold: &dyn Manifold) -> bool {
        matches!(manifold.family(), Family::Sphere { dim: 2 })
    }

    /// Three axes, κ and β.
    fn free_parameters(_m: usize) -> usize {
        5
    }

    fn stored_len(_m: usize) -> usize {
        11
    }

    fn store(&self) -> Vec<f64> {
        let numbers = [self.concentration(), self.ovalness()];
        self.axes().iter().flatten().copied().chain(numbers).collect()
    }

    fn restore(_m: usize, numbers: &[f64]) -> Self {
        let axis = |k: usize| [numbers[3 * k], numbers[3 * k + 1], numbers[3 * k + 2]];
        Self::new([axis(0), axis(1), axis(2)], numbers[9], numbers[10])
    }

    fn log_density(&self, x: &[f64]) -> f64 {
        Self::log_density(self, x)
    }

    fn log_norm(&self) -> f64 {
        Self::log_norm(self)
    }

    fn sample(&self, stream: &mut Stream, x: &mut [f64]) {
        Self::sample(self, stream, x);
    }

    fn widened(&self) -> Self {
        Self::new(*self.axes(), 0.5 * self.concentration(), 0.5 * self.ovalness())
    }

    /// x and xxᵀ.
    fn statistics_len(_m: usize) -> usize {
        12
    }

    fn statistics(x: &[f64], out: &mut [f64]) {
        let (first, second) = out.split_at_mut(3);
        first.copy_from_slice(x);
        for (i, row) in second.chunks_exact_mut(3).enumerate() {
            for (out, x_j) in row.iter_mut().zip(x) {
                *out = x[i] * x_j;
            }
        }
    }

    /// Axes by Kent's moments, then κ and β of the highest likelihood. Axes of moments are not
    /// quite those of the highest likelihood: where they are worse than the ones before, those
    /// stay.
    fn estimate(weight: f64, sums: &[f64], pseudo: f64, before: Option<&Self>) -> Self {
        let means = Means::new(sums, weight + pseudo);
        let moved = means.best_with(means.moment_axes(), before);
        let Some(before) = before else { return moved };
        if means.value(&moved) >= means.value(before) {
            return moved;
        }
        let turned = means.best_with(*before.axes(), Some(before));
        if means.value(&turned) >= means.value(before) { turned } else { before.clone() }
    }
}

/// Weighted means of x and xxᵀ.
struct Means {
    first: [f64; 3],
    second: [[f64; 3]; 3],
}

impl Means {
    fn new(sums: &[f64], total: f64) -> Self {
        let row = |k: usize| std::array::from_fn(|i| sums[3 * k + i] / total);
        Self { first: row(0), second: [row(1), row(2), row(3)] }
    }

    /// uᵀ S v.
    fn between(&self, u: &[f64; 3], v: &[f64; 3]) -> f64 {
        (0..3).map(|i| u[i] * dot(&self.second[i], v)).sum()
    }

    /// The mean direction, and the axes of the scatter across it.
    fn moment_axes(&self) -> [[f64; 3]; 3] {
        let length = dot(&self.first, &self.first).sqrt();
        let mean = if length > 0.0 { self.first.map(|v| v / length) } else { [0.0, 0.0, 1.0] };
        // Any two directions across it, and the turn that makes their scatter diagonal.
        let least = (0..3).min_by(|a, b| mean[*a].abs().total_cmp(&mean[*b].abs())).unwrap_or(0);
        let mut across = mean.map(|v| -v * mean[least]);
        across[least] += 1.0;
        let length = dot(&across, &across).sqrt();
        let u = across.map(|v| v / length);
        let v = [
            mean[1] * u[2] - mean[2] * u[1],
            mean[2] * u[0] - mean[0] * u[2],
            mean[0] * u[1] - mean[1] * u[0],
        ];
        let (uu, uv, vv) = (self.between(&u, &u), self.between(&u, &v), self.between(&v, &v));
        let (sin, cos) = (0.5 * (2.0 * uv).atan2(uu - vv)).sin_cos();
        let turned = |a: f64, b: f64| std::array::from_fn(|i| a * u[i] + b * v[i]);
        [mean, turned(cos, sin), turned(-sin, cos)]
    }

    /// Means of ⟨γ₁, x⟩ and ⟨γ₂, x⟩² − ⟨γ₃, x⟩².
    fn moments(&self, axes: &[[f64; 3]; 3]) -> (f64, f64) {
        let difference = self.between(&axes[1], &axes[1]) - self.between(&axes[2], &axes[2]);
        (dot(&self.first, &axes[0]), difference)
    }

    fn best_with(&self, axes: [[f64; 3]; 3], near: Option<&Kent>) -> Kent {
        let (mean, difference) = self.moments(&axes);
        Kent::from_moments(axes, mean, difference, near)
    }

    /// The mean of log p, pseudo-observations included.
    fn value(&self, kent: &Kent) -> f64 {
        let (mean, difference) = self.moments(kent.axes());
        kent.concentration() * mean + kent.ovalness() * difference - Kent::log_norm(kent)
    }
}
