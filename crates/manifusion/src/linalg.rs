//! Small dense linear algebra on slices, without allocation for the sizes manifolds have.
//!
//! Matrices are row-major. Hand-written because sizes are known only at run time and nothing may be
//! allocated inside a solver's step; the tests compare with nalgebra.

use smallvec::SmallVec;

/// Scratch that stays on the stack up to 64 numbers (an 8 × 8 matrix).
pub(crate) type Scratch = SmallVec<[f64; 64]>;

/// `n` zeros.
pub(crate) fn scratch(n: usize) -> Scratch {
    smallvec::smallvec![0.0; n]
}

/// ⟨u, v⟩.
#[inline]
pub fn dot(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(a, b)| a * b).sum()
}

/// |u|.
#[inline]
pub fn norm(u: &[f64]) -> f64 {
    dot(u, u).sqrt()
}

/// `y ← y + a·x`.
#[inline]
pub fn axpy(a: f64, x: &[f64], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// `x ← a·x`.
#[inline]
pub fn scale(a: f64, x: &mut [f64]) {
    for x in x {
        *x *= a;
    }
}

/// |u − v|.
pub fn distance(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// Orthonormalises the rows of `e` (k rows of `width`) in place by Gram–Schmidt applied twice, the
/// numerically stable form of thin QR. Returns the smallest ratio of a row's norm after and before
/// its projection: near zero means that the rows were dependent.
pub(crate) fn orthonormalise_rows(e: &mut [f64], width: usize) -> f64 {
    let mut independence = f64::INFINITY;
    for j in 0..e.len() / width {
        let (done, rest) = e.split_at_mut(j * width);
        let row = &mut rest[..width];
        let before = norm(row);
        for _ in 0..2 {
            for q in done.chunks_exact(width) {
                axpy(-dot(q, row), q, row);
            }
        }
        let after = norm(row);
        independence = independence.min(after / before);
        scale(1.0 / after, row);
    }
    independence
}

/// Cholesky factor L of a symmetric positive definite `a` (n × n), in the lower triangle. False if
/// `a` is not positive definite to working precision.
pub fn cholesky(a: &mut [f64], n: usize) -> bool {
    for j in 0..n {
        let mut pivot = a[j * n + j];
        let scale = pivot;
        for k in 0..j {
            pivot -= a[j * n + k] * a[j * n + k];
        }
        // Negated so that NaN is refused as well.
        if !(pivot > 1e-14 * scale.abs()) {
            return false;
        }
        let pivot = pivot.sqrt();
        a[j * n + j] = pivot;
        for i in j + 1..n {
            let mut value = a[i * n + j];
            for k in 0..j {
                value -= a[i * n + k] * a[j * n + k];
            }
            a[i * n + j] = value / pivot;
        }
    }
    true
}

/// `b ← L⁻¹ b`.
pub fn solve_lower(l: &[f64], n: usize, b: &mut [f64]) {
    for i in 0..n {
        for k in 0..i {
            b[i] -= l[i * n + k] * b[k];
        }
        b[i] /= l[i * n + i];
    }
}

/// `b ← L⁻ᵀ b`.
pub fn solve_lower_transposed(l: &[f64], n: usize, b: &mut [f64]) {
    for i in (0..n).rev() {
        for k in i + 1..n {
            b[i] -= l[k * n + i] * b[k];
        }
        b[i] /= l[i * n + i];
    }
}

/// `out ← aᵀ b` for `a` (n × k) and `b` (n × l).
pub(crate) fn transpose_times(a: &[f64], b: &[f64], n: usize, k: usize, l: usize, out: &mut [f64]) {
    out.fill(0.0);
    for r in 0..n {
        for i in 0..k {
            axpy(a[r * k + i], &b[r * l..(r + 1) * l], &mut out[i * l..(i + 1) * l]);
        }
    }
}

/// `out ← a b` for `a` (n × k) and `b` (k × l).
pub(crate) fn times(a: &[f64], b: &[f64], k: usize, l: usize, out: &mut [f64]) {
    for (row, out) in a.chunks_exact(k).zip(out.chunks_exact_mut(l)) {
        out.fill(0.0);
        for (i, &value) in row.iter().enumerate() {
            axpy(value, &b[i * l..(i + 1) * l], out);
        }
    }
}

/// Determinant by elimination with partial pivoting.
pub fn determinant(a: &[f64], n: usize) -> f64 {
    let mut a = Scratch::from_slice(a);
    let mut det = 1.0;
    for j in 0..n {
        let pivot_row =
            (j..n).max_by(|&p, &q| a[p * n + j].abs().total_cmp(&a[q * n + j].abs())).unwrap_or(j);
        if pivot_row != j {
            for k in 0..n {
                a.swap(j * n + k, pivot_row * n + k);
            }
            det = -det;
        }
        let pivot = a[j * n + j];
        det *= pivot;
        if pivot == 0.0 {
            return 0.0;
        }
        for i in j + 1..n {
            let factor = a[i * n + j] / pivot;
            for k in j..n {
                a[i * n + k] -= factor * a[j * n + k];
            }
        }
    }
    det
}

/// `b ← A⁻¹ b` by elimination with partial pivoting, which overwrites A; false if A is singular.
pub fn solve(a: &mut [f64], n: usize, b: &mut [f64]) -> bool {
    for j in 0..n {
        let pivot_row =
            (j..n).max_by(|&p, &q| a[p * n + j].abs().total_cmp(&a[q * n + j].abs())).unwrap_or(j);
        for k in 0..n {
            a.swap(j * n + k, pivot_row * n + k);
        }
        b.swap(j, pivot_row);
        let pivot = a[j * n + j];
        if !(pivot.abs() > 1e-300) {
            return false;
        }
        for i in j + 1..n {
            let factor = a[i * n + j] / pivot;
            for k in j..n {
                a[i * n + k] -= factor * a[j * n + k];
            }
            b[i] -= factor * b[j];
        }
    }
    for i in (0..n).rev() {
        for k in i + 1..n {
            b[i] -= a[i * n + k] * b[k];
        }
        b[i] /= a[i * n + i];
    }
    true
}

/// Sign of det that a polar factor is asked to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Determinant {
    /// Whatever the matrix has.
    Any,
    /// +1: the nearest rotation, found by turning the direction of the smallest singular value.
    Positive,
}

/// Replaces `x` (n × k, n ≥ k) by its polar factor U Vᵀ, the closest matrix with orthonormal
/// columns. Returns the smallest singular value relative to the largest; near zero the factor is
/// not determined.
///
/// Close to the manifold (every solver step) Newton–Schulz converges quadratically from below;
/// elsewhere one-sided Jacobi gives the singular value decomposition.
pub fn polar(x: &mut [f64], n: usize, k: usize, sign: Determinant) -> f64 {
    let mut gram = scratch(k * k);
    let near = sign == Determinant::Any || determinant(x, n) > 0.0;
    if near && let Some(ratio) = newton_schulz(x, n, k, &mut gram) {
        return ratio;
    }
    jacobi_polar(x, n, k, sign)
}

/// X ← X(3I − XᵀX)/2 until XᵀX = I; `None` when it starts too far away for fast convergence.
fn newton_schulz(x: &mut [f64], n: usize, k: usize, gram: &mut [f64]) -> Option<f64> {
    let mut next = scratch(n * k);
    let mut first = None;
    for _ in 0..8 {
        transpose_times(x, x, n, k, k, gram);
        let mut defect = 0.0f64;
        for i in 0..k {
            for j in 0..k {
                let target = if i == j { 1.0 } else { 0.0 };
                defect = defect.max((gram[i * k + j] - target).abs());
                gram[i * k + j] = -0.5 * gram[i * k + j] + 1.5 * target;
            }
        }
        // Gershgorin: the singular values lie within k·defect of one.
        let spread = k as f64 * defect;
        if !(spread < 0.25) {
            return None;
        }
        first = first.or(Some(((1.0 - spread) / (1.0 + spread)).sqrt()));
        if defect < 4e-16 {
            return first;
        }
        times(x, gram, k, k, &mut next);
        x.copy_from_slice(&next);
        if defect < 1e-8 {
            return first;
        }
    }
    None
}

fn jacobi_polar(x: &mut [f64], n: usize, k: usize, sign: Determinant) -> f64 {
    // Entries of size one, so that squares neither overflow nor vanish.
    let size = x.iter().fold(0.0f64, |size, x| size.max(x.abs()));
    scale(1.0 / size, x);
    let mut v = scratch(k * k);
    for i in 0..k {
        v[i * k + i] = 1.0;
    }
    // Rotates pairs of columns of X V until they are orthogonal.
    for _sweep in 0..60 {
        let mut off = 0.0f64;
        for p in 0..k {
            for q in p + 1..k {
                let (mut pp, mut qq, mut pq) = (0.0, 0.0, 0.0);
                for r in 0..n {
                    let (a, b) = (x[r * k + p], x[r * k + q]);
                    pp += a * a;
                    qq += b * b;
                    pq += a * b;
                }
                if pq.abs() <= 1e-300 || pq.abs() <= 1e-16 * (pp * qq).sqrt() {
                    continue;
                }
                off = off.max(pq.abs() / (pp * qq).sqrt());
                let tau = (qq - pp) / (2.0 * pq);
                let t = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                rotate_columns(x, k, p, q, c, c * t);
                rotate_columns(&mut v, k, p, q, c, c * t);
            }
        }
        if off < 1e-15 {
            break;
        }
    }
    let mut sigma = scratch(k);
    for (j, sigma) in sigma.iter_mut().enumerate() {
        *sigma = (0..n).map(|r| x[r * k + j] * x[r * k + j]).sum::<f64>().sqrt();
    }
    let largest = sigma.iter().copied().fold(0.0, f64::max);
    let (smallest_at, smallest) = sigma
        .iter()
        .copied()
        .enumerate()
        .fold((0, f64::INFINITY), |best, now| if now.1 < best.1 { now } else { best });
    for r in 0..n {
        for j in 0..k {
            x[r * k + j] /= sigma[j];
        }
    }
    if sign == Determinant::Positive && determinant(x, n) * determinant(&v, k) < 0.0 {
        for r in 0..n {
            x[r * k + smallest_at] = -x[r * k + smallest_at];
        }
    }
    let u = Scratch::from_slice(x);
    for (u_row, out) in u.chunks_exact(k).zip(x.chunks_exact_mut(k)) {
        for (j, out) in out.iter_mut().enumerate() {
            *out = dot(u_row, &v[j * k..(j + 1) * k]);
        }
    }
    smallest / largest
}

/// Turns columns p and q by the angle with this cosine and sine.
pub fn rotate_columns(x: &mut [f64], width: usize, p: usize, q: usize, c: f64, s: f64) {
    for row in x.chunks_exact_mut(width) {
        let (a, b) = (row[p], row[q]);
        row[p] = c * a - s * b;
        row[q] = s * a + c * b;
    }
}

fn rotate_rows(x: &mut [f64], width: usize, p: usize, q: usize, c: f64, s: f64) {
    for k in 0..width {
        let (a, b) = (x[p * width + k], x[q * width + k]);
        x[p * width + k] = c * a - s * b;
        x[q * width + k] = s * a + c * b;
    }
}

/// `axes ←` orthonormal eigenvectors in rows and `values ←` the eigenvalues of the symmetric n × n
/// matrix `a`, which is overwritten; by Jacobi's rotations, in no order.
pub fn symmetric_eigen(a: &mut [f64], n: usize, axes: &mut [f64], values: &mut [f64]) {
    axes.fill(0.0);
    for i in 0..n {
        axes[i * (n + 1)] = 1.0;
    }
    // Convergence is quadratic: a handful of sweeps, and the rest for what is not finite.
    for _ in 0..30 {
        let (mut diagonal, mut off) = (0.0, 0.0);
        for (at, entry) in a.iter().enumerate() {
            *if at % (n + 1) == 0 { &mut diagonal } else { &mut off } += entry * entry;
        }
        if !(off > 1e-30 * diagonal) {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let apq = a[p * n + q];
                if apq == 0.0 {
                    continue;
                }
                let theta = 0.5 * (a[q * (n + 1)] - a[p * (n + 1)]) / apq;
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                rotate_columns(a, n, p, q, c, s);
                rotate_rows(a, n, p, q, c, s);
                rotate_rows(axes, n, p, q, c, s);
            }
        }
    }
    for (i, value) in values.iter_mut().enumerate() {
        *value = a[i * (n + 1)];
    }
}

