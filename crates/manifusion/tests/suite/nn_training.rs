//! Training as a whole: the same bits on any number of threads, convergence, precision, refusals.

use manifusion::nn::{
    Activation, Directions, FieldInput, FieldOutput, FourierConfig, GridConfig, InputGradient, Mlp,
    NetConfig, NnError, OutputScale, Real, ShardCotangents, ShardValues, TimeConditioning,
    VariationalField,
};
use manifusion::optim::{Adam, AdamConfig, Decay, Schedule};
use manifusion::rng::Streams;
use manifusion::rows::Rows;

struct Batch {
    x: Vec<f64>,
    s: Vec<f64>,
    e: Vec<f64>,
    per_row: usize,
}

impl Batch {
    fn new(rows: usize, dim: usize, per_row: usize, seed: u64) -> Self {
        let streams = Streams::new(seed, "test/batch");
        let draw = |row, n| {
            let mut z = vec![0.0; n];
            streams.fill_normal(row, 0, 0, &mut z);
            z
        };
        let s = draw(1, rows).iter().map(|z| 0.5 + 0.4 * z.tanh()).collect();
        Self { x: draw(0, rows * dim), s, e: draw(2, rows * per_row * dim), per_row }
    }

    fn input(&self) -> FieldInput<'_> {
        let dim = self.x.len() / self.s.len();
        let directions = Directions { per_row: self.per_row, e: &self.e, e_s: &[] };
        FieldInput { x: Rows::new(&self.x, dim).unwrap(), s: &self.s, directions }
    }
}

/// ½|a|² + Σ e·(∂a/∂x)e per row.
fn implicit(e: &[f64]) -> impl Fn(ShardValues<'_>, ShardCotangents<'_>) + Sync + '_ {
    move |v, c| {
        let (m, km) = (v.dim, v.dim * v.per_row);
        for i in 0..v.a.len() {
            c.loss[i / m] += 0.5 * v.a[i] * v.a[i];
            c.a[i] = v.a[i];
        }
        for i in 0..v.jvp.len() {
            let e = e[v.first_row * km + i];
            c.loss[i / km] += v.jvp[i] * e;
            c.jvp[i] = e;
        }
    }
}

fn everything() -> NetConfig {
    NetConfig {
        depth: 3,
        width: 50,
        activation: Activation::Swish,
        residual: true,
        actnorm: true,
        time: TimeConditioning::LogSines { pairs: 3, s_min: 1e-3, t_end: 6.0 },
        fourier: Some(FourierConfig { features: 30, f_max: 20.0 }),
        output_scale: OutputScale::InverseNoise,
        ..NetConfig::default()
    }
}

/// Parameters and values after some steps on a pool of this many threads.
fn train_on(threads: usize, config: &NetConfig) -> (Vec<f32>, Vec<f64>, Vec<f64>) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let batch = Batch::new(301, 3, 2, 1);
        let mut net = Mlp::<f32>::new(config.clone(), 5).unwrap();
        net.init_actnorm(batch.input()).unwrap();
        let mut adam = Adam::new(AdamConfig::default(), net.params().len()).unwrap();
        let mut workspace = net.train_workspace(4);
        let mut losses = vec![0.0; 301];
        let loss = implicit(&batch.e);
        for _ in 0..10 {
            net.loss_gradient(batch.input(), &loss, &mut workspace, &mut losses, None).unwrap();
            net.update_params(|p| adam.step(p, workspace.gradient(), 1e-3)).unwrap();
        }
        let (mut a, mut jvp) = (vec![0.0; batch.x.len()], vec![0.0; batch.e.len()]);
        net.eval(batch.input(), FieldOutput { a: &mut a, jvp: &mut jvp }).unwrap();
        (net.params().to_vec(), a, jvp)
    })
}

#[test]
fn threads_do_not_change_a_bit() {
    for config in [everything(), wide()] {
        let one = train_on(1, &config);
        for threads in [2, 3] {
            assert!(one == train_on(threads, &config), "{threads} threads, width {}", config.width);
        }
    }
}

