//! Fuzzing of everything that reads a file, on stable Rust: seeds made in code, mutations that know
//! the format, panics caught.
//!
//! Used by `examples/fuzz_readers.rs` (long runs) and `tests/fuzz.rs` (short ones). An execution is
//! a function of the seed and its number; inputs with a new outcome join the corpus.

mod mutate;
mod targets;

use manifusion::rng::Streams;
use std::collections::HashSet;
use std::fmt::Write;
use std::panic::catch_unwind;

pub(crate) use targets::targets;

/// One reader.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Valid files.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    pub(crate) mutate: mutate::Mutator,
    /// Reads the bytes; what came of it in words, without numbers that vary from input to input.
    pub(crate) read: fn(&[u8]) -> String,
}

/// What a run found.
pub(crate) struct Report {
    pub(crate) executions: u64,
    /// Inputs that were read without an error.
    pub(crate) accepted: u64,
    pub(crate) crashes: Vec<Vec<u8>>,
    /// Different outcomes: sentences of refusal without their numbers, and shapes of what was
    /// accepted.
    pub(crate) outcomes: Vec<String>,
    pub(crate) corpus: usize,
}

/// Inputs kept for further mutation.
const LARGEST_CORPUS: usize = 2000;
/// Longer inputs are cut: they are no better and slower.
const LONGEST: usize = 1 << 13;

/// Runs a target; `before` sees each input before it is read (for crashes that end the process).
pub(crate) fn fuzz(
    target: &Target,
    executions: u64,
    seed: u64,
    mut before: impl FnMut(&[u8]),
) -> Report {
    let mut corpus = (target.seeds)();
    // Inputs that are read to their end: half of all mutations begin with one of them.
    let mut good = corpus.clone();
    let seeds = corpus.len();
    let mut outcomes = HashSet::new();
    let mut report =
        Report { executions, accepted: 0, crashes: vec![], outcomes: vec![], corpus: 0 };
    let streams = Streams::new(seed, target.name);
    for execution in 0..executions {
        let mut random = mutate::Random::new(streams.stream(execution, 0));
        let mut input = match execution {
            index if (index as usize) < seeds => corpus[index as usize].clone(),
            _ => {
                let from = if random.below(2) == 0 { &good } else { &corpus };
                let mut input = random.pick(from).clone();
                for _ in 0..=random.below(4) * random.below(2) {
                    (target.mutate)(&mut input, &mut random, &corpus);
                }
                input
            }
        };
        input.truncate(LONGEST);
        before(&input);
        let Ok(outcome) = catch_unwind(|| (target.read)(&input)) else {
            report.crashes.push(input);
            continue;
        };
        let is_good = outcome.starts_with("ok");
        report.accepted += u64::from(is_good);
        if outcomes.insert(outcome) && corpus.len() < LARGEST_CORPUS {
            if is_good {
                good.push(input.clone());
            }
            corpus.push(input);
        }
    }
    report.corpus = corpus.len();
    report.outcomes = outcomes.into_iter().collect();
    report.outcomes.sort();
    report
}

/// Silences panics inside the decoders of other crates, which our readers turn into errors; all
/// others are shown as usual. `count` sees the places of the silenced ones.
pub(crate) fn silence_decoders(count: impl Fn(&str) + Send + Sync + 'static) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if manifusion_io::is_decoding() {
            let place = panic.location().map_or_else(String::new, ToString::to_string);
            // The crate and the file within it.
            count(place.rsplit_once("/registry/src/").map_or(place.as_str(), |(_, rest)| rest));
        } else {
            usual(panic);
        }
    }));
}

/// An input as hexadecimal digits.
pub(crate) fn hex(input: &[u8]) -> String {
    input.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
