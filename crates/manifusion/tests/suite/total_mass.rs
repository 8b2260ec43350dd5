//! Masses, means and intervals against closed forms.

use std::sync::Arc;

use manifusion::data::Synthetic;
use manifusion::density::Density;
use manifusion::error::SolveError;
use manifusion::manifold::{Manifold, parse};
use manifusion::mass::{Mass, MassKind, bridge_or_importance, importance, quadrature, total_mass};
use manifusion::mixture::{KernelMixture, MixtureOptions};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::Rows;
use manifusion::stats::{bootstrap_interval, mean};

/// A generated law times a factor: its mass is that factor.
#[derive(Debug)]
struct Scaled(Synthetic, f64);

impl Density for Scaled {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.0.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(x.rows().map(|x| self.0.log_density(x) + self.1.ln()).collect())
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.0.sample(n, seed).map_err(SolveError::at(0, 0.0))
    }
}

/// Half of each of two laws: near the first, and no combination of it with the prior.
#[derive(Debug)]
struct Blend(Synthetic, Synthetic);

impl Density for Blend {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.0.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        let density = |x: &[f64]| self.0.log_density(x).exp() + self.1.log_density(x).exp();
        Ok(x.rows().map(|x| (0.5 * density(x)).ln()).collect())
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        let (a, b) = (self.0.sample(n, seed), self.1.sample(n, seed + 1));
        let (a, b) = (a.map_err(SolveError::at(0, 0.0))?, b.map_err(SolveError::at(0, 0.0))?);
        let (m, streams) = (self.manifold().ambient_dim(), Streams::new(seed, "blend"));
        let pick = |i: usize| {
            let from = if streams.stream(i as u64, 0).uniform() < 0.5 { &a } else { &b };
            from[i * m..(i + 1) * m].to_vec()
        };
        Ok((0..n).flat_map(pick).collect())
    }
}

#[test]
fn quadrature_finds_the_mass_of_smooth_densities() {
    for (name, tolerance) in [("sphere-mixture", 1e-6), ("torus-mixture", 1e-5)] {
        let density = Scaled(Synthetic::new(name).unwrap(), 0.7);
        let mass = quadrature(&density, 6000).unwrap().unwrap();
        assert!((mass.value - 0.7).abs() < tolerance, "{name}: {mass:?}");
        assert!(mass.se < 1e-3, "{name}: {mass:?}");
    }
    // A density with jumps: the grids differ by about as much as the finer one is off.
    let jumps = Scaled(Synthetic::new("sphere-checkerboard").unwrap(), 1.0);
    let mass = quadrature(&jumps, 6000).unwrap().unwrap();
    assert!((mass.value - 1.0).abs() < 0.02, "{mass:?}");
}

/// Twelve times the same place: two grids agree on what lies around the peak that both miss.
#[test]
fn a_peak_between_the_points_of_both_grids_is_not_missed() {
    let manifold = parse("sphere:2").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let place = [0.6, 0.0, 0.8].repeat(12);
    let (rows, options) = (Rows::new(&place, 3).unwrap(), MixtureOptions::default());
    let mixture = KernelMixture::fit(manifold, Arc::clone(&prior), rows, &options).unwrap();
    let blind = quadrature(&mixture, 600).unwrap().unwrap();
    assert!(blind.value < 0.5 && blind.se < 1e-3, "the case is none: {blind:?}");
    let wide = mixture.widened(1.5).unwrap();
    let mass = total_mass(&mixture, Some(&wide), prior.as_ref(), 600, 1).unwrap();
    assert_ne!(mass.kind, MassKind::Quadrature);
    assert!((mass.value - 1.0).abs() < 4.0 * mass.se && mass.se < 0.1, "{mass:?}");
    let mass = importance(&mixture, Some(&wide), prior.as_ref(), 600, 1).unwrap();
    assert_eq!(mass.kind, MassKind::Importance);
    assert!((mass.value - 1.0).abs() < 4.0 * mass.se && mass.se < 0.1, "{mass:?}");
}

