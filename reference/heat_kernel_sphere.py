"""Heat kernel of the unit sphere S^d, generator half the Laplacian: log K_s(phi) and its derivative in phi.

Density with respect to Riemannian volume. Main way, every d and s: the Gegenbauer series (Fourier for d = 1)
    K = 1/vol(S^d) sum_n (2n+d-1)/(d-1) e^{-n(n+d-1)s/2} C_n^{((d-1)/2)}(cos phi),
summed in MPFR with as many digits as the cancellation eats plus 50 (asserted for each value). Checks, all in this script:
  d odd   the image sum of the circle, differentiated: K^{d+2} = e^{ds/2}/(2 pi) dK^d/d(cos phi), by Taylor jets
  d = 2   the integral over half-integer images (Abel transform), by quadrature, on a few points
  all d   the positive Beta mixture over the ancestral process where s >= 0.1; total mass 1; finite differences for the derivative

Run: reference/.venv/bin/python reference/heat_kernel_sphere.py      (about 6 minutes on one core)
Ran with Python 3.11.7, mpmath 1.3.0, gmpy2 2.3.2, numpy 2.4.6.
"""

import math
import sys

import gmpy2
import mpmath
from gmpy2 import mpfr
from mpmath import mp, mpf

from common import close, meta, write

DIMS = [1, 2, 3, 4, 7, 10, 20, 50, 100]
TIMES = [1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0]
SCALES = [0.01, 0.3, 1, 2, 3, 4, 5.3, 7, 10, 15]
NEAR_CUT = [math.pi - 0.5, math.pi - 0.1, math.pi - 0.01]
GUARD = 50  # correct digits asked of every sum


def to_mp(x):
    """mpfr to mpf, exactly."""
    man, exp = x.as_mantissa_exp()
    return mpf(int(man)) * mpf(2) ** int(exp)


def to_mpfr(x):
    """float or mpf to mpfr at the current precision."""
    if isinstance(x, mpf):
        man, exp = x.man_exp
        return mpfr(int(man)) * mpfr(2) ** int(exp)
    return mpfr(x)


def log_volume(d):
    return mpmath.log(2) + mpf(d + 1) / 2 * mpmath.log(mp.pi) - mpmath.loggamma(mpf(d + 1) / 2)


def series(d, s, phi, digits):
    """(vol K, vol dK/dphi, digits lost) by the Gegenbauer series in MPFR."""
    ctx = gmpy2.get_context()
    ctx.precision = int(digits * 3.33) + 10
    ctx.emin, ctx.emax = gmpy2.get_emin_min(), gmpy2.get_emax_max()
    s, phi = mpfr(s), to_mpfr(phi)
    x, sine = gmpy2.cos(phi), gmpy2.sin(phi)
    step = gmpy2.exp(-s)  # e^{-n(n+d-1)s/2} by two multiplications a term
    ratio = gmpy2.exp(-s * d / 2)
    e = mpfr(1)
    total, deriv, size, dsize = mpfr(1), mpfr(0), mpfr(1), mpfr(0)
    small = mpfr(10) ** (-digits)
    two_x = 2 * x
    if d == 1:
        # 1 + 2 sum e^{-n^2 s/2} cos(n phi): Chebyshev T_n and U_{n-1}; d cos(n phi) = -n sin(phi) U_{n-1}
        t0, t1, u0, u1 = mpfr(1), x, mpfr(0), mpfr(1)
        n = 0
        while True:
            n += 1
            e *= ratio
            ratio *= step
            total += 2 * e * t1
            deriv -= 2 * n * e * u1
            size += 2 * e
            dsize += 2 * e * n * n
            if n > 3 and e * n * n < small * min(1, abs(deriv) + small):
                break
            t0, t1 = t1, two_x * t1 - t0
            u0, u1 = u1, two_x * u1 - u0
    else:
        # c: C_n^{lam}, g: C_{n-1}^{lam+1}; both by n C_n^a = 2(n+a-1) x C_{n-1}^a - (n+2a-2) C_{n-2}^a, a = lam, 2 lam = d-1
        # bound: C_n^{lam}(1), positive, only for the stopping rule and the count of lost digits
        c0, c1 = mpfr(1), (d - 1) * x
        g0, g1 = mpfr(0), mpfr(1)
        bound = mpfr(d - 1)
        n = 0
        while True:
            n += 1
            e *= ratio
            ratio *= step
            w = e * (2 * n + d - 1)
            total += w * c1 / (d - 1)
            deriv -= w * g1
            term = w * bound
            size += term / (d - 1)
            dsize += term * n * (n + d - 1) / d  # C_{n-1}^{lam+1}(1) = C_n^{lam}(1) n (n+d-1)/(d (d-1))
            if n > 3 and n * s > 1e-300 and term * n * n < small * min(size, abs(deriv) + small * size) and (
                (n + d) * s > 1 or term * n * n < small * small * size
            ):
                break
            c0, c1 = c1, ((2 * n + d - 1) * x * c1 - (n + d - 2) * c0) / (n + 1)
            # the same for a = lam + 1 (2a = d+1), index n from n-1
            g0, g1 = g1, ((2 * n + d - 1) * x * g1 - (n + d - 1) * g0) / n
            bound = bound * (n + d - 1) / (n + 1)
    lost = gmpy2.log10(size / abs(total))
    if deriv != 0:
        lost = max(lost, gmpy2.log10(dsize / abs(deriv)))
    return total, deriv * sine, float(lost) + 2 * math.log10(n + 10)


