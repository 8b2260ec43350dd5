//! A model that needs no training: data distributed as a heat kernel have a known score at every
//! time. Plugged in for the network, likelihoods and samplers must return the known density: one
//! test for signs, factors and directions of time.

use std::sync::Arc;

use crate::common::{kolmogorov_smirnov, mean_se};
use manifusion::divergence::{Estimator, ProbeLaw};
use manifusion::error::SolveError;
use manifusion::field::{Field, PriorScore};
use manifusion::flow_density::FlowOptions;
use manifusion::heat_kernel::TransitionKernel;
use manifusion::likelihood::{BoundOptions, bounds, feynman_kac, log_density};
use manifusion::manifold::{Manifold, parse};
use manifusion::model::Diffusion;
use manifusion::ode::OdeOptions;
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};
use manifusion::sample::{SampleOptions, Steps, sample};
use manifusion::sde::{AdaptiveOptions, AtMinStep};

/// ∇ log K_{τ+s}(·|centre), plus ε times the projection of a constant vector.
#[derive(Debug)]
struct HeatKernelScore {
    manifold: Arc<dyn Manifold>,
    kernel: TransitionKernel,
    centre: Vec<f64>,
    tau: f64,
    epsilon: f64,
}

impl HeatKernelScore {
    fn value(&self, y: &[f64], s: f64, a: &mut [f64]) -> Result<(), SolveError> {
        // A smooth extension off the manifold, where solvers' predictors are.
        let mut point = y.to_vec();
        self.manifold.project_point(&mut point).map_err(SolveError::at(0, s))?;
        self.kernel.score(&self.centre, &point, self.tau + s, a)?;
        let mut delta = self.centre.clone();
        self.manifold.project_tangent(&point, &mut delta);
        for (a, d) in a.iter_mut().zip(delta) {
            *a += self.epsilon * d;
        }
        Ok(())
    }
}

impl Field for HeatKernelScore {
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = x.width();
        let (mut plus, mut minus) = (vec![0.0; m], vec![0.0; m]);
        for (i, y) in x.rows().enumerate() {
            self.value(y, s[i], &mut a[i * m..(i + 1) * m])?;
            for k in i * per_row..(i + 1) * per_row {
                let direction = &e[k * m..(k + 1) * m];
                let t = 2e-4 * (self.tau + s[i]).sqrt();
                let moved =
                    |t: f64| y.iter().zip(direction).map(|(y, e)| y + t * e).collect::<Vec<_>>();
                self.value(&moved(t), s[i], &mut plus)?;
                self.value(&moved(-t), s[i], &mut minus)?;
                for j in 0..m {
                    jvp[k * m + j] = (plus[j] - minus[j]) / (2.0 * t);
                }
            }
        }
        Ok(())
    }
}

struct Known {
    model: Diffusion,
    kernel: TransitionKernel,
    centre: Vec<f64>,
    tau: f64,
}

fn known(spec: &str, tau: f64, epsilon: f64, t_end: f64) -> Known {
    let manifold = parse(spec).unwrap();
    let prior = default_prior(&manifold).unwrap();
    let centre =
        manifusion::check::sample_points(manifold.as_ref(), 1, &Streams::new(1, "centre")).unwrap();
    let kernel = TransitionKernel::new(manifold.as_ref(), prior.as_ref()).unwrap();
    let field = HeatKernelScore {
        manifold: Arc::clone(&manifold),
        kernel: kernel.clone(),
        centre: centre.clone(),
        tau,
        epsilon,
    };
    let model = Diffusion { manifold, prior, field: Arc::new(field), s_min: 1e-3, t_end };
    Known { model, kernel, centre, tau }
}

impl Known {
    /// `n` draws of the data, the heat kernel at time τ.
    fn data(&self, n: usize, seed: u64) -> Vec<f64> {
        let (manifold, prior) = (Arc::clone(&self.model.manifold), Arc::clone(&self.model.prior));
        let m = manifold.ambient_dim();
        let path = NoisingPath::new(manifold, prior, PathChoice::Exact).unwrap();
        let x = self.centre.repeat(n);
        let mut y = vec![0.0; n * m];
        let rows = (Rows::new(&x, m).unwrap(), RowsMut::new(&mut y, m).unwrap());
        path.sample(rows.0, &vec![self.tau; n], &Streams::new(seed, "data"), 0, rows.1).unwrap();
        y
    }