/// The matrix of a unit quaternion (w, x, y, z), row by row.
pub fn rotation_matrix([w, a, b, c]: [f64; 4]) -> [f64; 9] {
    [
        1.0 - 2.0 * (b * b + c * c),
        2.0 * (a * b - w * c),
        2.0 * (a * c + w * b),
        2.0 * (a * b + w * c),
        1.0 - 2.0 * (a * a + c * c),
        2.0 * (b * c - w * a),
        2.0 * (a * c - w * b),
        2.0 * (b * c + w * a),
        1.0 - 2.0 * (a * a + b * b),
    ]
}

/// The unit quaternion (w, x, y, z) of a rotation matrix whose largest component is positive: 4qqᵀ
/// has sums of the matrix's entries, and its row with the largest diagonal is read, so that no
/// small number is divided by.
pub fn unit_quaternion(r: &[f64]) -> [f64; 4] {
    let (a, b, c) = (r[0], r[4], r[8]);
    let squares = [1.0 + a + b + c, 1.0 + a - b - c, 1.0 - a + b - c, 1.0 - a - b + c];
    let rows = [
        [squares[0], r[7] - r[5], r[2] - r[6], r[3] - r[1]],
        [r[7] - r[5], squares[1], r[1] + r[3], r[2] + r[6]],
        [r[2] - r[6], r[1] + r[3], squares[2], r[5] + r[7]],
        [r[3] - r[1], r[2] + r[6], r[5] + r[7], squares[3]],
    ];
    let largest = (0..4).fold(0, |best, i| if squares[i] > squares[best] { i } else { best });
    let length = norm(&rows[largest]);
    rows[largest].map(|v| v / length)
}