def reference(d, s, phi):
    """log K and dlog K/dphi as mpf, and the digits left."""
    digits = 90 + int(phi * phi / (2 * s) / 2.3) if s < 1 else 120
    while True:
        k, dk, lost = series(d, s, phi, digits)
        if k > 0 and digits - lost >= GUARD:
            break
        digits = max(digits + 20, int(lost) + GUARD + 30)
    return mpmath.log(to_mp(k)) - log_volume(d), to_mp(dk) / to_mp(k), digits - lost


def jet_kernel(d, s, phi):
    """The same for odd d from images: k = (d-1)/2 derivatives in cos(phi) of the circle's image sum, one more for the slope."""
    k = (d - 1) // 2
    order = k + 1
    s, phi = mpf(s), mpf(phi)
    # Taylor coefficients of theta(phi+h) = sum_j (2 pi s)^{-1/2} exp(-(phi+h+2 pi j)^2/(2s))
    theta = [mpf(0)] * (order + 1)
    reach = int(mpmath.sqrt(2 * s * mp.dps * 2.4) / 6) + 2
    for j in range(-reach, reach + 1):
        a = phi + 2 * mp.pi * j
        # exp(-(a h + h^2/2)/s) by its recurrence n c_n = -(a c_{n-1} + c_{n-2})/s
        c = [mpmath.exp(-a * a / (2 * s)) / mpmath.sqrt(2 * mp.pi * s)]
        for n in range(1, order + 1):
            c.append(-(a * c[n - 1] + (c[n - 2] if n > 1 else 0)) / s / n)
        theta = [p + q for p, q in zip(theta, c)]
    sin_jet = [mpmath.sin(phi + n * mp.pi / 2) / mpmath.factorial(n) for n in range(order + 1)]
    dim = 1
    for _ in range(k):
        diff = [(n + 1) * theta[n + 1] for n in range(len(theta) - 1)]
        out = []
        for n in range(len(diff)):  # division of series: diff = -sin * out
            out.append((-diff[n] - sum(sin_jet[i] * out[n - i] for i in range(1, n + 1))) / sin_jet[0])
        factor = mpmath.exp(dim * s / 2) / (2 * mp.pi)
        theta = [factor * v for v in out]
        dim += 2
    return mpmath.log(theta[0]), theta[1] / theta[0]


