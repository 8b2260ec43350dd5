//! What the default has on each seed, beside one network and the kernel mixture.

use std::fmt::Write as _;
use std::path::Path;

use manifusion_run::{Measured, RunResult};

use super::{measured, results_of, three};

const SETS: [&str; 12] = [
    "volcano",
    "earthquake",
    "earthquake-dedup",
    "flood",
    "fire",
    "general",
    "glycine",
    "proline",
    "prepro",
    "rna",
    "rna_nr185",
    "so3-modes",
];

/// The table of all sets.
pub(super) fn markdown(results: &Path) -> String {
    let mut text = String::from(
        "# The default, seed by seed\n\n\
         Test NLL of each seed from 0 on; the networks of a stack share the budget that `rdm` has \
         alone.\n\n\
         | set | `stack` | its first network | `rdm` | `kernel` | networks | weight of the mixture \
         | training (s) |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for set in SETS {
        let own = results_of(results, set);
        let stacks = measured(&own, "stack");
        let networks: Vec<usize> = stacks.iter().map(|(_, run)| count_of_networks(run)).collect();
        let weights = stacks.iter().map(|(_, run)| 1.0 - weight_of_networks(run));
        let seconds = stacks.iter().filter_map(|(_, run)| run.evaluation.train_seconds);
        let cells = [
            of_seeds(&own, "stack", |run| Some(run.evaluation.nll)),
            of_seeds(&own, "stack", |run| run.evaluation.network_nll),
            of_seeds(&own, "rdm", |run| Some(run.evaluation.nll)),
            of_seeds(&own, "kernel", |run| Some(run.evaluation.nll)),
            range(networks.iter().map(|count| *count as f64), 0),
            range(weights, 2),
            range(seconds, 0),
        ];
        let _ = writeln!(text, "| {set} | {} |", cells.join(" | "));
    }
    text
}

fn of_seeds(own: &[RunResult], method: &str, value: impl Fn(&Measured) -> Option<f64>) -> String {
    let mut values = Vec::new();
    for (place, (seed, run)) in measured(own, method).into_iter().enumerate() {
        assert_eq!(seed, place as u64, "{method}: seeds are 0, 1, …");
        values.push(value(run).map_or_else(nothing, three));
    }
    if values.is_empty() { nothing() } else { values.join(", ") }
}

fn nothing() -> String {
    String::from("–")
}

fn count_of_networks(run: &Measured) -> usize {
    let members = run.evaluation.members.iter().flatten();
    members.filter(|member| member.method == "rdm").count()
}

fn weight_of_networks(run: &Measured) -> f64 {
    let members = run.evaluation.members.iter().flatten();
    members.filter(|member| member.method == "rdm").map(|member| member.weight).sum()
}

/// The least and the largest value.
fn range(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (least, most) = (least.min(value), most.max(value));
    }
    let text = |value: f64| format!("{value:.digits$}");
    match (text(least), text(most)) {
        _ if least > most => nothing(),
        (least, most) if least == most => least,
        (least, most) => format!("{least} to {most}"),
    }
}
