//! A short run of the fuzzer; `docs/fuzzing.md` records the long ones.

#[path = "../../fuzz/mod.rs"]
mod fuzz;

fn short_run(name: &str, outcomes: usize) {
    let targets = fuzz::targets();
    let target = targets.iter().find(|t| t.name == name).unwrap();
    fuzz::silence_decoders(|_| {});
    let report = fuzz::fuzz(target, 20_000, 1, |_| {});
    let crashes: Vec<String> = report.crashes.iter().map(|c| fuzz::hex(c)).collect();
    assert!(crashes.is_empty(), "{name}: {} crashes, the first: {}", crashes.len(), crashes[0]);
    // The mutations reach beyond the first check, on both sides.
    assert!(
        report.accepted > 500 && report.accepted < report.executions - 500,
        "{}",
        report.accepted
    );
    assert!(report.outcomes.len() >= outcomes, "{name}: {:#?}", report.outcomes);
    assert!(report.corpus > (target.seeds)().len());
}

macro_rules! short_runs {
    ($($name:ident, $outcomes:literal;)*) => {$(
        #[test]
        fn $name() {
            short_run(stringify!($name), $outcomes);
        }
    )*};
}

short_runs! {
    csv, 50;
    tsv, 50;
    npy, 20;
    parquet, 50;
    safetensors, 20;
    toml, 20;
}