    /// The density of the generative process stopped at s_min.
    fn expected(&self, x: &[f64]) -> f64 {
        self.kernel.log_density(&self.centre, x, self.tau + self.model.s_min).unwrap()
    }
}

/// The spaces of the test, with τ in the middle of the kernel's easy range and T as in the
/// defaults.
const SPACES: [(&str, f64, f64); 5] = [
    ("sphere:2", 0.3, 8.0),
    ("sphere:3", 0.3, 6.0),
    ("torus:2", 0.4, 18.0),
    ("so:3", 1.5, 16.0),
    ("euclidean:2", 0.7, 16.0),
];

#[test]
fn the_ode_returns_the_known_density() {
    for (spec, tau, t_end) in SPACES {
        let known = known(spec, tau, 0.0, t_end);
        let m = known.model.manifold.ambient_dim();
        let x = known.data(12, 2);
        for estimator in [Estimator::Frame, Estimator::RandomFrame] {
            let ode = OdeOptions { rtol: 1e-6, atol: 1e-6, ..OdeOptions::default() };
            let options = FlowOptions { ode, estimator, ..FlowOptions::default() };
            let found = log_density(&known.model, Rows::new(&x, m).unwrap(), &options).unwrap();
            for (x, log_p) in x.chunks_exact(m).zip(&found.log_p) {
                let expected = known.expected(x);
                // Prior gap e^{−λ₁T}, tolerance and the differences in the field.
                assert!((log_p - expected).abs() < 2e-3, "{spec}: {log_p} instead of {expected}");
            }
            assert!(found.stats.evaluations > 100);
        }
    }
}

/// Errors of the path are held to the scale of the structure, √s: a peak of 0.001 rad is solved as
/// well as a broad one, at the tolerance of the evaluation.
#[test]
fn a_sharp_peak_is_solved_to_the_tolerance() {
    for (spec, t_end) in [("sphere:2", 8.0), ("torus:2", 18.0)] {
        let mut known = known(spec, 1e-6, 0.0, t_end);
        known.model.s_min = 1e-8;
        let m = known.model.manifold.ambient_dim();
        let x = known.data(40, 9);
        let options = FlowOptions::with_tolerance(1e-5);
        let found = log_density(&known.model, Rows::new(&x, m).unwrap(), &options).unwrap();
        for (x, log_p) in x.chunks_exact(m).zip(&found.log_p) {
            let expected = known.expected(x);
            assert!((log_p - expected).abs() < 3e-3, "{spec}: {log_p} instead of {expected}");
        }
        let per_point = found.stats.evaluations / 40;
        assert!(per_point < 200, "{spec}: {per_point} evaluations");
    }
}

#[test]
fn both_bounds_meet_the_known_density() {
    for (spec, tau, t_end) in SPACES {
        let known = known(spec, tau, 0.0, t_end);
        let m = known.model.manifold.ambient_dim();
        let x = known.data(6, 3);
        let options = BoundOptions { num_paths: 8, ..BoundOptions::default() };
        let found = bounds(&known.model, Rows::new(&x, m).unwrap(), &options).unwrap();
        for (i, x) in x.chunks_exact(m).enumerate() {
            let expected = known.expected(x);
            // With the exact score log L does not depend on the path but for the steps, and longer
            // steps show more than the error.
            let (elbo, kelbo) = (found.elbo[i], found.kelbo[i]);
            let doubled = found.kelbo_doubled[i];
            let allowed = (doubled - kelbo).abs() + 0.02;
            for (name, value) in [("ELBO", elbo), ("KELBO", kelbo)] {
                assert!(
                    (value - expected).abs() < allowed,
                    "{spec}: {name} {value}, {expected} ± {allowed}"
                );
                assert!(value < expected + 0.02, "{spec}: {name} {value} is above {expected}");
            }
            assert!(allowed < 0.1, "{spec}: doubling changes {kelbo} to {doubled}");
            assert!(elbo <= kelbo + 1e-12);
        }
    }
}

