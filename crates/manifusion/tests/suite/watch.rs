//! What a watch sees of stages and of parallel loops, and how it stops them.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use manifusion::error::SolveError;
use manifusion::parallel::for_each_chunk;
use manifusion::watch::{Progress, Watch, duration};

#[test]
fn a_stage_is_described_with_what_is_left() {
    let latest = Arc::new(Mutex::new(None));
    let told = Arc::clone(&latest);
    let watch = Watch::new(move |progress| {
        *told.lock().unwrap() = Some(progress.clone());
        ControlFlow::Continue(())
    });
    let describe = |seconds: f64, since: f64| {
        let told: Option<Progress> = latest.lock().unwrap().clone();
        let mut told = told.unwrap();
        told.seconds = seconds;
        told.describe(since)
    };
    watch.begin("likelihood", 200, 0);
    watch.advance(50);
    assert_eq!(describe(4.0, 2.0), "likelihood: 25 %, 10 s left");
    watch.begin("kernel mixture", 0, 0);
    assert_eq!(describe(1.0, 2.0), "kernel mixture: 3 s");
}

#[test]
fn durations_are_read_by_people() {
    assert_eq!([0.2, 59.4, 200.0, 7400.0].map(duration), ["0 s", "59 s", "3:20 min", "2:03 h"]);
}

#[test]
fn a_stage_counts_the_rows_of_its_outermost_loop() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let watch = Watch::new(move |progress| {
        sink.lock().unwrap().push((progress.stage, progress.done, progress.total));
        ControlFlow::Continue(())
    });
    let inner = |_: usize, _: &mut [f64]| Ok(());
    let outer = |_: usize, chunk: &mut [f64]| for_each_chunk(chunk, 1, 1, inner);
    let mut data = vec![0.0; 20];
    watch.stage("rows", || for_each_chunk(&mut data, 2, 3, outer)).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.first(), Some(&("rows", 0, 0)));
    assert_eq!(seen.iter().map(|s| s.1).max(), Some(10));
    assert!(seen[1..].iter().all(|s| s.2 == 10), "{seen:?}");
    // Outside the stage nothing is counted.
    let count = seen.len();
    for_each_chunk(&mut data, 2, 3, outer).unwrap();
    assert_eq!(seen.len(), count);
}

#[test]
fn a_watch_stops_the_work() {
    let watch = Watch::new(|progress| match progress.done {
        0..4 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    let mut data = vec![0.0; 1000];
    let work = |_: usize, chunk: &mut [f64]| {
        chunk.fill(1.0);
        Ok(())
    };
    let found = watch.stage("rows", || for_each_chunk(&mut data, 1, 1, work));
    assert_eq!(found, Err(SolveError::Stopped));
    assert!(data.iter().sum::<f64>() < 1000.0);
}
