//! `manifusion check`.

use std::io::Write;

use manifusion::check::{CheckOptions, Report, check_manifold};
use manifusion::manifold::parse;
use serde_json::json;

use crate::common::{Common, End};

/// Manifolds that are checked when none is named.
const DEFAULT: [&str; 8] = [
    "sphere:2",
    "torus:2",
    "hyperbolic:2",
    "so:3",
    "stiefel:4,2",
    "euclidean:3",
    "level:x^2+y^2/4+z^2-1",
    "sphere:2*torus:3",
];

/// Flags of `check`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Manifold to check, such as sphere:2 or level:x^2+y^2/4+z^2-1; may be repeated.
    #[arg(long, value_name = "SPEC")]
    manifold: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Prints a table per manifold; whether every law holds.
pub(crate) fn run(args: &Args) -> anyhow::Result<End> {
    let default = DEFAULT.map(String::from);
    let specs = if args.manifold.is_empty() { &default[..] } else { &args.manifold[..] };
    // All names are read before the first check starts, so that a typing error costs no time.
    let manifolds = specs.iter().map(|spec| parse(spec)).collect::<Result<Vec<_>, _>>()?;
    let output = args.common.start()?;
    let mut text = Vec::new();
    let mut passed = true;
    for manifold in &manifolds {
        let seed = args.common.seed.unwrap_or(0);
        let options = CheckOptions { seed, ..CheckOptions::default() };
        let report = output.watch.stage("checking", || check_manifold(manifold, &options))?;
        passed &= report.passed();
        let start = text.len();
        if args.common.json {
            print_json(&mut text, &report)?;
        } else {
            print_table(&mut text, &report)?;
        }
        // Shown as they come: a check takes seconds.
        if args.common.out.is_none() {
            output.line(String::from_utf8_lossy(&text[start..]).trim_end())?;
        }
    }
    if let Some(path) = &args.common.out {
        manifusion_io::write_atomic(path, &text)?;
    }
    Ok(if passed { End::Done } else { End::Negative })
}

fn print_table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    writeln!(out, "{} (dimension {} in R^{})", report.manifold, report.dim, report.ambient_dim)?;
    writeln!(out, "  {:<52} {:>10} {:>10}", "law", "measured", "allowed")?;
    for check in &report.checks {
        let verdict = if check.passed() { "pass" } else { "FAIL" };
        writeln!(
            out,
            "  {:<52} {:>10.1e} {:>10.1e}  {verdict}",
            check.law, check.value, check.tolerance
        )?;
        if let Some(problem) = &check.problem {
            writeln!(out, "    {problem}")?;
        }
    }
    Ok(())
}

fn print_json(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let checks: Vec<_> = report
        .checks
        .iter()
        .map(|check| {
            json!({
                "law": check.law,
                "measured": check.value,
                "allowed": check.tolerance,
                "passed": check.passed(),
                "problem": check.problem.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    let line = json!({
        "manifold": report.manifold,
        "dim": report.dim,
        "ambient_dim": report.ambient_dim,
        "passed": report.passed(),
        "checks": checks,
    });
    writeln!(out, "{line}")
}