/// The spread of log L over paths falls when steps are halved again and again.
#[test]
fn log_weights_become_constant_with_finer_steps() {
    let known = known("sphere:2", 0.3, 0.0, 8.0);
    let x = known.data(1, 4);
    let mut last = f64::INFINITY;
    for level in [5, 7, 9] {
        let adaptive = AdaptiveOptions {
            rtol: 1e9,
            atol: 1e9,
            first_level: level,
            min_level: level,
            ..AdaptiveOptions::default()
        };
        let options = BoundOptions { num_paths: 200, adaptive, ..BoundOptions::default() };
        let found = bounds(&known.model, Rows::new(&x, 3).unwrap(), &options).unwrap();
        // Half the variance of log L, to second order.
        let gap = found.kelbo[0] - found.elbo[0];
        assert!(gap < 0.6 * last, "level {level}: {gap} after {last}");
        last = gap;
    }
    assert!(last < 2e-6, "{last}");
}

/// The score-matching theorem `thm:score` at λ = 0: with the score off by δ the ELBO falls by
/// ∫½E|δ|² ds. Here δ = ε P v with v the centre, for which E|δ|² = ε²(1 − E cos²φ) is known.
#[test]
fn a_perturbed_score_costs_what_the_theorem_says() {
    let (tau, t_end, epsilon) = (0.3, 4.0, 0.4);
    let (exact, off) = (known("sphere:2", tau, 0.0, t_end), known("sphere:2", tau, epsilon, t_end));
    let x = exact.data(3000, 5);
    let adaptive = AdaptiveOptions {
        rtol: 1e9,
        atol: 1e9,
        first_level: 7,
        min_level: 7,
        ..AdaptiveOptions::default()
    };
    let options = BoundOptions { num_paths: 1, adaptive, ..BoundOptions::default() };
    let elbo =
        |known: &Known| bounds(&known.model, Rows::new(&x, 3).unwrap(), &options).unwrap().elbo;
    let drops: Vec<f64> = elbo(&exact).iter().zip(elbo(&off)).map(|(a, b)| a - b).collect();
    let (mean, se) = mean_se(drops.iter().copied());
    // ∫ ½ε²(1 − (1 + 2e^{−3(τ+s)})/3) ds
    let s_min = exact.model.s_min;
    let decay = ((-3.0 * (tau + s_min)).exp() - (-3.0 * (tau + t_end)).exp()) / 3.0;
    let expected = 0.5 * epsilon * epsilon * (2.0 / 3.0) * ((t_end - s_min) - decay);
    assert!((mean - expected).abs() < 4.0 * se + 0.005, "{mean} ± {se}, {expected}");
    assert!(se < 0.1 * expected, "the test is too weak: {se}");
}

/// 1 + ε times the score of noised normal data around the origin; the variance is 1 − c e^{−s}.
#[derive(Debug)]
struct TooStrongScore {
    epsilon: f64,
    c: f64,
}

impl Field for TooStrongScore {
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = x.width();
        for (i, s) in s.iter().enumerate() {
            let slope = -(1.0 + self.epsilon) / (1.0 - self.c * (-s).exp());
            for j in 0..m {
                a[i * m + j] = slope * x.row(i)[j];
            }
            for j in i * per_row * m..(i + 1) * per_row * m {
                jvp[j] = slope * e[j];
            }
        }
        Ok(())
    }
}