def abel_kernel_s2(s, phi):
    """S^2 from half-integer images: sqrt2 e^{s/8}/(2 pi s)^{3/2} int_phi^pi sum_k (-1)^k (psi+2 pi k) e^{-(psi+2 pi k)^2/2s} / sqrt(cos phi - cos psi)."""
    s, phi = mpf(s), mpf(phi)

    def integrand(v):  # psi = phi + v^2 takes the square root away
        psi = phi + v * v
        if v == 0:
            root = mpmath.sqrt(mpmath.sin(phi))
        else:
            root = mpmath.sqrt(2 * mpmath.sin(phi + v * v / 2) * mpmath.sin(v * v / 2)) / v
        images = mpf(0)
        for k in range(-3, 4):
            a = psi + 2 * mp.pi * k
            images += (-1) ** k * a * mpmath.exp((phi * phi - a * a) / (2 * s))
        return 2 * images / root

    top = mpmath.sqrt(mp.pi - phi)
    width = min(top, mpmath.sqrt(mpmath.sqrt(s)))
    cuts = [mpf(0)] + [width * f for f in (mpf("0.25"), mpf("0.5"), 1, 2, 4) if width * f < top] + [top]
    value = mpmath.quad(integrand, cuts)
    return mpmath.log(mpmath.sqrt(2) * value) - phi * phi / (2 * s) + s / 8 - mpf(3) / 2 * mpmath.log(2 * mp.pi * s)


def ancestral_pmf(theta, s, tiny):
    """P(M = m), m = 0, 1, ..., by the alternating series at the current precision, until the rest is below tiny."""
    pmf, m, mass = [], 0, mpf(0)
    s = mpf(s)
    while mass < 1 - tiny or m < 2:
        total, k, sign = mpf(0), m, 1
        # b_k(m) for k = m, then by the ratio of neighbours
        if m == 0:
            total, k, sign = mpf(1), 1, -1
        b = (
            mpf(theta + 2 * k - 1)
            / (mpmath.factorial(m) * mpmath.factorial(k - m))
            * mpmath.gammaprod([theta + m + k - 1], [theta + m])
            * mpmath.exp(-k * (k + mpf(theta) - 1) * s / 2)
        )
        biggest = mpf(0)
        while True:
            total += sign * b
            biggest = max(biggest, b)
            if b < biggest * mpf(10) ** (-mp.dps) or b < mpf(10) ** (-mp.dps):
                break
            b *= mpf(theta + 2 * k + 1) / (theta + 2 * k - 1) * (theta + m + k - 1) / (k + 1 - m) * mpmath.exp(-(2 * k + theta) * s / 2)
            k += 1
            sign = -sign
        pmf.append(total)
        mass += total
        m += 1
    return pmf


def beta_mixture(d, s, phi, pmf):
    """log K as a mixture: sum_m P(m) (1-u)^m B(d/2,d/2)/B(d/2,d/2+m) / vol."""
    cos2 = mpmath.cos(mpf(phi) / 2) ** 2
    weight, total, half = mpf(1), mpf(0), mpf(d) / 2
    for m, p in enumerate(pmf):
        total += p * weight
        weight *= cos2 * (d + m) / (half + m)
    return mpmath.log(total) - log_volume(d)


