"""Wrapped normal on the circle (heat kernel with generator half the Laplacian, variance s): log density and slope.

Density with respect to arc length on a circle of radius 1. Computed by images and by Fourier series, which must agree to
25 digits in every row. The angle is a signed difference in (-pi, pi].

Run: reference/.venv/bin/python reference/wrapped_normal.py      (about 1 minute)
Ran with Python 3.11.7, mpmath 1.3.0, gmpy2 2.3.2.
"""

import math
import sys

import mpmath
from mpmath import mp, mpf

from common import meta, write
from heat_kernel_sphere import TIMES, series, to_mp

SCALES = [0.0, 0.01, -0.3, 1, -2, 3, 4, -5.3, 7, 10, 15]
FIXED = [0.5, -1.0, 2.0, -3.0, math.pi - 0.1, math.pi - 1e-3, math.pi - 1e-9, -math.pi + 1e-9]


def images(s, x):
    """(log p, dlog p/dx) at the current precision."""
    s, x = mpf(s), mpf(x)
    reach = int(mpmath.sqrt(2 * s * mp.dps * 2.4) / 6) + 2
    total, slope = mpf(0), mpf(0)
    for k in range(-reach, reach + 1):
        a = x + 2 * mp.pi * k
        g = mpmath.exp(-(a * a - x * x) / (2 * s))
        total += g
        slope -= a / s * g
    return mpmath.log(total) - x * x / (2 * s) - mpmath.log(2 * mp.pi * s) / 2, slope / total


def main():
    rows, worst_log, worst_slope = [], mpf(0), mpf(0)
    for s in TIMES:
        xs = [c * math.sqrt(s) for c in SCALES if abs(c) * math.sqrt(s) < math.pi - 1e-3]
        if s >= 0.01:
            xs += FIXED
        for x in xs:
            lost = x * x / (2 * s) / 2.3
            mp.dps = int(120 + lost)
            log_p, slope = images(s, x)
            if x != 0:
                k, dk, _ = series(1, s, abs(x), int(110 + lost + 2 * s))
                k, dk = to_mp(k), math.copysign(1, x) * to_mp(dk)
                worst_log = max(worst_log, abs(mpmath.log(k / (2 * mp.pi)) - log_p))
                worst_slope = max(worst_slope, abs(dk / k - slope) / abs(slope))
            rows.append({"s": s, "x": x, "log_p": log_p, "dlog_p": slope})
    print("Fourier: log_p", mpmath.nstr(worst_log, 3), "dlog_p", mpmath.nstr(worst_slope, 3))
    if max(worst_log, worst_slope) > 1e-25:
        sys.exit("check failed")
    info = meta(
        "wrapped_normal.py", "120 digits or more, images and Fourier agree to 25", ("mpmath", "gmpy2"),
        quantity="log density of a wrapped normal of variance s at angle difference x w.r.t. arc length; dlog_p = d log p/dx",
        checks={"Fourier: log_p": mpmath.nstr(worst_log, 3), "Fourier: dlog_p": mpmath.nstr(worst_slope, 3)},
    )
    write("wrapped_normal.json", info, rows=rows)


if __name__ == "__main__":
    main()
