//! Fuzzes the readers of files:
//! `cargo run --release -p manifusion-io --example fuzz_readers -- --target csv --executions
//! 1000000`.
//!
//! Options: `--target NAME` (all of them if left out), `--executions N`, `--seed N`, `--outcomes`
//! lists the outcomes, `--trace FILE` writes each input to a file before it is read (for crashes
//! that end the process), `--read FILE` reads one input.
#![allow(clippy::print_stdout, reason = "the results are for a terminal")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a tool for developers")]

#[path = "../fuzz/mod.rs"]
mod fuzz;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

static PANICS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|a| a != name);
    arguments.next()?;
    arguments.next()
}

fn main() -> std::process::ExitCode {
    let executions: u64 = option("--executions").map_or(20_000, |n| n.parse().expect("a number"));
    let seed: u64 = option("--seed").map_or(0, |n| n.parse().expect("a number"));
    let wanted = option("--target");
    let trace = option("--trace");
    let mut failed = false;
    let targets = fuzz::targets();
    let chosen: Vec<_> =
        targets.iter().filter(|t| wanted.as_deref().is_none_or(|w| w == t.name)).collect();
    assert!(!chosen.is_empty(), "targets: csv, tsv, npy, parquet, safetensors, toml");
    if let Some(path) = option("--read") {
        let input = std::fs::read(path).expect("a readable file");
        println!("{}", (chosen[0].read)(&input));
        return std::process::ExitCode::SUCCESS;
    }
    fuzz::silence_decoders(|place| {
        if let Ok(mut places) = PANICS.lock() {
            // Without the registry's folder.
            let within = place.split_once('/').map_or(place, |(_, within)| within);
            *places.entry(within.to_owned()).or_default() += 1;
        }
    });
    for target in chosen {
        let start = Instant::now();
        let report = fuzz::fuzz(target, executions, seed, |input| {
            if let Some(path) = &trace {
                std::fs::write(path, input).expect("a writable file");
            }
        });
        println!(
            "{}: {} executions, {} crashes, {} accepted, {} distinct outcomes, corpus {}, seed {seed}, {:.0} s",
            target.name,
            report.executions,
            report.crashes.len(),
            report.accepted,
            report.outcomes.len(),
            report.corpus,
            start.elapsed().as_secs_f64()
        );
        for (place, count) in &*PANICS.lock().expect("no panic while counting") {
            println!("  {count} panics of a decoder at {place}, returned as errors");
        }
        for crash in report.crashes.iter().take(10) {
            println!("crash: {}", fuzz::hex(crash));
        }
        if std::env::args().any(|a| a == "--outcomes") {
            println!("{}", report.outcomes.join("\n"));
        }
        failed |= !report.crashes.is_empty();
    }
    std::process::ExitCode::from(u8::from(failed))
}
