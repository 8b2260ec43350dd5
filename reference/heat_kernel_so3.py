"""Heat kernel of SO(3) with the Frobenius metric of R^{3x3}, generator half the Laplacian: log K_s(omega), slope in omega.

Density with respect to the Frobenius Riemannian volume (total 16 sqrt2 pi^2); omega is the rotation angle, whose geodesic
length is sqrt2 omega. IGSO(3) with eps^2 = s/2. Computed by characters
    f = sum_l (2l+1) e^{-l(l+1) eps^2/2} sin((l+1/2) omega)/sin(omega/2)
and by images
    f = sqrt(8 pi) eps^-3 e^{eps^2/8} sum_k (-1)^k (omega+2 pi k)/(2 sin(omega/2)) e^{-(omega+2 pi k)^2/(2 eps^2)},
K = f/(16 sqrt2 pi^2); the two must agree to 25 digits in every row. The S^3 kernel at time s/8, summed over +-q, is a third way.

Run: reference/.venv/bin/python reference/heat_kernel_so3.py      (about 3 minutes on one core)
Ran with Python 3.11.7, mpmath 1.3.0, gmpy2 2.3.2.
"""

import math
import sys

import gmpy2
import mpmath
from gmpy2 import mpfr
from mpmath import mp, mpf

from common import meta, write
from heat_kernel_sphere import TIMES, jet_kernel, to_mp

SCALES = [0.01, 0.3, 1, 2, 3, 4, 5.3, 7, 10, 15]
NEAR_CUT = [math.pi - 0.5, math.pi - 0.1, math.pi - 0.01, math.pi - 1e-6]


def characters(s, omega, digits):
    """(f, df/domega) by the spectral sum, in MPFR."""
    gmpy2.get_context().precision = int(digits * 3.33) + 10
    e2 = mpfr(s) / 2
    w = mpfr(omega)
    sh, ch = gmpy2.sin(w / 2), gmpy2.cos(w / 2)
    sw, cw = gmpy2.sin(w), gmpy2.cos(w)
    step, ratio, e = gmpy2.exp(-e2), gmpy2.exp(-e2), mpfr(1)
    sl, cl = sh, ch  # sin, cos of (l + 1/2) omega, by rotation
    total, slope, l, small = sh, ch / 2, 0, mpfr(10) ** (-digits)
    while True:
        l += 1
        e *= ratio
        ratio *= step
        sl, cl = sl * cw + cl * sw, cl * cw - sl * sw
        weight = (2 * l + 1) * e
        total += weight * sl
        slope += weight * (2 * l + 1) * cl / 2
        if weight * l < small:
            break
    f = total / sh
    return to_mp(f), to_mp(slope / sh - f * ch / (2 * sh))


def images(s, omega):
    """(log f, dlog f/domega) by images at the current precision."""
    e2, w = mpf(s) / 2, mpf(omega)
    reach = int(mpmath.sqrt(2 * e2 * mp.dps * 2.4) / 6) + 2
    total, slope = mpf(0), mpf(0)
    for k in sorted(range(-reach, reach + 1), key=abs):
        a = w + 2 * mp.pi * k
        g = (-1) ** k * mpmath.exp(-(a * a - w * w) / (2 * e2))  # e^{-w^2/2 eps^2} taken out
        total += a * g
        slope += (1 - a * a / e2) * g
    log_f = (
        mpmath.log(8 * mp.pi) / 2 - mpf(3) / 2 * mpmath.log(e2) + e2 / 8 - w * w / (2 * e2)
        + mpmath.log(total / (2 * mpmath.sin(w / 2)))
    )
    return log_f, slope / total - mpmath.cot(w / 2) / 2


def main():
    mp.dps = 60
    rows, worst = [], {"characters: log_k": mpf(0), "characters: dlog_k": mpf(0), "S^3 at s/8: log_k": mpf(0)}
    log_vol = mpmath.log(16 * mpmath.sqrt(2) * mp.pi**2)
    vol_s3 = 2 * mp.pi**2
    for s in TIMES:
        eps = math.sqrt(s / 2)
        angles = [c * eps for c in SCALES if c * eps < math.pi - 1e-3]
        if s >= 0.01:
            angles += NEAR_CUT
        for omega in angles:
            lost = omega * omega / s / 2.3 + 20
            mp.dps = int(120 + lost)
            log_f, slope = images(s, omega)
            f, df = characters(s, omega, int(90 + lost))
            worst["characters: log_k"] = max(worst["characters: log_k"], abs(mpmath.log(f) - log_f))
            worst["characters: dlog_k"] = max(worst["characters: dlog_k"], abs((df / f - slope) / slope))
            # S^3 at time s/8: both quaternions of the rotation, each relative to the uniform law of S^3, averaged
            near = mpmath.exp(jet_kernel(3, mpf(s) / 8, mpf(omega) / 2)[0])
            far = mpmath.exp(jet_kernel(3, mpf(s) / 8, mp.pi - mpf(omega) / 2)[0])
            both = mpmath.log((near + far) * vol_s3 / 2)
            worst["S^3 at s/8: log_k"] = max(worst["S^3 at s/8: log_k"], abs(both - log_f))
            mp.dps = 60
            rows.append({"s": s, "omega": omega, "log_k": log_f - log_vol, "dlog_k": slope})
    for name, err in worst.items():
        print(name, mpmath.nstr(err, 3))
        if err > 1e-25:
            sys.exit("check failed: " + name)
    # total mass: the Haar law of the angle is (1 - cos w)/pi
    for s in (0.01, 0.3, 3.0):
        mp.dps = 40
        top = min(mp.pi, 16 * mpmath.sqrt(mpf(s) / 2))
        mass = mpmath.quad(lambda w: mpmath.exp(images(s, w)[0]) * (1 - mpmath.cos(w)) / mp.pi, [0, top / 4, top / 2, top])
        print("mass", s, mpmath.nstr(mass, 25))
        assert abs(mass - 1) < 1e-20
    info = meta(
        "heat_kernel_so3.py", "60 digits or more, characters and images agree to 25", ("mpmath", "gmpy2"),
        quantity="log K_s(omega) on SO(3) w.r.t. the Frobenius volume (total 16 sqrt2 pi^2), generator Laplacian/2, eps^2 = s/2; "
        "dlog_k = d log K/d omega per radian of rotation angle (divide by sqrt2 for the slope per unit of Frobenius length)",
        checks={k: mpmath.nstr(v, 3) for k, v in worst.items()},
    )
    write("heat_kernel_so3.json", info, rows=rows)


if __name__ == "__main__":
    main()
