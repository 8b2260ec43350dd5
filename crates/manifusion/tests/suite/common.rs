//! What several test files share.
#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::Value;

/// A file of reference values (`reference/` says how it was made).
pub(crate) fn golden(name: &str) -> Value {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The rows under a key of a file of reference values.
pub(crate) fn rows(file: &Value, key: &str) -> Vec<Value> {
    file[key].as_array().unwrap_or_else(|| panic!("no rows '{key}'")).clone()
}

/// A number of a row.
pub(crate) fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no number '{key}' in {row}"))
}

/// A vector of a row; matrices are flattened by rows.
pub(crate) fn vector(row: &Value, key: &str) -> Vec<f64> {
    fn flatten(value: &Value, out: &mut Vec<f64>) {
        match value {
            Value::Array(values) => values.iter().for_each(|v| flatten(v, out)),
            value => out.push(value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))),
        }
    }
    let mut out = Vec::new();
    flatten(&row[key], &mut out);
    out
}

/// Mean and standard error.
pub(crate) fn mean_se(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Least-squares slope of log error against log step.
pub(crate) fn log_log_slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|(h, e)| (h.ln(), e.ln())).collect();
    let (sx, sy) = logs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let (mx, my) = (sx / n, sy / n);
    let (mut num, mut den) = (0.0, 0.0);
    for (x, y) in logs {
        num += (x - mx) * (y - my);
        den += (x - mx).powi(2);
    }
    num / den
}

/// Kolmogorov–Smirnov distance of two samples, and the distance that two equal laws exceed with
/// probability 1e-4.
pub(crate) fn kolmogorov_smirnov(a: &mut [f64], b: &mut [f64]) -> (f64, f64) {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (mut i, mut j, mut worst) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        if a[i] <= b[j] {
            i += 1;
        } else {
            j += 1;
        }
        worst = worst.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    let effective = a.len() as f64 * b.len() as f64 / (a.len() + b.len()) as f64;
    // P(√n D > x) ≈ 2 exp(−2x²)
    (worst, (0.5 * (2.0f64 / 1e-4).ln() / effective).sqrt())
}
