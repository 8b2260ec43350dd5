//! Optimisers against their formulas, step by step in f64.

use manifusion::nn::{
    Activation, FieldInput, GridConfig, Mlp, NetConfig, OutputScale, ShardCotangents, ShardValues,
    Support, TimeConditioning,
};
use manifusion::optim::{
    Adam, AdamConfig, Decay, Ema, MatrixPlace, OptimError, Schedule, Soap, clip_norm, norm,
};
use manifusion::rows::Rows;

#[test]
fn adamw_follows_its_formula() {
    let config = AdamConfig { weight_decay: 0.1, ..AdamConfig::default() };
    let n = 40_000;
    let mut params: Vec<f64> = (0..n).map(|i| (f64::from(i) * 0.7).sin()).collect();
    let mut adam = Adam::new(config, params.len()).unwrap();
    let (mut p, mut m, mut v) = (params[17], 0.0f64, 0.0f64);
    for t in 1..=25i32 {
        let grad: Vec<f64> = params.iter().map(|p| 2.0 * p + f64::from(t) * 0.01).collect();
        let (lr, g) = (0.01 / f64::from(t), grad[17]);
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        let (m_hat, v_hat) = (m / (1.0 - 0.9f64.powi(t)), v / (1.0 - 0.999f64.powi(t)));
        p = p - lr * 0.1 * p - lr * m_hat / (v_hat.sqrt() + 1e-8);
        adam.step(&mut params, &grad, lr).unwrap();
        assert!((params[17] - p).abs() < 1e-13, "step {t}: {} {p}", params[17]);
    }
    assert_eq!(adam.steps(), 25);
}

/// Small matrices in f64, by rows.
type Table = Vec<Vec<f64>>;

fn table(rows: usize, columns: usize, entry: impl Fn(usize, usize) -> f64) -> Table {
    (0..rows).map(|i| (0..columns).map(|j| entry(i, j)).collect()).collect()
}

fn transpose(a: &Table) -> Table {
    table(a[0].len(), a.len(), |i, j| a[j][i])
}

fn times(a: &Table, b: &Table) -> Table {
    table(a.len(), b[0].len(), |i, j| (0..b.len()).map(|k| a[i][k] * b[k][j]).sum())
}

fn combine(x: f64, a: &Table, y: f64, b: &Table) -> Table {
    table(a.len(), a[0].len(), |i, j| x * a[i][j] + y * b[i][j])
}

/// Columns made orthonormal by Gram–Schmidt, from the first on.
fn orthonormal_columns(a: &Table) -> Table {
    let mut columns = transpose(a);
    for i in 0..columns.len() {
        for j in 0..i {
            let dot: f64 = columns[i].iter().zip(&columns[j]).map(|(a, b)| a * b).sum();
            columns[i] = columns[i].iter().zip(&columns[j]).map(|(a, b)| a - dot * b).collect();
        }
        let norm = columns[i].iter().map(|a| a * a).sum::<f64>().sqrt();
        columns[i].iter_mut().for_each(|a| *a /= norm);
    }
    transpose(&columns)
}

/// SOAP of one matrix as the paper writes it, with averages at steps 1 to 10 and every fifth, and
/// bases at 2, 4, …, 32 and every fiftieth.
struct PlainSoap {
    averages: [Table; 2],
    bases: [Table; 2],
    /// In coordinates, not in the bases.
    first: Table,
    second: Table,
}

impl PlainSoap {
    fn new(rows: usize, columns: usize) -> Self {
        let unit = |n| table(n, n, |i, j| f64::from(u8::from(i == j)));
        let zero = |n, m| table(n, m, |_, _| 0.0);
        Self {
            averages: [zero(rows, rows), zero(columns, columns)],
            bases: [unit(rows), unit(columns)],
            first: zero(rows, columns),
            second: zero(rows, columns),
        }
    }