/// Losses, the gradient by parameters and the gradient by x, s and e, in one row.
fn gradients(threads: usize, partitions: usize, net: &Mlp<f32>, batch: &Batch) -> Vec<f64> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut workspace = net.train_workspace(partitions);
        let [mut losses, mut x, mut s, mut e] =
            [batch.s.len(), batch.x.len(), batch.s.len(), batch.e.len()].map(|n| vec![0.0; n]);
        let loss = implicit(&batch.e);
        // Twice: what an earlier call left behind does not show.
        for _ in 0..2 {
            let by_input = InputGradient { x: &mut x, s: &mut s, e: &mut e };
            net.loss_gradient(batch.input(), &loss, &mut workspace, &mut losses, Some(by_input))
                .unwrap();
        }
        let parameters = workspace.gradient().iter().map(|g| f64::from(*g));
        losses.into_iter().chain(parameters).chain(x).chain(s).chain(e).collect()
    })
}

/// Shards are cut into different tasks for different numbers of threads and partitions: with and
/// without pairs of rows, with odd numbers of points, and with fewer points than threads.
#[test]
fn neither_threads_nor_partitions_change_a_bit_of_a_gradient() {
    let grid =
        Some(GridConfig { levels: 3, coarsest: 1.0, finest: 4.0, log2_entries: 6, lines: true });
    for (rows, per_row) in [(512, 0), (301, 0), (300, 2), (301, 3), (5, 1)] {
        let batch = Batch::new(rows, 3, per_row, 1);
        for config in [NetConfig { grid, ..everything() }, wide()] {
            let mut net = Mlp::<f32>::new(config, 5).unwrap();
            net.init_actnorm(batch.input()).unwrap();
            let one = gradients(1, 1, &net, &batch);
            for (threads, partitions) in [(2, 8), (3, 8), (8, 8), (8, 3), (16, 16)] {
                let other = gradients(threads, partitions, &net, &batch);
                let first = one.iter().zip(&other).position(|(a, b)| a.to_bits() != b.to_bits());
                let case = format!("{rows} rows, {per_row} tangents, {threads} threads");
                assert_eq!(first, None, "{case}, {partitions} partitions");
            }
        }
    }
}

/// The row that an error names does not depend on the threads either.
#[test]
fn the_first_row_without_a_finite_loss_is_named_on_any_number_of_threads() {
    let batch = Batch::new(512, 3, 0, 1);
    let net = Mlp::<f32>::new(wide(), 5).unwrap();
    // Rows of both halves of a shard, and of two shards.
    let loss = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
        for i in 0..v.rows {
            let bad = [470, 240, 130, 77].contains(&(v.first_row + i));
            c.loss[i] = if bad { f64::NAN } else { 1.0 };
        }
    };
    for threads in [1, 2, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (mut workspace, mut losses) = (net.train_workspace(8), vec![0.0; 512]);
            let mut net = net.clone();
            net.init_actnorm(batch.input()).unwrap();
            let result = net.loss_gradient(batch.input(), &loss, &mut workspace, &mut losses, None);
            assert!(matches!(result, Err(NnError::NotFinite { row: 77, .. })), "{result:?}");
        });
    }
}

/// Layers wide enough for Strassen–Winograd.
fn wide() -> NetConfig {
    NetConfig { width: 192, ..everything() }
}

