//! The proposals of training times.

use manifusion::optim::{Adam, AdamConfig};
use manifusion::rng::Streams;
use manifusion::time::{
    Draw, FlowConfig, FlowScale, LinearSchedule, LogUniform, Proposal, SigmoidalFlow, TimeError,
    Uniform,
};

const S_MIN: f64 = 1e-5;
const T_END: f64 = 6.0;

/// ∫ f(s) ds by Gauss–Legendre (5 points) on pieces of equal length in the logarithm of the
/// distance to the nearer end of the interval, where the densities may have a root or a pole.
fn integrate(f: impl Fn(f64) -> f64) -> f64 {
    const NODES: [(f64, f64); 5] = [
        (-0.906_179_845_938_664, 0.236_926_885_056_189_08),
        (-0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
        (0.0, 128.0 / 225.0),
        (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
        (0.906_179_845_938_664, 0.236_926_885_056_189_08),
    ];
    let half = 0.5 * (T_END - S_MIN);
    let side = |smallest: f64, place: &dyn Fn(f64) -> f64| {
        let pieces = 400;
        let step = (half / smallest).ln() / f64::from(pieces);
        let mut sum = 0.0;
        for piece in 0..pieces {
            for (node, weight) in NODES {
                let log = smallest.ln() + (f64::from(piece) + 0.5 + 0.5 * node) * step;
                sum += 0.5 * step * weight * log.exp() * f(place(log.exp()));
            }
        }
        sum
    };
    side(1e-17, &|offset| S_MIN + offset) + side(1e-12, &|offset| T_END - offset)
}

const SCALES: [FlowScale; 2] = [FlowScale::Log, FlowScale::Linear];

/// A flow away from its start, so that nothing is checked only where it is trivial.
fn bent(seed: u64, floor: f64, scale: FlowScale) -> SigmoidalFlow {
    let config = FlowConfig { layers: 2, units: 6, floor, scale };
    let mut flow = SigmoidalFlow::new(config, S_MIN, T_END, seed).unwrap();
    let mut stream = Streams::new(seed, "test/bent").stream(0, 0);
    flow.params_mut().iter_mut().for_each(|p| *p += 0.5 * stream.normal());
    flow
}

#[test]
fn densities_integrate_to_one() {
    for (seed, scale) in (0..3).flat_map(|seed| SCALES.map(|scale| (seed, scale))) {
        for floor in [0.0, 0.05] {
            let flow = bent(seed, floor, scale);
            let total = integrate(|s| flow.log_density(s).exp());
            assert!((total - 1.0).abs() < 1e-6, "{scale:?}, {seed}, floor {floor}: {total}");
        }
    }
    let log_uniform = LogUniform::new(S_MIN, T_END).unwrap();
    assert!((integrate(|s| log_uniform.log_density(s).exp()) - 1.0).abs() < 1e-9);
    let uniform = Uniform::new(S_MIN, T_END).unwrap();
    assert!((integrate(|s| uniform.log_density(s).exp()) - 1.0).abs() < 1e-9);
    assert!(uniform.log_density(7.0).is_infinite() && log_uniform.log_density(0.0).is_infinite());
}

#[test]
fn inverse_undoes_forward() {
    for (seed, scale) in (0..4).flat_map(|seed| SCALES.map(|scale| (seed, scale))) {
        let flow = bent(seed, 0.05, scale);
        for i in -60..=60 {
            let x = f64::from(i) * 0.25;
            let s = flow.forward(x);
            // Where s has run into an end of the interval, x is no longer in it.
            let left = match scale {
                FlowScale::Log => (s / S_MIN).ln().min((T_END / s).ln()),
                FlowScale::Linear => 1e3 * (s - S_MIN).min(T_END - s),
            };
            if left < 1e-9 {
                continue;
            }
            assert!((flow.forward(flow.inverse(s)) - s).abs() <= 1e-13 * s, "{x}");
            let allowed = 1e-5 * (1.0 + x.abs());
            assert!((flow.inverse(s) - x).abs() < allowed, "{x}: {}", flow.inverse(s));
        }
    }
}

#[test]
fn draws_follow_the_density() {
    SCALES.into_iter().for_each(draws_of);
}

fn draws_of(scale: FlowScale) {
    let flow = bent(1, 0.1, scale);
    let (n, bins) = (50_000, 12);
    let mut counts = vec![0.0; bins];
    let streams = Streams::new(3, "test/draws");
    let bin = |s: f64| {
        let place = (s / S_MIN).ln() / (T_END / S_MIN).ln() * bins as f64;
        (place as usize).min(bins - 1)
    };
    for row in 0..n {
        let draw = flow.draw(streams.stream(row, 0).uniform());
        assert!((draw.log_q - flow.log_density(draw.s)).abs() < 1e-6);
        counts[bin(draw.s)] += 1.0;
    }
    for (b, count) in counts.iter().enumerate() {
        let p = integrate(|s| if bin(s) == b { flow.log_density(s).exp() } else { 0.0 });
        // Quadrature of a step: both ends of a bin are cut to within a piece, 1/12 of a bin.
        let bias = 0.1 * p + 1e-4;
        let error = (p * (1.0 - p) / n as f64).sqrt();
        assert!((count / n as f64 - p).abs() < bias + 4.0 * error, "bin {b}: {count} {p}");
    }
}

#[test]
fn gradients_are_derivatives() {
    let h = 1e-6;
    for (floor, scale) in [0.0, 0.2].into_iter().flat_map(|f| SCALES.map(|scale| (f, scale))) {
        let flow = bent(2, floor, scale);
        for s in [2e-5, 1e-3, 0.4, 5.5] {
            let mut grad = vec![0.0; flow.params().len()];
            flow.add_score(s, 1.5, &mut grad);
            for p in 0..grad.len() {
                let at = |delta: f64| {
                    let mut flow = flow.clone();
                    flow.params_mut()[p] += delta;
                    1.5 * flow.log_density(s)
                };
                let expected = (at(h) - at(-h)) / (2.0 * h);
                let error = (grad[p] - expected).abs();
                assert!(error < 1e-6 * (1.0 + expected.abs()), "s {s}, parameter {p}: {error:e}");
            }
        }
    }
}

#[test]
fn pathwise_gradients_are_derivatives() {
    let h = 1e-6;
    let log_loss = |s: f64| (1.0 + 1.0 / s).ln();
    for (floor, scale) in [0.0, 0.2].into_iter().flat_map(|f| SCALES.map(|scale| (f, scale))) {
        let flow = bent(3, floor, scale);
        for u in [0.05, 0.15, 0.3, 0.6, 0.95] {
            let draw = flow.draw(u);
            let slope = -1.0 / (draw.s * draw.s) / (1.0 + 1.0 / draw.s);
            let mut grad = vec![0.0; flow.params().len()];
            flow.add_pathwise(draw, slope, 0.7, &mut grad);
            for p in 0..grad.len() {
                let at = |delta: f64| {
                    let mut flow = flow.clone();
                    flow.params_mut()[p] += delta;
                    let Draw { s, log_q, .. } = flow.draw(u);
                    0.7 * (log_loss(s) - log_q)
                };
                let expected = (at(h) - at(-h)) / (2.0 * h);
                let error = (grad[p] - expected).abs();
                assert!(error < 2e-6 * (1.0 + expected.abs()), "u {u}, {p}: {error:e}");
            }
        }
    }
}

/// Learns the integrand ℓ(s) = sᵖ; the flow's E[I²] at the start and at the end.
fn learn(power: i32, pathwise: bool, floor: f64, scale: FlowScale) -> (f64, f64) {
    let config = FlowConfig { layers: 2, units: 8, floor, scale };
    let mut flow = SigmoidalFlow::new(config, S_MIN, T_END, 1).unwrap();
    let second_moment =
        |flow: &SigmoidalFlow| integrate(|s| s.powi(2 * power) / flow.log_density(s).exp());
    let start = second_moment(&flow);
    let mut adam = Adam::new(AdamConfig::default(), flow.params().len()).unwrap();
    let streams = Streams::new(5, "test/learn");
    let (n, steps) = (128, 800);
    let mut grad = vec![0.0; flow.params().len()];
    for step in 0..steps {
        let draw = |row: u64| {
            let u = streams.stream(row, step).uniform();
            flow.draw((row as f64 + u) / n as f64)
        };
        let draws: Vec<Draw> = (0..n).map(draw).collect();
        let s: Vec<f64> = draws.iter().map(|draw| draw.s).collect();
        let losses: Vec<f64> = s.iter().map(|s| s.powi(power)).collect();
        if pathwise {
            let slope = |s: &f64| f64::from(power) * s.powi(power - 1);
            let slopes: Vec<f64> = s.iter().map(slope).collect();
            flow.pathwise_variance_gradient(&draws, &losses, &slopes, &mut grad).unwrap();
        } else {
            flow.variance_gradient(&s, &losses, &mut grad).unwrap();
        }
        let rate = 0.02 * (1.0 - step as f64 / steps as f64);
        adam.step(flow.params_mut(), &grad, rate).unwrap();
    }
    (start, second_moment(&flow))
}

/// E[I²] of log-uniform times is L∫s^{2p+1}ds, the least is (∫sᵖds)².
#[test]
fn learning_brings_the_variance_to_its_optimum() {
    for (power, pathwise, floor) in
        [(0, false, 0.0), (0, true, 0.05), (3, false, 0.05), (-3, false, 0.05), (-3, true, 0.05)]
    {
        let integral = |p: i32| {
            let p = f64::from(p + 1);
            (T_END.powf(p) - S_MIN.powf(p)) / p
        };
        let optimum = integral(power).powi(2);
        let log_uniform = (T_END / S_MIN).ln() * integral(2 * power + 1);
        let (start, end) = learn(power, pathwise, floor, FlowScale::Log);
        println!(
            "s^{power}, {pathwise}: {start:.4e} to {end:.4e}; {log_uniform:.4e}, {optimum:.4e}"
        );
        assert!(start < 1.2 * log_uniform, "{start}, {log_uniform}");
        assert!(start > 2.0 * optimum, "the start is too good: {start}");
        assert!(end < 1.2 * optimum, "s^{power}, {pathwise}: {end}, {optimum}");
    }
}

/// The integrand ℓ(s) = 1/s: uniform gives E[I²] = T/s_min, the optimum is (ln T/s_min)².
#[test]
fn a_flow_on_the_papers_scale_comes_from_uniform_times() {
    let uniform = (T_END - S_MIN) * (1.0 / S_MIN - 1.0 / T_END);
    let optimum = (T_END / S_MIN).ln().powi(2);
    // Without a floor the flow starts as the uniform law; half of a floor is log-uniform, already
    // far better. The pathwise gradient needs it: it grows with 1/q.
    for (pathwise, floor, least_start) in
        [(false, 0.0, uniform), (false, 0.05, 3e3), (true, 0.05, 3e3)]
    {
        let (start, end) = learn(-1, pathwise, floor, FlowScale::Linear);
        assert!(start > least_start, "the start is too good: {start}");
        assert!(100.0 * end < uniform && end < 1.2 * optimum, "{pathwise}: {end}, {optimum}");
    }
}

/// Where the log-uniform law is the best one, the flow starts there and stays.
#[test]
fn a_flow_at_its_optimum_stays_there() {
    let optimum = (T_END / S_MIN).ln().powi(2);
    for pathwise in [false, true] {
        let (start, end) = learn(-1, pathwise, 0.05, FlowScale::Log);
        assert!(start < 1.05 * optimum && end < 1.05 * optimum, "{start}, {end}, {optimum}");
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    assert!(matches!(Uniform::new(2.0, 1.0), Err(TimeError::Interval { .. })));
    assert!(matches!(LogUniform::new(0.0, 1.0), Err(TimeError::Interval { .. })));
    let refused = |config| {
        let flow = SigmoidalFlow::new(config, S_MIN, T_END, 0);
        matches!(flow, Err(TimeError::Setting { .. }))
    };
    assert!(refused(FlowConfig { layers: 0, ..FlowConfig::default() }));
    assert!(refused(FlowConfig { layers: 9, ..FlowConfig::default() }));
    assert!(refused(FlowConfig { units: 0, ..FlowConfig::default() }));
    assert!(refused(FlowConfig { floor: 1.0, ..FlowConfig::default() }));
}

/// Times of a noise schedule: a density of mass one, whose samples are those of a uniform clock.
#[test]
fn a_linear_schedule_is_uniform_in_its_own_clock() {
    let schedule = LinearSchedule::new(0.001, 11.999, S_MIN, T_END).unwrap();
    let mass = integrate(|s| schedule.log_density(s).exp());
    assert!((mass - 1.0).abs() < 1e-9, "{mass}");
    // P(s ≤ sample(u)) = u.
    for u in [0.01, 0.3, 0.9] {
        let s = schedule.sample(u);
        let below = integrate(|t| if t <= s { schedule.log_density(t).exp() } else { 0.0 });
        assert!((below - u).abs() < 1e-2, "{u}: {below}");
        let h = 1e-6;
        let slope = (schedule.sample(u + h) - schedule.sample(u - h)) / (2.0 * h);
        assert!((slope.ln() + schedule.log_density(s)).abs() < 1e-6, "{u}");
    }
    assert!((schedule.noise(1.0) - T_END).abs() < 1e-12);
    assert!(LinearSchedule::new(2.0, 1.0, S_MIN, T_END).is_err());
}
