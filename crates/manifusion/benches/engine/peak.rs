//! The machine's own limits.

use pulp::{Simd, WithSimd};
use std::hint::black_box;
use std::time::Instant;

struct FmaLoop {
    count: usize,
}

impl WithSimd for FmaLoop {
    type Output = f32;

    /// Twelve independent chains of multiply-adds: enough to fill two units of latency 4 or 5.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (x, y) = (simd.splat_f32s(black_box(0.999)), simd.splat_f32s(black_box(1e-3)));
        let mut sums = [simd.splat_f32s(1.0); 12];
        for _ in 0..self.count {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f32s(*sum, x, y);
            }
        }
        sums.into_iter().map(|sum| simd.reduce_sum_f32s(sum)).sum()
    }
}

struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> usize {
        S::F32_LANES
    }
}

/// GFLOP/s of all threads of the pool at once: the sum of each thread's best short loop.
pub(crate) fn gflops_of_pool() -> f64 {
    rayon::broadcast(|_| gflops_of_thread()).into_iter().sum()
}

fn gflops_of_thread() -> f64 {
    let arch = pulp::Arch::new();
    let count = 200_000;
    let flop = (count * 12 * 2 * arch.dispatch(Lanes)) as f64;
    (0..150)
        .map(|_| {
            let start = Instant::now();
            black_box(arch.dispatch(FmaLoop { count: black_box(count) }));
            flop / start.elapsed().as_secs_f64() / 1e9
        })
        .fold(0.0, f64::max)
}

/// Largest resident memory of this process in MB, or NaN where the system does not tell.
pub(crate) fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1e3
}

/// Seconds of processor time of all threads of this process, or NaN where the system does not tell:
/// what another program takes from a busy machine is not in it.
pub(crate) fn cpu_seconds() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = threads.map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<Option<f64>>().map_or(f64::NAN, |sum| sum / 1e9)
}
