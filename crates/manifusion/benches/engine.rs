//! The speed of a training step, alone or against PyTorch and JAX.
//!
//! `cargo bench --bench engine` prints a table; with `--partitions 8 --against 2` it runs two
//! numbers of gradient partitions in turns. With `--serve DIR` the program reads cases from DIR
//! (written by `benches/peers/engine_compare.py`), answers one line per request on standard input,
//! and so can be run in turns with the other engines, or with another build of itself
//! (`benches/peers/engine_turns.py`).
#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

#[path = "engine/case.rs"]
mod case;
#[path = "engine/peak.rs"]
mod peak;

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use case::{Case, Problem, cases};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    let flag = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let threads = flag("--threads").map_or(Ok(2), |n| n.parse())?;
    let partitions = flag("--partitions").map_or(Ok(2), |n| n.parse())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    if let Some(dir) = flag("--serve") {
        return pool.install(|| serve(Path::new(dir), partitions));
    }
    if let Some(others) = flag("--against") {
        let only = flag("--case").map(String::as_str);
        return pool.install(|| compare(partitions, others.parse()?, only));
    }
    let rows = flag("--rows").map(|n| n.parse()).transpose()?;
    pool.install(|| table(threads, partitions, flag("--case").map(String::as_str), rows))
}

/// Steps with two numbers of gradient partitions in turns; medians of the ratios within a turn, of
/// the time that passes and of the processor time of all threads.
fn compare(partitions: usize, against: usize, only: Option<&str>) -> Result<(), Failure> {
    const TURNS: usize = 60;
    for case in cases().into_iter().filter(|case| only.is_none_or(|name| name == case.name)) {
        let name = case.name;
        let mut first = Problem::synthetic(case.clone(), partitions)?;
        let mut second = Problem::synthetic(case, against)?;
        let (mut ratios, mut cpu_ratios) = (Vec::new(), Vec::new());
        let time = |problem: &mut Problem| -> Result<[f64; 2], Failure> {
            let (start, cpu) = (Instant::now(), peak::cpu_seconds());
            for _ in 0..3 {
                problem.step()?;
            }
            Ok([start.elapsed().as_secs_f64(), peak::cpu_seconds() - cpu])
        };
        for turn in 0..TURNS {
            let (a, b) = if turn % 2 == 0 {
                let a = time(&mut first)?;
                (a, time(&mut second)?)
            } else {
                let b = time(&mut second)?;
                (time(&mut first)?, b)
            };
            ratios.push(a[0] / b[0]);
            cpu_ratios.push(a[1] / b[1]);
        }
        let [time, cpu] = [ratios, cpu_ratios].map(|mut ratios| {
            ratios.sort_by(f64::total_cmp);
            let [low, middle, high] = [TURNS / 4, TURNS / 2, 3 * TURNS / 4].map(|i| ratios[i]);
            format!("{middle:.3} ({low:.3} to {high:.3})")
        });
        println!(
            "{name:<12} {partitions} partitions take {time} of the time of {against}, \
             {cpu} of the processor time"
        );
    }
    Ok(())
}

/// Best and median time of each case, with the share of the machine's peak. Fewer rows make
/// shorter steps, whose best time a busy machine disturbs less.
fn table(
    threads: usize,
    partitions: usize,
    only: Option<&str>,
    rows: Option<usize>,
) -> Result<(), Failure> {
    let peak = peak::gflops_of_pool();
    println!("{threads} threads, {partitions} gradient partitions, FMA peak {peak:.1} GFLOP/s");
    for mut case in cases().into_iter().filter(|case| only.is_none_or(|name| name == case.name)) {
        case.rows = rows.unwrap_or(case.rows);
        let (work, count) = (case.gflop(), 30 * 512 / case.rows.min(512));
        let mut problem = Problem::synthetic(case, partitions)?;
        let mut times: Vec<f64> = (0..count)
            .map(|_| {
                let start = Instant::now();
                problem.step()?;
                Ok(start.elapsed().as_secs_f64())
            })
            .collect::<Result<_, Failure>>()?;
        times.sort_by(f64::total_cmp);
        let (best, median) = (times[0], times[times.len() / 2]);
        println!(
            "{:<12} best {:7.2} ms  median {:7.2} ms  {:6.1} GFLOP/s = {:4.1} % of peak",
            problem.case.name,
            best * 1e3,
            median * 1e3,
            work / best,
            100.0 * work / best / peak,
        );
    }
    println!("largest resident memory {:.1} MB", peak::resident_mb());
    Ok(())
}

/// Requests: `load NAME`, `check NAME`, `time COUNT`, `work`, `memory`, `peak`.
fn serve(dir: &Path, partitions: usize) -> Result<(), Failure> {
    let mut problem: Option<Problem> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["load", name] => {
                let case: Case = cases()
                    .into_iter()
                    .find(|case| case.name == name)
                    .ok_or_else(|| format!("no case {name}"))?;
                drop(problem.take());
                problem = Some(Problem::load(case, partitions, &dir.join(name))?);
                "ok".to_owned()
            }
            ["check", name] => {
                let problem = problem.as_mut().ok_or("nothing loaded")?;
                problem.check(&dir.join(name).join("ours"))?
            }
            ["time", count] => {
                let problem = problem.as_mut().ok_or("nothing loaded")?;
                let count: u32 = count.parse()?;
                let start = Instant::now();
                for _ in 0..count {
                    problem.step()?;
                }
                format!("{:.6}", start.elapsed().as_secs_f64() * 1e3 / f64::from(count))
            }
            ["memory"] => format!("{:.1}", peak::resident_mb()),
            ["work"] => {
                let problem = problem.as_ref().ok_or("nothing loaded")?;
                format!("{:.6}", problem.case.gflop())
            }
            ["peak"] => format!("{:.1}", peak::gflops_of_pool()),
            _ => return Err(format!("request '{line}' not understood").into()),
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