#[test]
fn bridge_and_importance_sampling_find_the_mass_elsewhere() {
    for (name, other) in [
        ("so3-modes", "so3-mixture"),
        ("so3-mixture", "so3-modes"),
        ("hyperbolic-wrapped", "hyperbolic-mixture"),
    ] {
        let set = Synthetic::new(name).unwrap();
        let prior = default_prior(set.manifold()).unwrap();
        let near = Blend(set.clone(), Synthetic::new(other).unwrap());
        let density = Scaled(set, 1.3);
        let mass = total_mass(&density, Some(&near), prior.as_ref(), 4000, 1).unwrap();
        assert_ne!(mass.kind, MassKind::Quadrature, "{name}");
        assert!((mass.value - 1.3).abs() < 4.0 * mass.se && mass.se < 0.05, "{name}: {mass:?}");
        // Neither tails of p that the prior lacks nor those of the prior do harm.
        let alone = bridge_or_importance(&density, None, prior.as_ref(), 4000, 1).unwrap();
        assert!((alone.value - 1.3).abs() < 4.0 * alone.se, "{name}: {alone:?}");
        assert!(alone.se < 0.1, "{name}: {alone:?}");
        let mass = importance(&density, Some(&near), prior.as_ref(), 4000, 1).unwrap();
        assert!((mass.value - 1.3).abs() < 4.0 * mass.se && mass.se < 0.05, "{name}: {mass:?}");
        // Without a density close to p: unbiased still, with a larger error; where the prior has
        // thinner tails than p the error itself cannot be estimated, so only bounded ratios are
        // tested.
        if density.0.manifold().log_volume().is_none() {
            continue;
        }
        let alone = importance(&density, None, prior.as_ref(), 4000, 1).unwrap();
        assert!((alone.value - 1.3).abs() < 4.0 * alone.se, "{name}: {alone:?}");
        assert!(alone.se > mass.se, "{name}");
    }
}

/// Where p is a combination of the laws that are drawn from, the known masses leave no error at
/// all.
#[test]
fn known_masses_are_a_control() {
    let set = Synthetic::new("plane-moons").unwrap();
    let prior = default_prior(set.manifold()).unwrap();
    let (density, near) = (Scaled(set.clone(), 1.3), Scaled(set, 1.0));
    for mass in [importance, bridge_or_importance] {
        let mass = mass(&density, Some(&near), prior.as_ref(), 1000, 1).unwrap();
        assert!((mass.value - 1.3).abs() < 1e-10 && mass.se < 1e-6, "{mass:?}");
    }
}

/// A law on T⁷ beside a kernel mixture of few of its points, which has only a thin part of it:
/// importance sampling is short of mass, with an error that says otherwise; those of a bridge are
/// what they say.
#[test]
fn errors_of_a_bridge_hold_where_the_proposal_is_poor() {
    let density = Scaled(Synthetic::new("torus7-mixture").unwrap(), 1.0);
    let manifold = Arc::clone(density.manifold());
    let prior = default_prior(&manifold).unwrap();
    let few = density.sample(12, 99).unwrap();
    let (few, options) =
        (Rows::new(&few, manifold.ambient_dim()).unwrap(), MixtureOptions::default());
    let near = KernelMixture::fit(manifold, Arc::clone(&prior), few, &options).unwrap();
    let seeds = 40;
    let far = |mass: Mass| u32::from((mass.value - 1.0).abs() > 3.0 * mass.se);
    let (mut bridges, mut importances, mut se) = (0, 0, 0.0);
    for seed in 0..seeds {
        let mass = bridge_or_importance(&density, Some(&near), prior.as_ref(), 2000, seed).unwrap();
        bridges += far(mass);
        se += mass.se / seeds as f64;
        importances += far(importance(&density, Some(&near), prior.as_ref(), 2000, seed).unwrap());
    }
    // Three standard errors: one in 370.
    assert!(bridges <= 1, "{bridges} of {seeds}");
    assert!(importances >= 8, "the case is none: {importances} of {seeds}");
    assert!(se < 0.2, "{se}");
}

#[test]
fn means_and_intervals() {
    let found = mean(&[1.0, 2.0, 3.0, 4.0]);
    assert!((found.value - 2.5).abs() < 1e-15 && (found.se - (5.0f64 / 12.0).sqrt()).abs() < 1e-15);
    assert!(mean(&[1.0]).se.is_nan());
    // The interval of a mean of 400 values is close to the normal one.
    let values: Vec<f64> = (0..400).map(|i| f64::from(i % 20)).collect();
    let found = mean(&values);
    let (low, high) = bootstrap_interval(&values, 0.95, 2000, 1);
    assert!((low - (found.value - 1.96 * found.se)).abs() < 0.1 * found.se);
    assert!((high - (found.value + 1.96 * found.se)).abs() < 0.1 * found.se);
}
