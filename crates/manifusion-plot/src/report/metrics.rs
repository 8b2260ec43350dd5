//! The table of numbers, each with what it means.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::svg::escape;

/// Meanings of the keys of `eval.json`, in the order in which the table shows them.
const MEANINGS: [(&str, &str); 45] = [
    ("nll", "Mean negative log-likelihood of the test points, in nats; lower is better."),
    ("nll_se", "Standard error of nll over the test points."),
    ("nll_interval_95", "Bootstrap interval of nll over the test points, 95 %."),
    (
        "nll_kind",
        "How nll was computed: ode (the model's equivalent flow, solved numerically) or closed-form.",
    ),
    ("nll_other_measure", "nll with respect to the other usual measure."),
    ("other_measure", "The measure of nll_other_measure."),
    ("uniform_nll", "nll of the uniform density, the least that a model must beat."),
    (
        "kernel_nll",
        "nll of a kernel mixture fitted to the same training points: a simple, strong rival.",
    ),
    ("kernel_nll_se", "Standard error of kernel_nll."),
    (
        "guide_nll",
        "nll of the mixture that guides the network, without the network: what the network adds is the difference to nll.",
    ),
    ("true_nll", "nll of the law that generated the data: what no model beats on average."),
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
    ("kelbo_nll_halved_steps_se", "Standard error of kelbo_nll_halved_steps."),
    ("bound_points", "Test points on which the bounds were computed."),
    ("nll_on_bound_points", "nll on the points of the bounds, to compare them with."),
    ("mass", "Total mass of the density over the manifold; 1 for an exact density."),
    ("mass_se", "Error of mass."),
    ("mass_kind", "How mass was computed: quadrature, or importance sampling."),
    ("measure", "The volume that the density is with respect to."),
    ("n", "Number of test points behind the averages."),
    (
        "test_in_train",
        "Share of the test points that also occur in training; likelihoods reward remembering them.",
    ),
    ("method", "How the density was learned."),
    ("guide", "none, or kernel when a kernel mixture's score guides the network."),
    ("manifold", "The space that the data live on."),
    ("dataset", "The data."),
    ("split", "How the data were divided into training, validation and test points."),
    ("seed", "Seed of every random number of the run."),
    ("dedup", "Whether exact duplicates were removed before the data were divided."),
    ("loss", "The form of the training loss."),
    ("s_min", "Smallest noise time; the density is that of data noised for this long."),
    ("t_end", "Largest noise time, where the prior takes over."),
    ("tolerance", "Tolerance of the solver behind nll."),
    ("evaluations", "Evaluations of the network per point that the solver needed."),
    ("train_seconds", "Time of the training."),
    ("train_threads", "Processor threads of the training."),
    ("eval_seconds", "Time of this evaluation."),
    ("threads", "Processor threads used."),
    ("config_hash", "Fingerprint of the resolved configuration."),
    ("split_hash", "Fingerprint of the division of the data."),
    ("version", "Version of the program."),
];

/// All entries of `eval.json`, nested ones under dotted names.
pub(crate) fn table(eval: &Json) -> String {
    let mut rows = Vec::new();
    flatten(eval, "", &mut rows);
    // Stable, so that what is not known stays in the file's order, at the end.
    rows.sort_by_key(|(key, _)| known(key).unwrap_or(MEANINGS.len()));
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
            let text = if number == 0.0 || (0..=8).contains(&digits) {
                trimmed(&format!("{number:.*}", digits.clamp(0, 8) as usize))
            } else {
                let text = format!("{number:.5e}");
                let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
                format!("{}e{power}", trimmed(mantissa))
            };
            text.replace('-', "−")
        }
        _ if value.is_null() => "none".to_string(),
        _ => exact.to_string(),
    }
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text.to_string()
    }
}

/// Place of a key, or of the last part of a dotted one, in [`MEANINGS`].
fn known(key: &str) -> Option<usize> {
    let last = key.rsplit('.').next().unwrap_or(key);
    MEANINGS.iter().position(|(name, _)| *name == last)
}

fn meaning(key: &str) -> &'static str {
    known(key).map_or("", |i| MEANINGS[i].1)
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
            ">1e−5<",
        ] {
            assert!(html.contains(expected), "{expected} in {html}");
        }
        let place = |key: &str| html.find(&format!("data-key=\"{key}\"")).unwrap();
        assert!(place("nll") < place("n") && place("n") < place("method"));
        assert!(table(&Json::Null).contains("not been evaluated"));
    }
}
