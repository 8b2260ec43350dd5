//! Tangents, parameter gradients and input gradients against central differences in f64, for
//! every option of the architecture.
#![expect(clippy::needless_pass_by_value, reason = "the signature of a loss")]

use manifusion::nn::{
    Activation, Directions, FieldInput, FieldOutput, FourierConfig, GridConfig, InputGradient, Mlp,
    NetConfig, OutputScale, ShardCotangents, ShardValues, TimeConditioning, VariationalField,
};
use manifusion::rng::Streams;
use manifusion::rows::Rows;

const DIM: usize = 3;

struct Batch {
    x: Vec<f64>,
    s: Vec<f64>,
    e: Vec<f64>,
    e_s: Vec<f64>,
    per_row: usize,
}

impl Batch {
    fn new(rows: usize, per_row: usize, seed: u64) -> Self {
        let streams = Streams::new(seed, "test/batch");
        let draw = |row, n| {
            let mut z = vec![0.0; n];
            streams.fill_normal(row, 0, 0, &mut z);
            z
        };
        let s = draw(1, rows).iter().map(|z| 0.3 + 0.2 * z.tanh()).collect();
        let e_s = draw(3, rows * per_row).iter().map(|z| 0.5 * z).collect();
        Self { x: draw(0, rows * DIM), s, e: draw(2, rows * per_row * DIM), e_s, per_row }
    }

    fn input(&self) -> FieldInput<'_> {
        FieldInput {
            x: Rows::new(&self.x, DIM).unwrap(),
            s: &self.s,
            directions: Directions { per_row: self.per_row, e: &self.e, e_s: &self.e_s },
        }
    }

    fn rows(&self) -> usize {
        self.s.len()
    }
}

/// Every option of the architecture, alone and together.
fn configs() -> Vec<(&'static str, NetConfig)> {
    let base = NetConfig {
        ambient_dim: DIM,
        depth: 3,
        width: 19,
        activation: Activation::Sine,
        residual: false,
        actnorm: false,
        time: TimeConditioning::Concat,
        fourier: None,
        grid: None,
        output_scale: OutputScale::One,
        zero_output: false,
    };
    let log_time = TimeConditioning::LogSines { pairs: 3, s_min: 1e-3, t_end: 2.0 };
    let fourier = Some(FourierConfig { features: 17, f_max: 4.0 });
    let lines = GridConfig { levels: 3, coarsest: 1.0, finest: 4.0, log2_entries: 6, lines: true };
    let grid = Some(lines);
    let scattered = Some(GridConfig { lines: false, ..lines });
    let everything = NetConfig {
        activation: Activation::Swish,
        residual: true,
        actnorm: true,
        time: log_time,
        fourier,
        grid,
        output_scale: OutputScale::InverseNoise,
        ..base.clone()
    };
    vec![
        ("sine", base.clone()),
        ("swish", NetConfig { activation: Activation::Swish, ..base.clone() }),
        ("tanh", NetConfig { activation: Activation::Tanh, ..base.clone() }),
        ("softplus", NetConfig { activation: Activation::Softplus, ..base.clone() }),
        ("one layer", NetConfig { depth: 1, width: 32, ..base.clone() }),
        ("residual", NetConfig { residual: true, depth: 4, ..base.clone() }),
        ("actnorm", NetConfig { actnorm: true, ..base.clone() }),
        ("log time", NetConfig { time: log_time, ..base.clone() }),
        ("fourier", NetConfig { fourier, ..base.clone() }),
        ("grid", NetConfig { grid, ..base.clone() }),
        ("scattered grid", NetConfig { grid: scattered, ..base.clone() }),
        ("scale", NetConfig { output_scale: OutputScale::InverseNoise, ..base.clone() }),
        // 256 inputs: wider than the hidden layers, and multiplied by Strassen–Winograd like them.
        (
            "wide input",
            NetConfig {
                depth: 2,
                width: 192,
                fourier: Some(FourierConfig { features: 126, f_max: 4.0 }),
                ..base
            },
        ),
        // Wide enough for Strassen–Winograd.
        ("wide", NetConfig { width: 192, ..everything.clone() }),
        ("everything", everything),
    ]
}

fn network(config: NetConfig, batch: &Batch) -> Mlp<f64> {
    let mut net = Mlp::new(config, 11).unwrap();
    // Grids start near zero, where their derivatives would not be seen.
    if let Ok(table) = net.layout().view("grid.table").map(manifusion::nn::ParamView::range) {
        net.update_params(|params| params[table].iter_mut().for_each(|p| *p *= 1000.0));
    }
    net.init_actnorm(batch.input()).unwrap();
    net
}

