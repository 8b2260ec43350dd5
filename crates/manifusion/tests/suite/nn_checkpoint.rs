//! Checkpoints: what goes in comes out, and broken files say what is wrong with them.
#![expect(clippy::needless_pass_by_value, reason = "the signature of a loss")]

use manifusion::checkpoint::{Checkpoint, CheckpointError};
use manifusion::nn::{
    FieldInput, FieldOutput, FourierConfig, GridConfig, Mlp, NetConfig, ShardCotangents,
    ShardValues, TimeConditioning, VariationalField,
};
use manifusion::optim::{Adam, AdamConfig, Ema};
use manifusion::rows::Rows;

const X: [f64; 6] = [0.6, 0.0, 0.8, 0.0, 1.0, 0.0];
const S: [f64; 2] = [0.1, 0.7];

fn config() -> NetConfig {
    NetConfig {
        depth: 2,
        width: 20,
        actnorm: true,
        residual: true,
        time: TimeConditioning::LogSines { pairs: 2, s_min: 1e-3, t_end: 6.0 },
        fourier: Some(FourierConfig { features: 5, f_max: 9.0 }),
        ..NetConfig::default()
    }
}

fn loss(v: ShardValues<'_>, c: ShardCotangents<'_>) {
    for i in 0..v.a.len() {
        c.loss[i / v.dim] += 0.5 * (v.a[i] - 1.0).powi(2);
        c.a[i] = v.a[i] - 1.0;
    }
}

/// Some steps of training.
fn advance(state: &mut Checkpoint<f32>, steps: usize) {
    let mut workspace = state.net.train_workspace(2);
    let mut losses = [0.0; 2];
    let input = FieldInput::value(Rows::new(&X, 3).unwrap(), &S);
    for _ in 0..steps {
        state.net.loss_gradient(input, &loss, &mut workspace, &mut losses, None).unwrap();
        let adam = state.adam.as_mut().unwrap();
        state.net.update_params(|p| adam.step(p, workspace.gradient(), 1e-2)).unwrap();
        state.ema.as_mut().unwrap().update(state.net.params(), 10_000).unwrap();
    }
}

fn trained() -> Checkpoint<f32> {
    let mut net = Mlp::new(config(), 3).unwrap();
    net.init_actnorm(FieldInput::value(Rows::new(&X, 3).unwrap(), &S)).unwrap();
    let adam = Adam::new(AdamConfig::default(), net.params().len()).unwrap();
    let ema = Ema::new(0.9, net.params()).unwrap();
    let mut state = Checkpoint::new(net);
    (state.adam, state.ema) = (Some(adam), Some(ema));
    state.extra.insert("step".into(), 17.into());
    state.extra_tensors.insert("flow".into(), vec![0.1, -2.5]);
    advance(&mut state, 5);
    state
}

fn eval(net: &Mlp<f32>) -> [f64; 6] {
    let mut a = [0.0; 6];
    let input = FieldInput::value(Rows::new(&X, 3).unwrap(), &S);
    net.eval(input, FieldOutput { a: &mut a, jvp: &mut [] }).unwrap();
    a
}

#[test]
fn saved_and_loaded_is_the_same_and_resumes_to_the_same_bits() {
    let mut state = trained();
    let mut loaded = Checkpoint::<f32>::from_bytes(&state.to_bytes().unwrap()).unwrap();
    let same = |a: &Checkpoint<f32>, b: &Checkpoint<f32>| {
        assert_eq!(a.net.config(), b.net.config());
        assert_eq!(a.net.params(), b.net.params());
        assert_eq!(a.net.actnorm_ready(), b.net.actnorm_ready());
        assert_eq!((&a.adam, &a.ema), (&b.adam, &b.ema));
        assert_eq!((&a.extra, &a.extra_tensors), (&b.extra, &b.extra_tensors));
        assert_eq!(eval(&a.net).map(f64::to_bits), eval(&b.net).map(f64::to_bits));
    };
    same(&state, &loaded);
    advance(&mut state, 5);
    advance(&mut loaded, 5);
    same(&state, &loaded);
}

#[test]
fn files_are_written_and_read() {
    let path = std::env::temp_dir().join(format!("manifusion-{}.safetensors", std::process::id()));
    let state = trained();
    state.write(&path).unwrap();
    let loaded = Checkpoint::<f32>::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(state.net.params(), loaded.net.params());
    let missing = Checkpoint::<f32>::read(&path).unwrap_err();
    assert!(missing.to_string().contains("manifusion-"), "{missing}");
}

#[test]
fn truncated_files_are_refused_at_every_length() {
    let bytes = trained().to_bytes().unwrap();
    for len in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        match Checkpoint::<f32>::from_bytes(&bytes[..len]) {
            Err(CheckpointError::Truncated { found, expected }) => {
                assert!(found == len && expected > len);
            }
            other => panic!("{len} bytes of {}: {other:?}", bytes.len()),
        }
    }
}

/// Replaces a piece of the header's text by one of the same length.
fn altered(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    bytes
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let bytes = trained().to_bytes().unwrap();
    let error = |bytes: &[u8]| Checkpoint::<f32>::from_bytes(bytes).unwrap_err();
    let newer = altered(&bytes, "format_version\\\":1", "format_version\\\":9");
    assert!(matches!(error(&newer), CheckpointError::NewerFormat { found: 9, supported: 1 }));
    let wider = altered(&bytes, "width\\\":20", "width\\\":21");
    assert!(matches!(error(&wider), CheckpointError::Mismatch { .. }));
    // Refused before memory is taken for it.
    let giant = altered(&bytes, "width\\\":20", "width\\\":99");
    let problem = error(&giant);
    assert!(matches!(problem, CheckpointError::LargerThanFile { width: 99, .. }), "{problem}");
    let renamed = altered(&bytes, "\"ema.layers.0.bias\"", "\"ema.layers.7.bias\"");
    assert!(matches!(error(&renamed), CheckpointError::MissingTensor { .. }));
    let foreign = altered(&bytes, "\"manifusion\"", "\"somebodyel\"");
    assert!(matches!(error(&foreign), CheckpointError::NoHeader));
    assert!(matches!(
        error(b"PK\x03\x04 not a checkpoint at all, but long enough"),
        CheckpointError::NotSafetensors { .. }
    ));
    let double = Checkpoint::<f64>::from_bytes(&bytes).unwrap_err();
    assert!(matches!(double, CheckpointError::Scalar { .. }), "{double}");
}

/// Networks of earlier files do not say how the entries of their grids lie: scattered.
#[test]
fn grids_of_earlier_files_have_scattered_entries() {
    let text = r#"{"levels": 3, "coarsest": 1.0, "finest": 4.0, "log2_entries": 6}"#;
    let grid: GridConfig = serde_json::from_str(text).unwrap();
    assert!(!grid.lines && grid.log2_entries == 6);
}
