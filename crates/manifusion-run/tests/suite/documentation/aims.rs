//! What was aimed at for the paper's tables, and what the results reach.

use std::fmt::Write as _;
use std::path::Path;

use manifusion::evaluation::Evaluation;
use manifusion::stats::{Mean, mean};
use manifusion_run::{RunResult, paired_difference};

use super::{measured, results_of, three};

/// What a method should reach on a set.
enum Aim {
    /// A mean NLL of at most this much.
    AtMost(f64),
    /// A mean NLL that is lower than that of another method by this much.
    Below(&'static str, f64),
    /// A mean NLL that is at most this much above that of the true density.
    NearTruth(f64),
    /// A KELBO with K = 100 that is at most this far from the ODE on its points.
    Kelbo(f64),
}

use Aim::{AtMost, Below, Kelbo, NearTruth};

const RDM: &str = "rdm";
const STACK: &str = "stack";

/// Set, method and aims.
const AIMS: &[(&str, &str, &[Aim])] = &[
    ("earthquake", RDM, &[AtMost(-0.70), Kelbo(0.1)]),
    ("earthquake", STACK, &[Below("kernel", 0.03)]),
    ("earthquake-dedup", STACK, &[Below("kernel", 0.03)]),
    ("flood", RDM, &[AtMost(0.38), Kelbo(0.1)]),
    ("flood", STACK, &[AtMost(0.34), Below("kernel", 0.03)]),
    ("fire", RDM, &[AtMost(-3.1), Kelbo(0.1)]),
    ("fire", STACK, &[Below("kernel", 0.03)]),
    ("volcano", RDM, &[Kelbo(0.1)]),
    ("volcano-dedup", STACK, &[Below("kernel", 0.03)]),
    ("rna", RDM, &[AtMost(-4.9), Kelbo(0.1)]),
    ("rna", STACK, &[AtMost(-5.3), Below("mops", 0.05), Below("kernel", 0.05), Below("rfm", 0.05)]),
    ("rna_nr185", RDM, &[Below("mops", 0.0), Kelbo(0.1)]),
    ("rna_nr185", STACK, &[Below("mops", 0.05), Below("kernel", 0.05), Below("rfm", 0.05)]),
    ("general", RDM, &[Below("mops", 0.0), Kelbo(0.1)]),
    ("general", STACK, &[Below("mops", 0.01), Below("kernel", 0.01), Below("rfm", 0.01)]),
    ("glycine", RDM, &[Below("mops", 0.0), Kelbo(0.1)]),
    ("glycine", STACK, &[Below("mops", 0.01), Below("kernel", 0.01), Below("rfm", 0.01)]),
    ("proline", RDM, &[Below("mops", 0.0), Kelbo(0.1)]),
    ("proline", STACK, &[Below("mops", 0.01), Below("kernel", 0.01), Below("rfm", 0.01)]),
    ("prepro", RDM, &[Below("mops", 0.0), Kelbo(0.1)]),
    ("prepro", STACK, &[Below("mops", 0.01), Below("kernel", 0.01), Below("rfm", 0.01)]),
    ("hyperbolic-wrapped", RDM, &[NearTruth(0.05), Kelbo(0.1)]),
    ("hyperbolic-wrapped", STACK, &[NearTruth(0.03)]),
    ("hyperbolic-gaussians", RDM, &[NearTruth(0.05), Kelbo(0.1)]),
    ("hyperbolic-gaussians", STACK, &[NearTruth(0.03)]),
    ("hyperbolic-checkerboard", RDM, &[NearTruth(0.05), Kelbo(0.1)]),
    ("hyperbolic-checkerboard", STACK, &[NearTruth(0.03)]),
    ("hyperbolic-mixture", RDM, &[NearTruth(0.05), Kelbo(0.1)]),
    ("hyperbolic-mixture", STACK, &[NearTruth(0.03)]),
    ("so3-modes", RDM, &[NearTruth(0.05), Kelbo(0.1)]),
    ("so3-modes", STACK, &[NearTruth(0.02)]),
];

/// The table of all aims.
pub(super) fn markdown(results: &Path) -> String {
    let mut text = String::from(
        "# Aims, and what is reached\n\n\
         At most 10 minutes of training on one core, two runs side by side. Means over the seeds \
         that there are; differences are paired, with their standard errors. *Reached* is judged by \
         the mean alone.\n\n\
         | set | method | aim | reached | seeds | |\n| --- | --- | --- | ---: | ---: | --- |\n",
    );
    for (set, method, aims) in AIMS {
        let own = results_of(results, set);
        for aim in *aims {
            let Reached { aim, value, seeds, is_met } = aim.reached(results, set, method, &own);
            let verdict = match is_met {
                Some(true) => "reached",
                Some(false) => "**missed**",
                None => "open",
            };
            let _ =
                writeln!(text, "| {set} | `{method}` | {aim} | {value} | {seeds} | {verdict} |");
        }
    }
    text
}

struct Reached {
    aim: String,
    value: String,
    seeds: usize,
    /// Unknown without results.
    is_met: Option<bool>,
}

impl Aim {
    fn reached(&self, results: &Path, set: &str, method: &str, own: &[RunResult]) -> Reached {
        let open =
            |aim: String| Reached { aim, value: String::from("–"), seeds: 0, is_met: None };
        match self {
            AtMost(most) => {
                let aim = format!("NLL of at most {}", two(*most));
                let nlls: Vec<f64> =
                    measured(own, method).iter().map(|(_, run)| run.evaluation.nll).collect();
                if nlls.is_empty() {
                    return open(aim);
                }
                let nll = mean(&nlls).value;
                Reached { aim, value: three(nll), seeds: nlls.len(), is_met: Some(nll <= *most) }
            }
            Below(other, by) => {
                let aim = match by {
                    0.0 => format!("better than `{other}`"),
                    by => format!("{by:.2} better than `{other}`"),
                };
                let Some(gain) = gain(own, method, other) else { return open(aim) };
                let value = format!("{} ± {}", three(gain.value), three(gain.se));
                let is_met = Some(gain.value > 0.0 && gain.value >= *by);
                Reached { aim, value, seeds: gain.n, is_met }
            }
            NearTruth(most) => {
                let aim = format!("at most {most:.2} above the true density");
                let gaps: Vec<f64> = measured(own, method)
                    .iter()
                    .map(|(_, run)| run.evaluation.nll - run.evaluation.true_nll.unwrap())
                    .collect();
                if gaps.is_empty() {
                    return open(aim);
                }
                let gap = mean(&gaps).value;
                Reached { aim, value: three(gap), seeds: gaps.len(), is_met: Some(gap <= *most) }
            }
            Kelbo(most) => {
                let aim = format!("KELBO (K = 100) within {most:.1} of the ODE on 50 points");
                let found: Vec<Evaluation> = (0..5)
                    .filter_map(|seed| {
                        let file = format!("{set}-bounds/{method}-seed{seed}-k100.json");
                        let text = std::fs::read_to_string(results.join(file)).ok()?;
                        Some(serde_json::from_str::<Evaluation>(&text).unwrap())
                    })
                    .collect();
                if found.is_empty() {
                    return open(aim);
                }
                let gap = |found: &Evaluation| found.kelbo_gap().unwrap();
                let text = |found: &Evaluation| {
                    let se = found.kelbo_gap_se.map(|se| format!(" ± {}", three(se)));
                    three(gap(found)) + &se.unwrap_or_default()
                };
                let value: Vec<String> = found.iter().map(text).collect();
                let is_met = found.iter().all(|found| gap(found).abs() <= *most);
                Reached { aim, value: value.join(", "), seeds: found.len(), is_met: Some(is_met) }
            }
        }
    }
}

/// How much lower the NLL of a method is than that of another on the seeds that both have.
fn gain(own: &[RunResult], method: &str, other: &str) -> Option<Mean> {
    let of = |name: &str| -> Vec<RunResult> {
        own.iter().filter(|result| result.method == name).cloned().collect()
    };
    paired_difference(&of(other), &of(method)).unwrap()
}

fn two(value: f64) -> String {
    format!("{value:.2}").replace('-', "−")
}