/// A loss that is nonlinear in values and tangents, with weights that differ from row to row.
fn loss(v: ShardValues<'_>, c: ShardCotangents<'_>) {
    let (m, k) = (v.dim, v.per_row);
    for i in 0..v.rows {
        let weight = 1.0 + 0.3 * (v.first_row + i) as f64;
        for d in 0..m {
            let a = v.a[i * m + d];
            c.loss[i] += weight * 0.5 * a * a;
            c.a[i * m + d] = weight * a;
            for j in 0..k {
                let at = (i * k + j) * m + d;
                let slope = 0.2 * (j + 1) as f64 - 0.1 * d as f64;
                c.loss[i] += slope * v.jvp[at] + 0.05 * v.jvp[at] * v.jvp[at] * a;
                c.jvp[at] = slope + 0.1 * v.jvp[at] * a;
                c.a[i * m + d] += 0.05 * v.jvp[at] * v.jvp[at];
            }
        }
    }
}

fn total(net: &Mlp<f64>, batch: &Batch) -> f64 {
    let (mut workspace, mut losses) = (net.train_workspace(2), vec![0.0; batch.rows()]);
    net.loss_gradient(batch.input(), &loss, &mut workspace, &mut losses, None).unwrap()
}

fn eval(net: &Mlp<f64>, batch: &Batch) -> (Vec<f64>, Vec<f64>) {
    let (mut a, mut jvp) = (vec![0.0; batch.x.len()], vec![0.0; batch.e.len()]);
    net.eval(batch.input(), FieldOutput { a: &mut a, jvp: &mut jvp }).unwrap();
    (a, jvp)
}

/// Error of a central difference with step h: h²·|third derivative| plus rounding; both are below
/// this for the networks here.
fn assert_close(name: &str, what: &str, found: f64, expected: f64) {
    let tolerance = 2e-7 * (1.0 + expected.abs());
    assert!((found - expected).abs() < tolerance, "{name}, {what}: {found} and {expected}");
}

#[test]
fn tangents_are_derivatives_along_the_directions() {
    let h = 1e-5;
    for (name, config) in configs() {
        let batch = Batch::new(5, 2, 1);
        let net = network(config, &batch);
        let (_, jvp) = eval(&net, &batch);
        for j in 0..batch.per_row {
            let moved = |sign: f64| {
                let mut moved = Batch::new(5, 2, 1);
                for i in 0..moved.rows() {
                    for d in 0..DIM {
                        moved.x[i * DIM + d] += sign * h * batch.e[(i * 2 + j) * DIM + d];
                    }
                    moved.s[i] += sign * h * batch.e_s[i * 2 + j];
                }
                eval(&net, &moved).0
            };
            let (plus, minus) = (moved(1.0), moved(-1.0));
            for i in 0..batch.rows() {
                for d in 0..DIM {
                    let expected = (plus[i * DIM + d] - minus[i * DIM + d]) / (2.0 * h);
                    assert_close(name, "tangent", jvp[(i * 2 + j) * DIM + d], expected);
                }
            }
        }
    }
}

#[test]
fn parameter_gradients_are_derivatives() {
    let h = 1e-5;
    for (name, config) in configs() {
        // With many rows, those of one half of a lane are paired with those of the other.
        for (rows, per_row) in [(7, 0), (7, 2), (90, 2), (90, 3), (21, 5), (261, 0)] {
            let batch = Batch::new(rows, per_row, 2);
            let mut net = network(config.clone(), &batch);
            let mut workspace = net.train_workspace(2);
            let mut losses = vec![0.0; batch.rows()];
            let input = batch.input();
            net.loss_gradient(input, &loss, &mut workspace, &mut losses, None).unwrap();
            let grad = workspace.gradient().to_vec();
            // Some of each named part, ends included.
            let views = net.layout().views().to_vec();
            for view in views {
                let step = (view.len() / 9).max(1);
                let last = std::iter::once(view.range().end - 1);
                for p in view.range().step_by(step).chain(last) {
                    let mut at = |delta: f64| {
                        net.update_params(|params| params[p] += delta);
                        let value = total(&net, &batch);
                        net.update_params(|params| params[p] -= delta);
                        value
                    };
                    let expected = (at(h) - at(-h)) / (2.0 * h);
                    assert_close(name, &view.name, grad[p], expected);
                }
            }
        }
    }
}

#[test]
fn input_gradients_are_derivatives() {
    let h = 1e-5;
    for (name, config) in configs() {
        for (rows, every) in [(5, 1), (90, 37)] {
            let mut batch = Batch::new(rows, 2, 3);
            let net = network(config.clone(), &batch);
            let [mut x, mut s, mut e] = [3, 1, 6].map(|width| vec![1.0; width * rows]);
            let mut workspace = net.train_workspace(2);
            let grad = InputGradient { x: &mut x, s: &mut s, e: &mut e };
            let (input, mut losses) = (batch.input(), vec![0.0; rows]);
            net.loss_gradient(input, &loss, &mut workspace, &mut losses, Some(grad)).unwrap();
            let mut check = |what: &str, part: fn(&mut Batch) -> &mut Vec<f64>, found: &[f64]| {
                for (i, found) in found.iter().enumerate().step_by(every) {
                    let mut at = |delta: f64| {
                        part(&mut batch)[i] += delta;
                        let value = total(&net, &batch);
                        part(&mut batch)[i] -= delta;
                        value
                    };
                    let expected = (at(h) - at(-h)) / (2.0 * h);
                    assert_close(name, what, *found, expected);
                }
            };
            check("x", |b| &mut b.x, &x);
            check("s", |b| &mut b.s, &s);
            check("e", |b| &mut b.e, &e);
        }
    }
}