#[test]
fn a_row_does_not_depend_on_the_others() {
    let sine = NetConfig { depth: 2, width: 64, ..NetConfig::paper_sphere(3) };
    for (config, per_row) in [(everything(), 2), (wide(), 2), (wide(), 5), (sine, 2)] {
        let mut batch = Batch::new(150, 3, per_row, 2);
        // Some need other ways to compute sines.
        (batch.x[3 * 76], batch.x[3 * 78], batch.x[3 * 148]) = (300.0, 1e9, f64::NAN);
        let mut net = Mlp::<f32>::new(config, 5).unwrap();
        net.init_actnorm(Batch::new(150, 3, per_row, 2).input()).unwrap();
        let (mut a, mut jvp) = (vec![0.0; 450], vec![0.0; 450 * per_row]);
        net.eval(batch.input(), FieldOutput { a: &mut a, jvp: &mut jvp }).unwrap();
        for i in [0, 1, 77, 149] {
            let (own, tangents) = (3 * i..3 * i + 3, 3 * per_row * i..3 * per_row * (i + 1));
            let (mut one, mut one_jvp) = ([0.0; 3], vec![0.0; 3 * per_row]);
            let input = FieldInput {
                x: Rows::new(&batch.x[own.clone()], 3).unwrap(),
                s: &batch.s[i..=i],
                directions: Directions { per_row, e: &batch.e[tangents.clone()], e_s: &[] },
            };
            net.eval(input, FieldOutput { a: &mut one, jvp: &mut one_jvp }).unwrap();
            assert_eq!((&one[..], &one_jvp[..]), (&a[own], &jvp[tangents]));
        }
    }
}

/// Rows are multiplied in pairs; the error must still name the one that is not finite.
#[test]
fn a_row_that_is_not_finite_is_named() {
    let of = |activation| NetConfig { activation, ..everything() };
    let others = [Activation::Sine, Activation::Tanh, Activation::Softplus].map(of);
    for config in [everything(), wide()].into_iter().chain(others) {
        let mut batch = Batch::new(300, 3, 2, 6);
        let mut net = Mlp::<f32>::new(config, 5).unwrap();
        net.init_actnorm(batch.input()).unwrap();
        batch.x[3 * 120] = f64::NAN;
        let (mut workspace, mut losses) = (net.train_workspace(2), vec![0.0; 300]);
        let loss = implicit(&batch.e);
        let found = net.loss_gradient(batch.input(), &loss, &mut workspace, &mut losses, None);
        assert!(matches!(found, Err(NnError::NotFinite { row: 120, .. })), "{found:?}");
    }
}

/// Loss and gradient of the same parameters in f32 and in f64.
fn gradient<T: Real>(config: &NetConfig, batch: &Batch) -> (f64, Vec<f64>) {
    let single = Mlp::<f32>::new(config.clone(), 9).unwrap();
    let params: Vec<T> = single.params().iter().map(|p| T::from_f64(f64::from(*p))).collect();
    let mut net = Mlp::<T>::new(config.clone(), 9).unwrap();
    net.set_params(&params).unwrap();
    net.init_actnorm(batch.input()).unwrap();
    let (mut workspace, mut losses) = (net.train_workspace(2), vec![0.0; batch.s.len()]);
    let loss = implicit(&batch.e);
    let total = net.loss_gradient(batch.input(), &loss, &mut workspace, &mut losses, None).unwrap();
    (total, workspace.gradient().iter().map(|g| g.to_f64()).collect())
}

#[test]
fn single_precision_agrees_with_double() {
    let paper = [
        ("sphere", NetConfig::paper_sphere(3), 3, 2),
        ("torus", NetConfig::paper_torus(14), 14, 7),
        ("hyperbolic", NetConfig::paper_hyperbolic(3), 3, 2),
        ("orthogonal", NetConfig::paper_orthogonal(9), 9, 3),
        ("everything", everything(), 3, 2),
        // Inputs and outputs wider than the hidden layers, all by Strassen–Winograd.
        ("wide points", NetConfig::paper_orthogonal(576), 576, 1),
    ];
    for (name, config, dim, per_row) in paper {
        let batch = Batch::new(200, dim, per_row, 3);
        let (single, double) = (gradient::<f32>(&config, &batch), gradient::<f64>(&config, &batch));
        let size: f64 = double.1.iter().map(|g| g * g).sum::<f64>().sqrt();
        let error: f64 = single.1.iter().zip(&double.1).map(|(a, b)| (a - b) * (a - b)).sum();
        let loss_error = (single.0 - double.0).abs() / double.0.abs().max(1.0);
        assert!(loss_error < 1e-4, "{name}: {} {}", single.0, double.0);
        assert!(error.sqrt() < 1e-4 * size, "{name}: {:e} of {size:e}", error.sqrt());
    }
}

