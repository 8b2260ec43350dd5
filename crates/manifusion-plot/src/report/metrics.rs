//! The table of numbers, each with what it means.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::svg::escape;

/// Meanings of the keys of `eval.json`.
const MEANINGS: [(&str, &str); 38] = [
    ("method", "How the density was learned."),
    ("manifold", "The space that the data live on."),
    ("dataset", "The data."),
    ("split", "How the data were divided into training, validation and test points."),
    ("seed", "Seed of every random number of the run."),
    ("dedup", "Whether exact duplicates were removed before the data were divided."),
    ("n", "Number of test points behind the averages."),
    ("nll", "Mean negative log-likelihood of the test points, in nats; lower is better."),
    ("nll_se", "Standard error of nll over the test points."),
    ("nll_ci", "Bootstrap interval of nll over the test points."),
    (
        "nll_kind",
        "How nll was computed: ode (the model's equivalent flow, solved numerically) or closed-form.",
    ),
    (
        "elbo_nll",
        "Negated evidence lower bound: an upper bound of the negative log-likelihood of the stochastic model.",
    ),
    ("elbo_nll_se", "Standard error of elbo_nll."),
    ("kelbo_nll", "The same bound, tightened by averaging K paths per point."),
    ("kelbo_nll_se", "Standard error of kelbo_nll."),
    ("kelbo_k", "K, the number of paths per point in kelbo_nll."),
    (
        "kelbo_nll_halved_steps",
        "kelbo_nll with steps half as long; near kelbo_nll when the steps are short enough.",
    ),
    ("mass", "Total mass of the density over the manifold; 1 for an exact density."),
    ("mass_se", "Error of mass."),
    ("measure", "The volume that the density is with respect to."),
    ("guide", "none, or kernel when a kernel mixture's score guides the network."),
    ("loss", "The form of the training loss."),
    ("s_min", "Smallest noise time; the density is that of data noised for this long."),
    ("t_end", "Largest noise time, where the prior takes over."),
    ("tolerance", "Tolerance of the solver behind nll."),
    ("evaluations", "Evaluations of the network per point that the solver needed."),
    ("train_seconds", "Time of the training."),
    ("eval_seconds", "Time of this evaluation."),
    ("threads", "Processor threads used."),
    ("config_hash", "Fingerprint of the resolved configuration."),
    ("split_hash", "Fingerprint of the division of the data."),
    ("uniform_nll", "nll of the uniform density, the least that a model must beat."),
    (
        "kernel_nll",
        "nll of a kernel mixture fitted to the same training points: a simple, strong rival.",
    ),
    ("commit", "Revision of the program."),
    (
        "entropy",
        "Entropy of the law that generated the data: the nll that no model beats on average.",
    ),
    ("version", "Version of the program."),
    ("steps", "Optimiser steps made."),
    ("nll_lorentz", "nll with respect to hyperbolic (Lorentz) volume."),
];

/// All entries of `eval.json`, nested ones under dotted names.
pub(crate) fn table(eval: &Json) -> String {
    let mut rows = Vec::new();
    flatten(eval, "", &mut rows);
    if rows.is_empty() {
        return "<p>The model has not been evaluated yet.</p>".to_string();
    }
    let mut html = "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">name</th>\
         <th scope=\"col\">value</th><th scope=\"col\">meaning</th></tr></thead>\n<tbody>\n"
        .to_string();
    for (key, value) in rows {
        let exact = match value {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        let class = if value.is_number() { "value" } else { "value text" };
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\"><code>{key}</code></th>\
             <td class=\"{class}\" data-key=\"{key}\" data-value=\"{exact}\" title=\"{exact}\">{shown}</td>\
             <td>{meaning}</td></tr>",
            key = escape(&key),
            exact = escape(&exact),
            shown = escape(&shown(value, &exact)),
            meaning = meaning(&key)
        );
    }
    html.push_str("</tbody>\n</table></div>");
    html
}

fn flatten<'a>(value: &'a Json, path: &str, rows: &mut Vec<(String, &'a Json)>) {
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(value, &path, rows);
            }
        }
        Json::Null if path.is_empty() => {}
        _ => rows.push((path.to_string(), value)),
    }
}

/// Whole numbers and texts as they are, others to six digits.
fn shown(value: &Json, exact: &str) -> String {
    match value.as_f64() {
        Some(number) if !(value.is_i64() || value.is_u64()) => {
            let digits = 5 - number.abs().max(1e-300).log10().floor() as i64;
            let text = if (0..=12).contains(&digits) {
                format!("{number:.*}", digits as usize)
            } else {
                format!("{number:.5e}")
            };
            text.replace('-', "−")
        }
        _ if value.is_null() => "none".to_string(),
        _ => exact.to_string(),
    }
}

fn meaning(key: &str) -> &'static str {
    let last = key.rsplit('.').next().unwrap_or(key);
    MEANINGS.iter().find(|(name, _)| *name == last).map_or("", |(_, meaning)| meaning)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_texts_and_nested_values_have_rows() {
        let html = table(&json!({
            "nll": -0.123456789, "n": 975, "uniform_nll": null, "method": "rdm <x>",
            "solver": { "tolerance": 1e-5 }, "nll_ci": [0.1, 0.2]
        }));
        for expected in [
            "data-key=\"nll\" data-value=\"-0.123456789\"",
            ">−0.123457<",
            "data-key=\"n\" data-value=\"975\"",
            ">none<",
            "rdm &lt;x&gt;",
            "data-key=\"solver.tolerance\" data-value=\"0.00001\"",
            "data-value=\"[0.1,0.2]\"",
            "Tolerance of the solver",
        ] {
            assert!(html.contains(expected), "{expected} in {html}");
        }
        assert!(table(&Json::Null).contains("not been evaluated"));
    }
}