#[test]
fn evaluation_and_training_see_the_same_field() {
    for (name, config) in configs() {
        let batch = Batch::new(9, 2, 4);
        let net = network(config, &batch);
        let (a, jvp) = eval(&net, &batch);
        let seen = std::sync::Mutex::new((vec![0.0; a.len()], vec![0.0; jvp.len()]));
        let record = |v: ShardValues<'_>, _: ShardCotangents<'_>| {
            let mut seen = seen.lock().unwrap();
            seen.0[v.first_row * DIM..][..v.a.len()].copy_from_slice(v.a);
            seen.1[v.first_row * DIM * 2..][..v.jvp.len()].copy_from_slice(v.jvp);
        };
        let (mut workspace, mut losses) = (net.train_workspace(2), vec![0.0; 9]);
        net.loss_gradient(batch.input(), &record, &mut workspace, &mut losses, None).unwrap();
        assert_eq!(seen.into_inner().unwrap(), (a, jvp), "{name}");
    }
}

/// With enough rows training multiplies them in pairs: the same field up to rounding.
#[test]
fn paired_rows_see_the_same_field_up_to_rounding() {
    for (name, config) in configs() {
        let batch = Batch::new(128, 2, 7);
        let net = network(config, &batch);
        let (a, jvp) = eval(&net, &batch);
        let record = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
            let spread = |found: &[f64], all: &[f64], width: usize| {
                let own = &all[v.first_row * width..][..found.len()];
                found.iter().zip(own).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max)
            };
            let error = spread(v.a, &a, DIM).max(spread(v.jvp, &jvp, 2 * DIM));
            assert!(error < 1e-11, "{name}: {error:e}");
            c.loss.fill(1.0);
        };
        let (mut workspace, mut losses) = (net.train_workspace(1), vec![0.0; 128]);
        net.loss_gradient(batch.input(), &record, &mut workspace, &mut losses, None).unwrap();
        assert_eq!(losses, [1.0; 128], "{name}");
    }
}

#[test]
fn actnorm_gives_zero_mean_and_unit_deviation() {
    let config = NetConfig { actnorm: true, ..configs()[0].1.clone() };
    let batch = Batch::new(400, 0, 5);
    let net = network(config, &batch);
    let shift = net.param("actnorm.shift").unwrap();
    let log_scale = net.param("actnorm.log_scale").unwrap();
    for c in 0..DIM {
        let y: Vec<f64> = (0..batch.rows())
            .map(|i| (batch.x[i * DIM + c] + shift[c]) * log_scale[c].exp())
            .collect();
        let mean = y.iter().sum::<f64>() / 400.0;
        let variance = y.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / 400.0;
        assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-12, "{mean} {variance}");
    }
}

/// Rows of a training shard are multiplied in pairs. The worst pairs have tangents of very
/// different size: large and tiny times with high Fourier frequencies, which fade at large times.
#[test]
fn pairs_of_very_different_rows_keep_the_gradient_in_single_precision() {
    let fourier = Some(FourierConfig { features: 64, f_max: 200.0 });
    let config = NetConfig { fourier, ..NetConfig::paper_torus(DIM) };
    let mut batch = Batch::new(128, 2, 6);
    for (i, s) in batch.s.iter_mut().enumerate() {
        *s = if i < 64 { 2.0 } else { 1e-6 };
    }
    let double = network(config.clone(), &batch);
    let mut single = Mlp::<f32>::new(config, 11).unwrap();
    single.set_params(&double.params().iter().map(|p| *p as f32).collect::<Vec<_>>()).unwrap();
    let mut exact = double.train_workspace(1);
    let mut rounded = single.train_workspace(1);
    let mut losses = vec![0.0; batch.rows()];
    double.loss_gradient(batch.input(), &loss, &mut exact, &mut losses, None).unwrap();
    single.loss_gradient(batch.input(), &loss, &mut rounded, &mut losses, None).unwrap();
    let pairs = || exact.gradient().iter().zip(rounded.gradient());
    let norm = pairs().map(|(g, _)| g * g).sum::<f64>().sqrt();
    let error = pairs().map(|(g, f)| (g - f64::from(*f)).powi(2)).sum::<f64>().sqrt();
    assert!(error < 1e-5 * norm, "{error} of {norm}");
}
