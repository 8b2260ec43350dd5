//! The paper's networks against PyTorch in double precision (reference/engine_networks.py).

use manifusion::nn::{
    Activation, Directions, FieldInput, FieldOutput, FourierConfig, Mlp, NetConfig, OutputScale,
    Real, ShardCotangents, ShardValues, TimeConditioning, VariationalField,
};
use manifusion::rows::Rows;
use serde_json::Value;

/// Number i of stream c in [−1, 1), as in the script.
fn uniform(stream: u64, count: usize) -> Vec<f64> {
    (0..count as u64)
        .map(|i| {
            let mut z = (i + (stream << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn config(net: &Value) -> NetConfig {
    let size = |key: &str| net[key].as_u64().unwrap() as usize;
    let time = match net["time_pairs"].as_u64() {
        None => TimeConditioning::Concat,
        Some(pairs) => TimeConditioning::LogSines {
            pairs: pairs as usize,
            s_min: net["s_min"].as_f64().unwrap(),
            t_end: net["t_end"].as_f64().unwrap(),
        },
    };
    let inverse = net["inverse_noise"].as_bool().unwrap();
    NetConfig {
        grid: None,
        ambient_dim: size("dim"),
        depth: size("depth"),
        width: size("width"),
        activation: serde_json::from_value::<Activation>(net["activation"].clone()).unwrap(),
        residual: net["residual"].as_bool().unwrap(),
        actnorm: net["actnorm"].as_bool().unwrap(),
        time,
        fourier: (size("fourier") > 0)
            .then(|| FourierConfig { features: size("fourier"), f_max: 2.0 }),
        output_scale: if inverse { OutputScale::InverseNoise } else { OutputScale::One },
        zero_output: false,
    }
}

fn params<T: Real>(net: &Mlp<T>) -> Vec<T> {
    let views = net.layout().views().iter().enumerate();
    views
        .flat_map(|(stream, view)| {
            let scale = match view.shape[0] {
                1 if view.name.starts_with("actnorm") => 0.3,
                1 => 0.1,
                rows => (rows as f64).sqrt().recip(),
            };
            uniform(10 + stream as u64, view.len()).into_iter().map(move |u| T::from_f64(scale * u))
        })
        .collect()
}

/// Largest relative differences of values and tangents, loss, and gradient.
fn differences<T: Real>(row: &Value) -> [f64; 3] {
    let config = config(&row["net"]);
    let size = |key: &str| row["net"][key].as_u64().unwrap() as usize;
    let (m, k, rows) = (config.ambient_dim, size("per_row"), size("rows"));
    let (x, e) = (uniform(1, rows * m), uniform(3, rows * k * m));
    let s: Vec<f64> = uniform(2, rows).iter().map(|u| 0.6 + 0.5 * u).collect();
    let directions = Directions { per_row: k, e: &e, e_s: &[] };
    let input = FieldInput { x: Rows::new(&x, m).unwrap(), s: &s, directions };
    let mut net = Mlp::<T>::new(config, 1).unwrap();
    let directions: Vec<f64> =
        uniform(4, size("fourier") * m).into_iter().map(|u| 2.0 * u).collect();
    net.set_fourier_directions(&directions).unwrap();
    net.init_actnorm(input).unwrap();
    net.set_params(&params(&net)).unwrap();

    let (mut a, mut jvp) = (vec![0.0; rows * m], vec![0.0; rows * k * m]);
    net.eval(input, FieldOutput { a: &mut a, jvp: &mut jvp }).unwrap();
    // The file has the first rows only.
    let spread = |found: &[f64], expected: &[f64]| {
        let size = expected.iter().fold(0.0f64, |size, v| size.max(v.abs()));
        found.iter().zip(expected).map(|(f, e)| (f - e).abs() / size).fold(0.0, f64::max)
    };
    let field = spread(&a, &numbers(&row["a"])).max(spread(&jvp, &numbers(&row["jvp"])));

    let loss = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
        for i in 0..v.a.len() {
            c.loss[i / m] += 0.5 * v.a[i] * v.a[i];
            c.a[i] = v.a[i];
        }
        for i in 0..v.jvp.len() {
            let e = e[v.first_row * k * m + i];
            c.loss[i / (k * m)] += v.jvp[i] * e;
            c.jvp[i] = e;
        }
    };
    let (mut workspace, mut losses) = (net.train_workspace(2), vec![0.0; rows]);
    let total = net.loss_gradient(input, &loss, &mut workspace, &mut losses, None).unwrap();
    let expected = row["loss"].as_f64().unwrap();
    let loss_error = (total - expected).abs() / expected.abs();
    [field, loss_error, gradient_difference(&net, workspace.gradient(), row)]
}

/// Of each part: its norm, its product with a hash vector, which sees every entry, and some
/// entries; all relative to the norm.
fn gradient_difference<T: Real>(net: &Mlp<T>, gradient: &[T], row: &Value) -> f64 {
    let parts = row["gradient"].as_array().unwrap();
    assert_eq!(parts.len(), net.layout().views().len());
    let mut worst = 0.0f64;
    for (stream, part) in parts.iter().enumerate() {
        let view = net.layout().view(part["name"].as_str().unwrap()).unwrap();
        let g: Vec<f64> = gradient[view.range()].iter().map(|g| g.to_f64()).collect();
        let norm = part["norm"].as_f64().unwrap();
        let found = g.iter().map(|g| g * g).sum::<f64>().sqrt();
        let probe = uniform(100 + stream as u64, g.len());
        let product: f64 = g.iter().zip(&probe).map(|(g, p)| g * p).sum();
        worst = worst.max((found - norm).abs() / norm);
        worst = worst.max((product - part["probe"].as_f64().unwrap()).abs() / norm);
        for pick in part["picks"].as_array().unwrap() {
            let place = pick[0].as_u64().unwrap() as usize;
            worst = worst.max((g[place] - pick[1].as_f64().unwrap()).abs() / norm);
        }
    }
    worst
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/engine_networks.json")).unwrap()
}

#[test]
fn double_precision_agrees_with_pytorch() {
    for row in golden()["rows"].as_array().unwrap() {
        let found = differences::<f64>(row);
        assert!(found.iter().all(|d| *d < 1e-10), "{}: {found:?}", row["net"]["name"]);
    }
}

#[test]
fn single_precision_agrees_with_pytorch_in_double() {
    for row in golden()["rows"].as_array().unwrap() {
        let found = differences::<f32>(row);
        assert!(found.iter().all(|d| *d < 1e-4), "{}: {found:?}", row["net"]["name"]);
        // Rounding must be visible: otherwise the f32 network is not an f32 network.
        assert!(found.iter().any(|d| *d > 1e-10), "{}: {found:?}", row["net"]["name"]);
    }
}
