//! Brownian motion on S²: 512 points × 100 Heun steps, and exact draws. One JSON line per workload;
//! the peers' scripts and the comparison are in `benches/peers/`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use manifusion::manifold::{Manifold, Sphere};
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::prior::Uniform;
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};

const POINTS: usize = 512;

/// Median and minimum time of `work` in milliseconds, over rounds that are long enough for the
/// clock.
fn time(mut work: impl FnMut(u64)) -> (f64, f64) {
    let mut times: Vec<f64> = (0..400u64)
        .map(|round| {
            let start = Instant::now();
            work(round);
            start.elapsed().as_secs_f64() * 1e3
        })
        .skip(50)
        .collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Inside the pool, where training draws its noise too: a call from outside would be woken up for
/// at every draw.
fn main() -> Result<(), Failure> {
    rayon::ThreadPoolBuilder::new().num_threads(2).build()?.install(run)
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn run() -> Result<(), Failure> {
    let sphere: Arc<dyn Manifold> = Arc::new(Sphere::new(2)?);
    let prior = Arc::new(Uniform::new(Arc::clone(&sphere))?);
    let streams = Streams::new(0, "bench");
    let start: Vec<f64> = [0.6, 0.0, 0.8].repeat(POINTS);
    let mut end = vec![0.0; start.len()];
    // Log-uniform times in [1e-6, 6], the same for both ways of drawing.
    let times: Vec<f64> =
        (0..POINTS).map(|i| 1e-6 * 6e6f64.powf((i as f64 + 0.5) / POINTS as f64)).collect();
    let mut normals = vec![0.0; 300];
    let (median, min) = time(|round| {
        for row in 0..POINTS as u64 {
            streams.fill_normal(row, round, 0, &mut normals);
            black_box(&mut normals);
        }
    });
    println!(
        "{{\"work\":\"normals_512x300_one_thread\",\"median_ms\":{median:.4},\"min_ms\":{min:.4}}}"
    );
    let mut medians = Vec::new();
    for (work, choice, s) in [
        ("heun_s2_512x100", PathChoice::Heun { steps: 100 }, vec![1.0; POINTS]),
        ("heun_s2_512x100_log_uniform", PathChoice::Heun { steps: 100 }, times.clone()),
        ("exact_s2_512_log_uniform", PathChoice::Exact, times),
    ] {
        let path = NoisingPath::new(Arc::clone(&sphere), prior.clone(), choice)?;
        let mut failure = None;
        let (median, min) = time(|round| {
            let rows = (Rows::new(&start, 3), RowsMut::new(&mut end, 3));
            if let (Ok(y), Ok(ys)) = rows {
                failure = path.sample(y, &s, &streams.part(round), 0, ys).err();
            }
            black_box(&mut end);
        });
        if let Some(error) = failure {
            return Err(error.into());
        }
        println!("{{\"work\":\"{work}\",\"median_ms\":{median:.4},\"min_ms\":{min:.4}}}");
        medians.push(median);
    }
    println!("{{\"work\":\"ratio_heun_to_exact\",\"ratio\":{:.2}}}", medians[1] / medians[2]);
    Ok(())
}
