//! Scores the rows of a file once for every line of standard input, for `python/benches/shell.py`:
//! `score_again RUN FILE points|table`. `points` turns the rows into points once, `table` does so
//! each time, from columns of numbers, as a program does that is given arrays.
#![allow(clippy::print_stdout, reason = "it answers on standard output")]

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;

use manifusion::watch::Watch;
use manifusion_io::{Column, FileFormat, Table, read_table};
use manifusion_run::MemoryRun;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, run, file, what] = &arguments[..] else {
        return Err("arguments: RUN FILE points|table".into());
    };
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    let (run, table) = (MemoryRun::open(Path::new(run))?, read_table(Path::new(file))?);
    let columns =
        (0..table.columns.len()).map(|i| table.numbers(i)).collect::<Result<Vec<_>, _>>()?;
    let again = || Table {
        columns: columns.iter().map(|c| Column::numbers(String::new(), c.clone())).collect(),
        lines: (0..table.lines.len() as u64).collect(),
        has_header: false,
        format: FileFormat::Npy,
    };
    let points = run.rows(again())?;
    let watch = Watch::new(|_| std::ops::ControlFlow::Continue(()));
    println!("ready");
    for line in stdin().lock().lines() {
        line?;
        let log_p = match what.as_str() {
            "points" => run.log_density(&points, &watch)?,
            "table" => run.log_density(&run.rows(again())?, &watch)?,
            _ => return Err(format!("{what} is neither points nor table").into()),
        };
        println!("{:?}", log_p.iter().sum::<f64>());
        stdout().flush()?;
    }
    Ok(())
}