/// The ODE carries a relative error of the score along from scale to scale, ε·(d/2)·ln of their
/// ratio; the reverse SDE forgets it, (d/2)·ln(1 + 2ε).
#[test]
fn errors_of_the_score_add_up_in_the_ode_alone() {
    let (s_min, t_end, tau, epsilon) = (1e-4_f64, 1.0_f64, 1e-3_f64, 0.2);
    let c = (-tau).exp();
    let manifold = parse("euclidean:2").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let field = Arc::new(TooStrongScore { epsilon, c });
    let model = Diffusion { manifold, prior, field, s_min, t_end };
    let normal = |x: &[f64], variance: f64| {
        let square: f64 = x.iter().map(|x| x * x).sum();
        -(2.0 * std::f64::consts::PI * variance).ln() - 0.5 * square / variance
    };
    let width = (1.0 - c * (-s_min).exp()).sqrt();
    let x = [0.0, 0.0, width, -0.5 * width];
    let rows = Rows::new(&x, 2).unwrap();

    // x(T) = x e^L along dx/ds = −x/2 + (1 + ε) x/(2v).
    let grown = ((t_end.exp() - c) / (s_min.exp() - c)).ln();
    let l = -0.5 * (t_end - s_min) + 0.5 * (1.0 + epsilon) * grown;
    let exact = log_density(&model, rows, &FlowOptions::with_tolerance(1e-6)).unwrap().log_p;
    for (x, log_p) in x.chunks_exact(2).zip(&exact) {
        let end: Vec<f64> = x.iter().map(|x| x * l.exp()).collect();
        let expected = normal(&end, 1.0) + 2.0 * l;
        assert!((log_p - expected).abs() < 1e-3, "{log_p}, {expected}");
    }

    // The variance Σ of the reverse SDE: dΣ/ds = −Σ + 2(1 + ε)Σ/v − 1 from Σ(T) = 1, with the
    // solution h(s)·(1/h(T) + ∫ du/h(u)) over (s, T), h(s) = e^{−s}(e^s − c)^{2 + 2ε}.
    let h = |s: f64| (-s + (2.0 + 2.0 * epsilon) * (s.exp() - c).ln()).exp();
    let nodes = 4000;
    let step = (t_end / s_min).ln() / f64::from(nodes);
    let integral: f64 = (0..nodes)
        .map(|i| {
            let u = s_min * (step * (f64::from(i) + 0.5)).exp();
            step * u / h(u)
        })
        .sum();
    let sigma = h(s_min) * (1.0 / h(t_end) + integral);
    let num_paths = 4000;
    // With the default steps the KELBO is 0.05 too high here: along a curve |a|² is less than along
    // the rough path, which the other terms make up for where a is an exact score, and only there.
    let mut options = BoundOptions { num_paths, ..BoundOptions::default() };
    (options.adaptive.atol, options.adaptive.min_level) = (1e-3, 7);
    let found = bounds(&model, rows, &options).unwrap();
    for (i, x) in x.chunks_exact(2).enumerate() {
        let expected = normal(x, sigma);
        // The log-weights' variance, twice the distance of the two bounds, is that of the mean.
        let variance = (2.0 * (found.kelbo[i] - found.elbo[i])).exp_m1();
        let se = (variance / num_paths as f64).sqrt();
        let allowed = 4.0 * se + (found.kelbo_doubled[i] - found.kelbo[i]).abs() + 0.01;
        let kelbo = found.kelbo[i];
        assert!((kelbo - expected).abs() < allowed, "{kelbo}, {expected} ± {allowed}");
        assert!(allowed < 0.15, "the test is too weak: {allowed}");
    }
    // At the peak, where both are too high: by far more in the ODE.
    let truth = normal(&x[..2], width * width);
    let (ode, sde) = (exact[0] - truth, normal(&x[..2], sigma) - truth);
    assert!(ode > 0.9 && sde < 0.4, "{ode}, {sde}");
}

/// Feynman–Kac with a = 0 in the weight agrees with the ODE on S¹ and T².
#[test]
fn feynman_kac_agrees_with_the_ode() {
    for (spec, tau, t_end, paths, allowed) in
        [("sphere:1", 0.5, 10.0, 16_000, 0.06), ("torus:2", 0.6, 10.0, 16_000, 0.15)]
    {
        let known = known(spec, tau, 0.0, t_end);
        let x = known.data(1, 6);
        let found = feynman_kac(&known.model, &x, paths, 7, 7).unwrap();
        let expected = known.expected(&x);
        assert!((found - expected).abs() < allowed, "{spec}: {found}, {expected}");
    }
}

/// On H² take data = p₀, so that the score is 2U₀: everything must return log p₀.
#[test]
fn the_prior_is_its_own_model_on_the_hyperboloid() {
    for spec in ["hyperbolic:2", "hyperbolic:2,metric=lorentz"] {
        prior_as_model(spec);
    }
}

fn prior_as_model(spec: &str) {
    let manifold = parse(spec).unwrap();
    let prior = default_prior(&manifold).unwrap();
    let field = Arc::new(PriorScore(Arc::clone(&prior)));
    let model = Diffusion { manifold, prior, field, s_min: 1e-3, t_end: 3.0 };
    let mut x = vec![0.0; 30];
    for (i, x) in x.chunks_exact_mut(3).enumerate() {
        model.prior.sample(&mut Streams::new(1, "x").stream(i as u64, 0), x).unwrap();
    }
    let rows = Rows::new(&x, 3).unwrap();
    let ode = log_density(&model, rows, &FlowOptions::default()).unwrap();
    let found = bounds(&model, rows, &BoundOptions { num_paths: 4, ..Default::default() }).unwrap();
    for (i, x) in x.chunks_exact(3).enumerate() {
        let expected = model.prior.log_density(x);
        assert!((ode.log_p[i] - expected).abs() < 1e-5, "ODE {} {expected}", ode.log_p[i]);
        assert!((found.kelbo[i] - expected).abs() < 0.05, "KELBO {} {expected}", found.kelbo[i]);
        assert!((found.elbo[i] - expected).abs() < 0.05, "ELBO {} {expected}", found.elbo[i]);
    }
}