/// log Σ exp xᵢ, without overflow.
pub fn log_sum_exp(x: &[f64]) -> f64 {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest.is_infinite() {
        return largest;
    }
    largest + x.iter().map(|v| (v - largest).exp()).sum::<f64>().ln()
}

/// exp for arguments up to 700, to 2e-15; 0 below −700. Vectorised, unlike the library's.
#[inline(always)]
pub(crate) fn exp_lanes<const L: usize>(x: &[f64; L]) -> [f64; L] {
    /// 1/n!, highest first.
    const TAYLOR: [f64; 13] = [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    // 1.5·2⁵²: adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let mut out = [0.0; L];
    for l in 0..L {
        let clamped = if x[l] > -700.0 { x[l] } else { -700.0 };
        let shifted = clamped * std::f64::consts::LOG2_E + ROUND;
        let k = shifted - ROUND;
        // ln 2 in two parts, the first with 32 bits, so that k times it is exact.
        let r = (clamped - k * 0.693_147_180_369_123_8) - k * 1.908_214_929_270_587_7e-10;
        let mut sum = TAYLOR[0];
        for c in &TAYLOR[1..] {
            sum = sum * r + c;
        }
        let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
        out[l] = if x[l] > -700.0 { sum * power } else { 0.0 };
    }
    out
}