#[test]
fn a_small_network_learns_a_known_field() {
    // a(x, s) = (x₂·s, −x₁, x₁x₃).
    let field = |x: &[f64], s: f64| [x[1] * s, -x[0], x[0] * x[2]];
    let config = NetConfig { depth: 2, width: 64, activation: Activation::Tanh, ..everything() };
    let config = NetConfig {
        actnorm: false,
        fourier: None,
        output_scale: OutputScale::One,
        time: TimeConditioning::Concat,
        residual: false,
        ..config
    };
    let mut net = Mlp::<f32>::new(config, 4).unwrap();
    let mut adam = Adam::new(AdamConfig::default(), net.params().len()).unwrap();
    let mut workspace = net.train_workspace(2);
    let schedule =
        Schedule { base: 5e-3, warmup: 50, decay: Decay::Cosine, total: 1500, floor: 0.0 };
    let (n, mut losses) = (128, vec![0.0; 128]);
    for step in 0..1500 {
        let batch = Batch::new(n, 3, 0, step);
        let mean_square = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
            for i in 0..v.rows {
                let row = v.first_row + i;
                let target = field(&batch.x[3 * row..3 * row + 3], batch.s[row]);
                for d in 0..3 {
                    let error = v.a[3 * i + d] - target[d];
                    c.loss[i] += 0.5 * error * error / n as f64;
                    c.a[3 * i + d] = error / n as f64;
                }
            }
        };
        let input = batch.input();
        net.loss_gradient(input, &mean_square, &mut workspace, &mut losses, None).unwrap();
        let rate = schedule.rate(step);
        net.update_params(|p| adam.step(p, workspace.gradient(), rate)).unwrap();
    }
    let test = Batch::new(1000, 3, 0, 10_000);
    let mut a = vec![0.0; 3000];
    net.eval(test.input(), FieldOutput { a: &mut a, jvp: &mut [] }).unwrap();
    let (mut error, mut size) = (0.0, 0.0);
    for i in 0..1000 {
        let target = field(&test.x[3 * i..3 * i + 3], test.s[i]);
        for d in 0..3 {
            error += (a[3 * i + d] - target[d]).powi(2);
            size += target[d].powi(2);
        }
    }
    assert!(error < 2e-3 * size, "relative error {:.2e} of the square", error / size);
}

#[test]
fn what_does_not_fit_is_refused() {
    let net = Mlp::<f32>::new(everything(), 1).unwrap();
    let batch = Batch::new(4, 3, 2, 1);
    let (mut a, mut jvp) = (vec![0.0; 12], vec![0.0; 24]);
    let result = net.eval(batch.input(), FieldOutput { a: &mut a, jvp: &mut jvp });
    assert_eq!(result, Err(NnError::ActNormNotReady));
    // The same as a field of the solvers.
    let x = Rows::new(&batch.x, 3).unwrap();
    let result = manifusion::field::Field::eval(&net, x, &batch.s, 0, &[], &mut a, &mut []);
    assert_eq!(
        result.unwrap_err().to_string(),
        "the network cannot be evaluated: ActNorm is not initialised; call init_actnorm with one \
         noised batch first"
    );
    let mut net = net;
    net.init_actnorm(batch.input()).unwrap();
    let short = net.eval(batch.input(), FieldOutput { a: &mut a[..9], jvp: &mut jvp });
    assert!(matches!(short, Err(NnError::Shape { what: "a", .. })), "{short:?}");
    let mut early = Batch::new(4, 3, 2, 1);
    early.s[2] = 0.0;
    let early = net.eval(early.input(), FieldOutput { a: &mut a, jvp: &mut jvp });
    assert_eq!(early, Err(NnError::Time { row: 2, s: 0.0 }));
    let mut wrong = Batch::new(4, 3, 2, 1);
    wrong.e.pop();
    let wrong = net.eval(wrong.input(), FieldOutput { a: &mut a, jvp: &mut jvp });
    assert!(matches!(wrong, Err(NnError::Shape { what: "directions e", .. })), "{wrong:?}");
    let mut broken = Batch::new(4, 3, 2, 1);
    broken.x[7] = f64::NAN;
    let (mut workspace, mut losses) = (net.train_workspace(2), vec![0.0; 4]);
    let loss = implicit(&broken.e);
    let result = net.loss_gradient(broken.input(), &loss, &mut workspace, &mut losses, None);
    assert!(matches!(result, Err(NnError::NotFinite { row: 2, .. })), "{result:?}");
    for config in [
        NetConfig { width: 0, ..everything() },
        NetConfig { fourier: Some(FourierConfig { features: 4, f_max: 0.5 }), ..everything() },
        NetConfig {
            time: TimeConditioning::LogSines { pairs: 2, s_min: 0.0, t_end: 1.0 },
            ..everything()
        },
    ] {
        assert!(matches!(Mlp::<f32>::new(config, 1), Err(NnError::Setting { .. })));
    }
}

