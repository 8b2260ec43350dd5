//! Transition kernels and scores against reference values in high precision, finite differences and quadrature.

mod common;

use common::{golden, number, rows};
use manifusion::kernel::{
    RadialKernel, SphereKernel, TransitionKernel, rotation_kernel, wrapped_normal,
};

fn relative(found: f64, expected: f64) -> f64 {
    (found - expected).abs() / expected.abs().max(1e-300)
}

/// Angles up to 5.3√s, where all but 1e-6 of the samples in low dimension fall.
const REACH: f64 = 5.3;

#[test]
fn probe_errors() {
    let file = golden("heat_kernel_sphere");
    let mut kernels: std::collections::BTreeMap<u64, SphereKernel> = Default::default();
    for row in rows(&file, "rows") {
        let d = row["d"].as_u64().unwrap();
        let kernel = kernels.entry(d).or_insert_with(|| SphereKernel::new(d as usize));
        let (s, phi) = (number(&row, "s"), number(&row, "phi"));
        let RadialKernel { log_density, slope, error } = kernel.eval(s, phi);
        let (e1, e2) =
            ((log_density - number(&row, "log_k")).abs(), relative(slope, number(&row, "dlog_k")));
        println!(
            "d={d} s={s:.0e} phi={phi:.4} c={:.2} err_log={e1:.1e} err_slope={e2:.1e} est={error:.1e} {} {}",
            phi / s.sqrt(),
            if e2 > 1e-6 && phi <= REACH * s.sqrt() { "BAD" } else { "" },
            if error < 1e-6 && e2 > 1e-6 { "UNDERESTIMATED" } else { "" }
        );
    }
    for row in rows(&golden("heat_kernel_so3"), "rows") {
        let (s, w) = (number(&row, "s"), number(&row, "omega"));
        let k = rotation_kernel(s, w);
        println!(
            "so3 s={s:.0e} w={w:.4} log {:.1e} slope {:.1e}",
            (k.log_density - number(&row, "log_k")).abs(),
            relative(k.slope, number(&row, "dlog_k"))
        );
    }
    for row in rows(&golden("wrapped_normal"), "rows") {
        let (s, w) = (number(&row, "s"), number(&row, "x"));
        let k = wrapped_normal(s, w);
        println!(
            "s1 s={s:.0e} x={w:.4} log {:.1e} slope {:.1e}",
            (k.log_density - number(&row, "log_p")).abs(),
            relative(k.slope, number(&row, "dlog_p"))
        );
    }
    let _ = TransitionKernel::new;
}
