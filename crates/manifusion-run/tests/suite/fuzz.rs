//! The reader of configurations under mutation: whatever the text, it is choices or a sentence, and
//! what is resolved survives being written.
//!
//! `MANIFUSION_FUZZ=1000000 cargo test -p manifusion-run configurations -- --nocapture` makes the
//! long run of docs/fuzzing.md.
#![allow(clippy::print_stdout, reason = "the long run tells what it did")]

#[allow(dead_code, reason = "shared with the readers of data")]
#[path = "../../../manifusion-io/fuzz/mutate.rs"]
mod mutate;

use std::collections::HashSet;
use std::panic::catch_unwind;

use manifusion::manifold::parse;
use manifusion::methods::rdm::{Rdm, RdmSettings};
use manifusion::rng::Streams;
use manifusion_run::{Config, RunSettings, StoredRun};

use crate::{SMALL, train_in};

const WORDS: [&str; 60] = [
    "=",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "\"",
    "'''",
    "#",
    "\n",
    ".",
    ",",
    "true",
    "nan",
    "-inf",
    "1e400",
    "0",
    "-1",
    "1e-300",
    "9223372036854775807",
    "-0.0",
    "1979-05-27",
    "manifold",
    "seed",
    "format",
    "method",
    "kernel",
    "rdm",
    "data.split",
    "data.rows",
    "data.source",
    "model.s_min",
    "train.smoothing",
    "model.t_end",
    "model.prior_score",
    "net.depth",
    "net.width",
    "net.fourier",
    "net.fourier_max",
    "net.activation",
    "net.time_pairs",
    "train.loss",
    "train.times",
    "train.batch",
    "train.steps",
    "train.minutes",
    "train.rate",
    "train.divergence",
    "train.probes",
    "evaluate.kelbo_paths",
    "sphere:2",
    "hyperbolic:2,metric=lorentz",
    "torus:3*so:3",
    "implicit",
    "hutchinson",
    "rdm.train.batch",
    "rdm.net",
    "kernel.local_weights",
    "preset",
    "train.partitions",
];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        b"manifold = \"sphere:2\"\ndata.source = \"synthetic:sphere-mixture\"\ntrain.steps = 5\n"
            .to_vec(),
        b"seed = 3\n[train]\nminutes = 0.5\nloss = \"implicit\"\n[net]\nwidth = 64\n".to_vec(),
        b"method = \"kernel\"\nmanifold = \"torus:2\"\n[kernel]\nlocal_weights = true\n".to_vec(),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (number, (set, more)) in [
        ("sphere-mixture", "preset=fast"),
        ("hyperbolic-wrapped", "preset=paper"),
        ("so3-modes", "preset=paper"),
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.path().join(number.to_string());
        let source = format!("data.source=synthetic:{set}");
        let own = [source.as_str(), more, "train.steps=2", "train.validation_points=2"];
        train_in(&out, &[&SMALL[1..], &own].concat());
        let text = StoredRun::open(&out).unwrap().settings().to_toml().unwrap();
        seeds.push(text.into_bytes());
    }
    seeds
}

/// What came of a text, in words without its numbers.
fn read(input: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(input) else { return String::from("no text") };
    let shortened = |message: String| {
        assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
        message.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
    };
    let choices = match Config::parse(text).and_then(Config::choices) {
        Ok(choices) => choices,
        Err(error) => return shortened(error.to_string()),
    };
    let resolved = match RunSettings::parse(text) {
        Ok(settings) => settings,
        Err(error) => return format!("ok, open: {}", shortened(error.to_string())),
    };
    let written = resolved.to_toml().unwrap();
    let again = RunSettings::parse(&written).unwrap();
    // As text: a NaN is not equal to itself.
    assert_eq!(again.to_toml().unwrap(), written);
    let dims = parse(&resolved.manifold).ok().map(|m| m.ambient_dim());
    let rdm: Option<RdmSettings> =
        serde_json::from_value::<Rdm>(choices.section).ok().and_then(|rdm| rdm.try_into().ok());
    let config = dims.zip(rdm).map(|(m, rdm)| rdm.train_config(m, 0).batch);
    format!("ok {} {dims:?} {}", resolved.method, config.is_some())
}

#[test]
fn configurations_are_settings_or_a_sentence() {
    let executions: u64 = std::env::var("MANIFUSION_FUZZ").map_or(20_000, |n| n.parse().unwrap());
    let (mut corpus, streams) = (seeds(), Streams::new(0, "configurations"));
    let mut good = corpus.clone();
    let (mut outcomes, mut accepted) = (HashSet::new(), 0u64);
    for execution in 0..executions {
        let mut random = mutate::Random::new(streams.stream(execution, 0));
        let from = if random.below(2) == 0 { &good } else { &corpus };
        let mut input = random.pick(from).clone();
        for _ in 0..=random.below(3) {
            mutate::words(&mut input, &mut random, &corpus, &WORDS);
        }
        input.truncate(1 << 12);
        let outcome = catch_unwind(|| read(&input)).unwrap_or_else(|_| {
            panic!("execution {execution}: {:?}", String::from_utf8_lossy(&input))
        });
        let is_good = outcome.starts_with("ok");
        accepted += u64::from(is_good);
        if outcomes.insert(outcome) && corpus.len() < 2000 {
            if is_good {
                good.push(input.clone());
            }
            corpus.push(input);
        }
    }
    println!(
        "configurations: {executions} executions, 0 crashes, {accepted} accepted, {} distinct outcomes, corpus {}",
        outcomes.len(),
        corpus.len()
    );
    assert!(accepted > executions / 100 && outcomes.len() > 50, "{accepted}, {}", outcomes.len());
}