#[test]
fn initial_parameters_follow_the_seed_and_the_bound() {
    let net = |seed| Mlp::<f32>::new(NetConfig::paper_sphere(3), seed).unwrap();
    assert_eq!(net(1).params(), net(1).params());
    assert_ne!(net(1).params(), net(2).params());
    let one = net(1);
    let weight = one.param("layers.1.weight").unwrap();
    let bound = 1.0 / 512f64.sqrt();
    let variance = weight.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / weight.len() as f64;
    assert!(weight.iter().all(|w| f64::from(w.abs()) <= bound));
    // 262144 draws: the standard error of the variance is 0.2 % of it; four of them.
    assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.008, "{variance}");
    let zero = NetConfig { zero_output: true, ..NetConfig::paper_sphere(3) };
    let zero = Mlp::<f32>::new(zero, 1).unwrap();
    assert!(zero.param("layers.5.weight").unwrap().iter().all(|w| *w == 0.0));
}

/// With eight worker threads the rows of a batch are cut into eight tasks that are worked on at
/// once: each thread waits in the loss until the others have come.
#[test]
fn gradient_partitions_run_side_by_side() {
    use std::collections::HashSet;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    const PARTITIONS: usize = 8;
    let config = NetConfig { ambient_dim: 3, depth: 2, width: 16, ..NetConfig::default() };
    let net = Mlp::<f32>::new(config, 1).unwrap();
    let rows = 512;
    let x: Vec<f64> = (0..3 * rows).map(|i| (0.01 * i as f64).sin()).collect();
    let s = vec![0.5; rows];
    let (arrived, all) = (Mutex::new(HashSet::new()), Condvar::new());
    let loss = |_: ShardValues<'_>, cotangents: ShardCotangents<'_>| {
        let mut threads = arrived.lock().unwrap();
        threads.insert(rayon::current_thread_index());
        all.notify_all();
        let missing = |threads: &mut HashSet<_>| threads.len() < PARTITIONS;
        let (_threads, waited) =
            all.wait_timeout_while(threads, Duration::from_mins(1), missing).unwrap();
        assert!(!waited.timed_out(), "a thread was left waiting for the others");
        cotangents.loss.fill(1.0);
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(PARTITIONS).build().unwrap();
    pool.install(|| {
        let mut workspace = net.train_workspace(PARTITIONS);
        let mut losses = vec![0.0; rows];
        let directions = Directions { per_row: 0, e: &[], e_s: &[] };
        let input = FieldInput { x: Rows::new(&x, 3).unwrap(), s: &s, directions };
        net.loss_gradient(input, &loss, &mut workspace, &mut losses, None).unwrap();
    });
    assert_eq!(arrived.lock().unwrap().len(), PARTITIONS);
}
