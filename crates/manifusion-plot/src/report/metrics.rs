//! The table of numbers, each with what it means.

use std::fmt::Write as _;

use manifusion::evaluation::{Evaluation, METRICS, MetricInfo};
use serde_json::Value as Json;

use crate::error::Result;
use crate::svg::escape;

/// Every number of an evaluation, in the order of [`METRICS`].
pub fn table(evaluation: Option<&Evaluation>) -> Result<String> {
    let Some(evaluation) = evaluation else {
        return Ok("<p>The model has not been evaluated yet.</p>".to_string());
    };
    let values = serde_json::to_value(evaluation)?;
    let mut html = "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">name</th>\
         <th scope=\"col\">value</th><th scope=\"col\">meaning</th></tr></thead>\n<tbody>\n"
        .to_string();
    for MetricInfo { key, unit, meaning } in METRICS {
        let Some(value) = values.get(key) else { continue };
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
            exact = escape(&exact),
            shown = escape(&with_unit(&shown(value, &exact), value, unit)),
            meaning = escape(meaning)
        );
    }
    html.push_str("</tbody>\n</table></div>");
    Ok(html)
}

/// A number with its unit.
fn with_unit(shown: &str, value: &Json, unit: &str) -> String {
    match value {
        Json::Number(_) | Json::Array(_) if !unit.is_empty() => format!("{shown} {unit}"),
        _ => shown.to_string(),
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
        _ if are_members(value) => members(value),
        _ => exact.to_string(),
    }
}

/// Whether these are the members of a stack.
fn are_members(value: &Json) -> bool {
    value.as_array().is_some_and(|list| list.iter().any(Json::is_object))
}

/// The members of a stack: method, weight and NLL of each.
fn members(value: &Json) -> String {
    let one = |member: &Json| {
        let number = |key: &str| member.get(key).map_or_else(String::new, |v| shown(v, ""));
        let method = member.get("method").and_then(Json::as_str).unwrap_or_default();
        format!("{method}: weight {}, {}", number("weight"), number("nll"))
    };
    value.as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join("; ")
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text.to_string()
    }
}