    /// The direction of step `t`, counted from 1.
    fn direction(&mut self, t: i32, g: &Table) -> Table {
        if t <= 10 || t % 5 == 0 {
            let decay = if t == 1 { 0.0 } else { 0.99 };
            let squares = [times(g, &transpose(g)), times(&transpose(g), g)];
            for (average, square) in self.averages.iter_mut().zip(&squares) {
                *average = combine(decay, average, 1.0 - decay, square);
            }
        }
        if (t > 1 && t < 50 && t & (t - 1) == 0) || t % 50 == 0 {
            for (basis, average) in self.bases.iter_mut().zip(&self.averages) {
                let n = average.len();
                let ridge = 1e-6 * (0..n).map(|i| average[i][i]).sum::<f64>() / n as f64;
                *basis = orthonormal_columns(&combine(1.0, &times(average, basis), ridge, basis));
            }
        }
        let [left, right] = &self.bases;
        self.first = combine(0.9, &self.first, 0.1, g);
        let turned = |a: &Table| times(&times(&transpose(left), a), right);
        let (m, g) = (turned(&self.first), turned(g));
        let squares = table(g.len(), g[0].len(), |i, j| g[i][j] * g[i][j]);
        self.second = combine(0.999, &self.second, 0.001, &squares);
        let direction = table(m.len(), m[0].len(), |i, j| {
            let second = self.second[i][j] / (1.0 - 0.999f64.powi(t));
            m[i][j] / (1.0 - 0.9f64.powi(t)) / (second.sqrt() + 1e-8)
        });
        times(&times(left, &direction), &transpose(right))
    }
}

/// Two matrices among other numbers take SOAP's steps, the numbers beside them Adam's.
#[test]
fn soap_follows_its_formula() {
    let places =
        [MatrixPlace { offset: 3, shape: [7, 4] }, MatrixPlace { offset: 33, shape: [4, 5] }];
    let n = 60;
    let start: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).cos()).collect();
    // A gradient with correlated entries and noise that is a function of the step.
    let gradient = |t: i32, params: &[f32]| -> Vec<f32> {
        let mean = params.iter().sum::<f32>() / n as f32;
        let noise = |i: usize| ((i as f32 + 1.0) * t as f32 * 0.61).sin();
        let scale = |i: usize| 0.2 + (i % 5) as f32;
        (0..n as usize).map(|i| scale(i) * (params[i] + 3.0 * mean + 0.3 * noise(i))).collect()
    };
    let mut params = start.clone();
    let mut adam = Adam::new(AdamConfig::default(), start.len()).unwrap();
    let mut beside = Adam::new(AdamConfig::default(), start.len()).unwrap();
    let mut soap = Soap::new(&places);
    let all = Support::whole(start.len());
    let mut plain = places.map(|place| PlainSoap::new(place.shape[0], place.shape[1]));
    for t in 1..=120 {
        let mut grad = gradient(t, &params);
        let (mut own, given) = (params.clone(), grad.clone());
        beside.step(&mut own, &given, 0.01).unwrap();
        for (place, plain) in places.iter().zip(&mut plain) {
            let [rows, columns] = place.shape;
            let at = |i: usize, j: usize| place.offset + i * columns + j;
            let direction =
                plain.direction(t, &table(rows, columns, |i, j| f64::from(given[at(i, j)])));
            for i in 0..rows {
                for j in 0..columns {
                    own[at(i, j)] = params[at(i, j)] - 0.01 * direction[i][j] as f32;
                }
            }
        }
        soap.step(&mut adam, &mut params, &mut grad, &all, 0.01).unwrap();
        // Single precision, through bases of nearly equal eigenvalues: a step is 0.01 long.
        for (i, (found, expected)) in params.iter().zip(&own).enumerate() {
            assert!((found - expected).abs() < 1e-4, "step {t}, {i}: {found} {expected}");
        }
    }
    let kept: Vec<(String, Vec<f32>)> =
        soap.state().map(|(name, values)| (name, values.to_vec())).collect();
    let mut again = Soap::new(&places);
    let find = |name: &str, len: usize| {
        let found = kept.iter().find(|(kept, values)| kept == name && values.len() == len);
        found.map(|(_, values)| values.clone())
    };
    assert!(again.restore(find).is_some() && again.state().eq(soap.state()));
    assert!(Soap::new(&places[..1]).restore(|_, _| None).is_none());
}