def main():
    mp.dps = 60
    rows, left = [], 1e9
    for d in DIMS:
        for s in TIMES:
            angles = [c * math.sqrt(s) for c in SCALES]
            angles = [a for a in angles if a < math.pi - 1e-3]
            if s >= 0.03:
                angles += NEAR_CUT
            for phi in angles:
                log_k, slope, ok = reference(d, s, phi)
                left = min(left, ok)
                rows.append({"d": d, "s": s, "phi": phi, "log_k": log_k, "dlog_k": slope})
        print(f"d={d}: rows {len(rows)}, digits left >= {left:.0f}", flush=True)

    checks = {}

    def note(name, err):
        n, worst = checks.get(name, (0, mpf(0)))
        checks[name] = (n + 1, max(worst, err))

    # odd d against images
    for r in rows:
        if r["d"] in (1, 3, 7):
            mp.dps = 150 + int(r["phi"] ** 2 / r["s"] / 2)
            log_k, slope = jet_kernel(r["d"], r["s"], r["phi"])
            mp.dps = 60
            note("images, odd d: log_k (absolute)", abs(log_k - r["log_k"]))
            if abs(slope) > 1e-40:
                note("images, odd d: dlog_k (relative)", close(slope, r["dlog_k"], 1e-30, f"slope {r['d']} {r['s']} {r['phi']}"))
    # S^2 against the Abel integral
    mp.dps = 40
    for r in rows:
        if r["d"] == 2 and r["s"] <= 1 and (r["phi"] / math.sqrt(r["s"]) in (1.0, 4.0) or r["phi"] > 3):
            err = abs(abel_kernel_s2(r["s"], r["phi"]) - r["log_k"])
            note("Abel integral, d=2: log_k (absolute)", err)
    # the Beta mixture, every d
    for d in DIMS:
        for s in (t for t in TIMES if 0.1 <= t <= 5):
            mp.dps = 250
            pmf = ancestral_pmf(d, s, mpf(10) ** -70)
            for r in rows:
                if r["d"] == d and r["s"] == s:
                    err = abs(beta_mixture(d, s, r["phi"], pmf) - r["log_k"])
                    # the mixture stops at mass 1 - 1e-70 of the peak, so far tails see less of it
                    if r["log_k"] + log_volume(d) > -60:
                        note("Beta mixture, s >= 0.1: log_k (absolute)", err)
    mp.dps = 60
    # slope by central differences of the series itself, every d, some points
    for r in rows:
        if r["d"] in (2, 4, 10, 20, 50, 100) and r["s"] >= 1e-4 and r["phi"] > 0.1 * math.sqrt(r["s"]) and r["s"] <= 2:
            h = mpf(2) ** -60 * mpmath.sqrt(r["s"])
            mp.dps = 90
            digits = 150 + int(r["phi"] ** 2 / r["s"])
            hi = series(r["d"], r["s"], mpf(r["phi"]) + h, digits)[0]
            lo = series(r["d"], r["s"], mpf(r["phi"]) - h, digits)[0]
            est = (mpmath.log(to_mp(hi)) - mpmath.log(to_mp(lo))) / (2 * h)
            mp.dps = 60
            note("finite differences: dlog_k (relative)", close(est, r["dlog_k"], 1e-20, f"fd {r['d']} {r['s']} {r['phi']}"))
    # total mass: vol(S^{d-1}) int K sin^{d-1} = 1, Gauss-Legendre over where the mass is
    mp.dps = 30
    for d in DIMS:
        for s in (1e-4, 0.01, 0.1, 1.0):
            top = min(math.pi, math.sqrt(s) * (math.sqrt(d) + 14))
            area = mpmath.exp(log_volume(d - 1)) if d > 1 else mpf(2)
            mass = mpmath.quad(
                lambda a: area * mpmath.sin(a) ** (d - 1) * mpmath.exp(reference(d, s, a)[0]), [0, top / 4, top / 2, mpf(top)], maxdegree=4
            )
            note("total mass - 1", abs(mass - 1))
    for name, (n, worst) in checks.items():
        print(f"{name}: {n} values, worst {mpmath.nstr(worst, 3)}")
        if worst > 1e-15:
            sys.exit(f"check failed: {name}")
    info = meta(
        "heat_kernel_sphere.py", f"at least {int(left)} correct digits in each sum", ("mpmath", "gmpy2"),
        quantity="log K_s(phi) on the unit S^d w.r.t. Riemannian volume, generator Laplacian/2; dlog_k = d log K/d phi",
        checks={k: f"{n} values, worst {mpmath.nstr(w, 3)}" for k, (n, w) in checks.items()},
    )
    write("heat_kernel_sphere.json", info, rows=rows)


if __name__ == "__main__":
    main()
