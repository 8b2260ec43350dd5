//! Test NLL of the kernel mixture on random 80/10/10 splits of a CSV file, mean over seeds 0, 1, ….
//!
//! `kernel_mixture FILE latlon|angles|quaternion [dedup] [seeds=3]`: columns are latitude
//! and longitude in degrees (S²), any number of angles in degrees (torus), or a unit quaternion
//! (SO(3)).

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use manifusion::density::Density;
use manifusion::manifold::{Manifold, parse};
use manifusion::mixture::{KernelMixture, MixtureOptions};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::Rows;

type Points = (Arc<dyn Manifold>, Vec<Vec<f64>>);

fn read(file: &str, form: &str) -> Result<Points, Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    let mut points = Vec::new();
    let mut spec = String::new();
    for line in text.lines().skip(1) {
        let values = line.split(',').map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
        points.push(match (form, &values[..]) {
            ("latlon", &[lat, lon]) => {
                spec = "sphere:2".into();
                let ((sin, cos), (east, north)) =
                    (lat.to_radians().sin_cos(), lon.to_radians().sin_cos());
                vec![cos * north, cos * east, sin]
            }
            ("angles", angles) => {
                spec = format!("torus:{}", angles.len());
                angles.iter().flat_map(|a| [a.to_radians().cos(), a.to_radians().sin()]).collect()
            }
            ("quaternion", &[w, x, y, z]) => {
                spec = "so:3".into();
                let n = w * w + x * x + y * y + z * z;
                [
                    [w * w + x * x - y * y - z * z, 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
                    [2.0 * (x * y + w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z - w * x)],
                    [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), w * w - x * x - y * y + z * z],
                ]
                .concat()
                .iter()
                .map(|v| v / n)
                .collect()
            }
            _ => return Err(format!("'{line}' is not of the form {form}").into()),
        });
    }
    Ok((parse(&spec)?, points))
}

/// A permutation of 0 … n − 1.
fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let streams = Streams::new(seed, "split");
    let mut keyed: Vec<(f64, usize)> =
        (0..n).map(|i| (streams.stream(i as u64, 0).uniform(), i)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.into_iter().map(|(_, i)| i).collect()
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, form, options @ ..] = &arguments[..] else {
        return Err("usage: kernel_mixture FILE latlon|angles|quaternion [dedup] [seeds=3]".into());
    };
    let has = |name: &str| options.iter().any(|o| o == name);
    let (manifold, mut points) = read(file, form)?;
    if has("dedup") {
        let mut seen = HashSet::new();
        points.retain(|x| seen.insert(x.iter().map(|v| v.to_bits()).collect::<Vec<_>>()));
    }
    let m = manifold.ambient_dim();
    let prior = default_prior(&manifold)?;
    let mut nlls = Vec::new();
    let seeds = options.iter().find_map(|o| o.strip_prefix("seeds="));
    let seeds: u64 = seeds.unwrap_or("3").parse()?;
    for seed in 0..seeds {
        let order = shuffled(points.len(), seed);
        let (train_end, test_start) = (points.len() * 8 / 10, points.len() * 9 / 10);
        let gather =
            |rows: &[usize]| rows.iter().flat_map(|i| points[*i].clone()).collect::<Vec<_>>();
        let (train, test) = (gather(&order[..train_end]), gather(&order[test_start..]));
        let start = Instant::now();
        let mixture = KernelMixture::fit(
            Arc::clone(&manifold),
            Arc::clone(&prior),
            Rows::new(&train, m)?,
            &MixtureOptions::default(),
        )?;
        let fit_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let log_p = mixture.log_density(Rows::new(&test, m)?)?;
        let score_seconds = start.elapsed().as_secs_f64();
        let negative: Vec<f64> = log_p.iter().map(|l| -l).collect();
        let (nll, se) = mean_and_error(&negative);
        nlls.push(nll);
        println!(
            "seed {seed}: test NLL {nll:.4} ± {se:.4}, leave-one-out {:.4}, {} of 0.8·{} points, {} EM steps, fit {fit_seconds:.2} s, \
             score {} points {score_seconds:.2} s",
            mixture.leave_one_out_nll(),
            train_end,
            points.len(),
            mixture.objective_trace().len(),
            log_p.len(),
        );
        let scales: Vec<String> = mixture
            .bandwidths()
            .iter()
            .zip(mixture.weights())
            .map(|(b, w)| format!("{b:.2e}:{w:.4}"))
            .collect();
        println!("  prior {:.2e}, bandwidth:weight {}", mixture.prior_weight(), scales.join(" "));
    }
    let (mean, se) = mean_and_error(&nlls);
    println!("mean of seeds: {mean:.4}, standard error {se:.4}");
    Ok(())
}