#[test]
fn clipping_scales_to_the_norm_and_leaves_short_gradients_alone() {
    let mut g: Vec<f32> = (0..100_000).map(|i| (i as f32).cos()).collect();
    let (before, all) = (norm(&g), Support::whole(g.len()));
    let exact = g.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    assert!((before - exact).abs() < 1e-10 * exact);
    let (keep, returned) = (g.clone(), clip_norm(&mut g, &all, 1e6).unwrap());
    assert!(keep == g && returned.to_bits() == before.to_bits());
    clip_norm(&mut g, &all, 2.0).unwrap();
    assert!((norm(&g) - 2.0).abs() < 1e-5);
    g[5] = f32::NAN;
    assert!(matches!(clip_norm(&mut g, &all, 2.0), Err(OptimError::NotFinite { .. })));
}

/// Of the tables of grids a batch of five points meets few entries: these take the steps of a dense
/// optimiser, the others keep their values and moments.
#[test]
fn entries_that_no_point_meets_stay_as_they_are() {
    let grid = GridConfig { levels: 4, coarsest: 2.0, finest: 50.0, log2_entries: 9, lines: true };
    let config = NetConfig {
        ambient_dim: 3,
        depth: 1,
        width: 8,
        activation: Activation::Swish,
        residual: false,
        actnorm: false,
        time: TimeConditioning::Concat,
        fourier: None,
        grid: Some(grid),
        output_scale: OutputScale::One,
        zero_output: false,
    };
    let net = Mlp::<f32>::new(config, 3).unwrap();
    let table = net.layout().view("grid.table").unwrap().range();
    let loss = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
        c.a.copy_from_slice(v.a);
        for (loss, a) in c.loss.iter_mut().zip(v.a.chunks_exact(3)) {
            *loss = 0.5 * a.iter().map(|a| a * a).sum::<f64>();
        }
    };
    let batch = |seed: i32| -> (Vec<f64>, Vec<f64>) {
        let x = (0..15).map(|i| (f64::from(1 + i) * (0.7 + f64::from(seed))).sin()).collect();
        (x, vec![1e-4; 5])
    };
    let mut reused = net.train_workspace(1);
    let len = net.params().len();
    let [mut adam, mut turned_adam] =
        [0; 2].map(|_| Adam::<f32>::new(AdamConfig::default(), len).unwrap());
    for seed in 0..3 {
        let (x, s) = batch(seed);
        let input = FieldInput::value(Rows::new(&x, 3).unwrap(), &s);
        let mut fresh = net.train_workspace(1);
        for workspace in [&mut reused, &mut fresh] {
            net.loss_gradient(input, &loss, workspace, &mut [0.0; 5], None).unwrap();
        }
        // What an earlier batch has met is forgotten.
        assert_eq!(reused.gradient(), fresh.gradient());
        let (gradient, support) = reused.gradient_mut();
        assert_eq!(support, fresh.gradient_mut().1);
        let mut is_in = vec![false; len];
        is_in[..support.dense()].fill(true);
        support.runs().for_each(|run| is_in[run].fill(true));
        assert_eq!(support.dense(), table.start);
        let met = is_in[table.clone()].iter().filter(|is_in| **is_in).count();
        assert!((2 * 27..=2 * 5 * 27 * 4).contains(&met), "{met} of {}", table.len());
        assert!((0..len).all(|i| is_in[i] || gradient[i] == 0.0));
        // Both norms count all of it, one number after the other or not.
        let exact = norm(gradient);
        let found = clip_norm(gradient, support, 0.1 * exact).unwrap();
        assert!((found - exact).abs() < 1e-9 * exact);
        assert!((norm(gradient) - 0.1 * exact).abs() < 1e-5 * exact);

        let before: Vec<f32> = (0..len).map(|i| (i as f32).sin()).collect();
        let (mut here, mut there) = (before.clone(), before.clone());
        let moments = adam.moments().1.to_vec();
        let mut all = Adam::from_moments(
            AdamConfig::default(),
            adam.moments().0.to_vec(),
            moments.clone(),
            adam.steps(),
        )
        .unwrap();
        all.step(&mut there, gradient, 0.01).unwrap();
        adam.step_on(&mut here, gradient, support, 0.01).unwrap();
        for i in 0..len {
            if is_in[i] {
                assert!((here[i] - there[i]).abs() < 1e-6, "{i}: {} {}", here[i], there[i]);
            } else {
                assert_eq!((here[i], adam.moments().1[i]), (before[i], moments[i]));
            }
        }
        // SOAP without matrices is Adam.
        let mut turned = before.clone();
        Soap::new(&[]).step(&mut turned_adam, &mut turned, gradient, support, 0.01).unwrap();
        let apart = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
        assert!(turned.iter().zip(&here).all(apart));
    }
}