/// λ = 0, λ = 1, λ = −1 and adaptive steps all draw from the data's law.
#[test]
fn samplers_of_the_lambda_family_agree() {
    let known = known("sphere:2", 0.3, 0.0, 6.0);
    let angles = |x: &[f64]| -> Vec<f64> {
        x.chunks_exact(3).map(|x| x.iter().zip(&known.centre).map(|(a, b)| a * b).sum()).collect()
    };
    let n = 2000;
    let mut data = angles(&known.data(n, 8));
    let fixed = Steps::Fixed { level: 7 };
    let adaptive = Steps::Adaptive(AdaptiveOptions {
        rtol: 1e-2,
        atol: 1e-2,
        at_min_step: AtMinStep::Accept,
        ..AdaptiveOptions::default()
    });
    for (lambda, steps) in
        [(0.0, fixed), (1.0, fixed), (-1.0, fixed), (0.5, fixed), (0.0, adaptive)]
    {
        let options = SampleOptions { lambda, steps, seed: 3, ..SampleOptions::default() };
        let x = sample(&known.model, n, &options).unwrap();
        let (worst, allowed) = kolmogorov_smirnov(&mut data, &mut angles(&x));
        assert!(worst < allowed, "λ = {lambda}: KS {worst} > {allowed}");
    }
    let error =
        sample(&known.model, 1, &SampleOptions { lambda: 1.5, ..Default::default() }).unwrap_err();
    assert_eq!(error.to_string(), "lambda = 1.5 is not allowed; a finite number of at most 1");
}

/// Hutchinson's likelihood is noisy but unbiased: its mean over probes meets the exact one.
#[test]
fn a_hutchinson_likelihood_is_unbiased() {
    let known = known("torus:2", 0.4, 0.0, 12.0);
    let x = known.data(1, 9);
    let copies = x.repeat(200);
    let estimator = Estimator::Hutchinson { probes: 1, law: ProbeLaw::Rademacher };
    let options = FlowOptions { estimator, ..FlowOptions::default() };
    let noisy = log_density(&known.model, Rows::new(&copies, 4).unwrap(), &options).unwrap();
    let (mean, se) = mean_se(noisy.log_p.iter().copied());
    assert!((mean - known.expected(&x)).abs() < 4.0 * se + 2e-3, "{mean} ± {se}");
}

/// A fixed number of steps is obeyed for the ODE too: Heun's scheme, whose error falls with the
/// steps.
#[test]
fn fixed_steps_are_fixed_steps_for_the_ode() {
    let known = known("sphere:2", 0.3, 0.0, 6.0);
    let draw = |steps: Steps| {
        sample(&known.model, 50, &SampleOptions { lambda: 1.0, steps, ..Default::default() })
            .unwrap()
    };
    let tight = AdaptiveOptions { rtol: 1e-9, atol: 1e-9, ..AdaptiveOptions::default() };
    let exact = draw(Steps::Adaptive(tight));
    let error = |level: u32| {
        let x = draw(Steps::Fixed { level });
        x.iter().zip(&exact).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
    };
    let errors = [4, 6, 8].map(error);
    assert!(errors[0] > 1e-3, "sixteen steps cannot be exact: {errors:?}");
    // Second order: sixteen times less with four times the steps, allowing a factor of two.
    for pair in errors.windows(2) {
        let ratio = pair[0] / pair[1];
        assert!((8.0..40.0).contains(&ratio), "{errors:?}");
    }
}

/// Draws of a part of the rows are the rows of the whole.
#[test]
fn samples_can_be_drawn_in_parts() {
    let known = known("sphere:2", 0.3, 0.0, 6.0);
    let options = SampleOptions { steps: Steps::Fixed { level: 4 }, ..Default::default() };
    let whole = sample(&known.model, 30, &options).unwrap();
    for lambda in [0.0, 1.0] {
        let options = SampleOptions { lambda, ..options };
        let whole = sample(&known.model, 30, &options).unwrap();
        let part = sample(&known.model, 9, &SampleOptions { first_row: 21, ..options }).unwrap();
        assert_eq!(part, whole[63..]);
    }
    assert_eq!(whole.len(), 90);
}