/// The numbers of tables are averaged every sixteenth step, by as much as in sixteen.
#[test]
fn averages_of_tables_take_sixteen_steps_at_once() {
    let (start, target) = ([1.0f64, 1.0], [0.0, 0.0]);
    let [mut whole, mut seldom] = [0; 2].map(|_| Ema::new(0.9, &start).unwrap());
    for step in 48..96 {
        whole.update(&target, step).unwrap();
        seldom.update_often(&target, step, 1).unwrap();
        assert_eq!(seldom.weights()[0].to_bits(), whole.weights()[0].to_bits());
        if (step + 1) % 16 == 0 {
            assert!((seldom.weights()[1] - whole.weights()[1]).abs() < 1e-14);
        }
    }
}

#[test]
fn averages_decay_geometrically() {
    let mut ema = Ema::new(0.9, &vec![1.0f64; 50_000]).unwrap();
    let zero = vec![0.0; 50_000];
    (0..10).for_each(|_| ema.update(&zero, 1_000_000).unwrap());
    assert!(ema.weights().iter().all(|w| (w - 0.9f64.powi(10)).abs() < 1e-14));
    // At first the decay is (1 + t)/(10 + t): a tenth of the start is left after one step.
    let mut early = Ema::new(0.9, &[1.0f64]).unwrap();
    early.update(&[0.0], 0).unwrap();
    assert!((early.weights()[0] - 0.1).abs() < 1e-15);
    assert!(matches!(ema.update(&[0.0; 3], 0), Err(OptimError::Len { found: 3, .. })));
    assert!(matches!(Ema::new(1.0, &[0.0f32]), Err(OptimError::Setting { .. })));
}

#[test]
fn schedules_pass_through_their_points() {
    let cosine = Schedule { base: 2.0, warmup: 10, decay: Decay::Cosine, total: 110, floor: 0.1 };
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(close(cosine.rate(0), 0.2) && close(cosine.rate(9), 2.0));
    assert!(close(cosine.rate(10), 2.0) && close(cosine.rate(60), 2.0 * (0.1 + 0.9 * 0.5)));
    assert!(close(cosine.rate(110), 0.2) && close(cosine.rate(500), 0.2));
    let constant = Schedule { base: 3.0, warmup: 2, ..Schedule::default() };
    assert!(close(constant.rate(0), 1.5) && close(constant.rate(1000), 3.0));
}

#[test]
fn settings_out_of_range_are_refused() {
    for config in [
        AdamConfig { beta1: 1.0, ..AdamConfig::default() },
        AdamConfig { beta2: -0.1, ..AdamConfig::default() },
        AdamConfig { epsilon: 0.0, ..AdamConfig::default() },
        AdamConfig { weight_decay: f64::NAN, ..AdamConfig::default() },
    ] {
        assert!(matches!(Adam::<f32>::new(config, 3), Err(OptimError::Setting { .. })));
    }
    let mut adam = Adam::<f32>::new(AdamConfig::default(), 3).unwrap();
    assert!(matches!(adam.step(&mut [0.0; 3], &[0.0; 2], 0.1), Err(OptimError::Len { .. })));
}
