"""What the Stratonovich-Heun scheme itself gives on S^d: E<Y, Y+> for one step of size dt, against e^{-d dt/2} of the exact law.

By rotation invariance E<Y_0, Y_N> = (E<Y, Y+>)^N for the scheme, exactly, so a Monte Carlo test of an implementation can be held to
its own scheme's mean and not only to the exact one. With dB = t + n Y, tau = |t|^2 ~ dt chi^2_d and n ~ N(0, dt):
  Yh = Y + t, and P at Yh applied to dB is dB - q Yh, where q = (n+tau)/(1+tau) if P is taken at Yh/|Yh| ("normalised"), q = n+tau
  if the formula of the unit sphere is used at Yh as it is ("raw");
  Y+ is Y (1 + (n-q)/2) + t (1 - q/2), normalised.
Integrated by Gauss-Laguerre (tau) and Gauss-Hermite (n) at two orders.

Run: reference/.venv/bin/python reference/heun_sphere.py      (seconds)
Ran with Python 3.11.7, numpy 2.4.6, scipy 1.17.1 (f64: good to about 1e-13).
"""

import math

import numpy as np
from scipy.special import roots_genlaguerre, roots_hermitenorm

from common import meta, write


def one_step(d, dt, variant, order):
    x, wx = roots_genlaguerre(order, d / 2 - 1)
    tau = (2 * dt * x)[:, None]
    wt = (wx / wx.sum())[:, None]
    z, wz = roots_hermitenorm(order)
    n = (math.sqrt(dt) * z)[None, :]
    wn = (wz / wz.sum())[None, :]
    q = (n + tau) / (1 + tau) if variant == "normalised" else n + tau
    along = 1 + (n - q) / 2
    across = tau * (1 - q / 2) ** 2
    return float((wt * wn * along / np.sqrt(along**2 + across)).sum())


def main():
    rows = []
    for d in (1, 2, 3, 7):
        for dt in (0.001, 0.01, 0.02):
            for variant in ("normalised", "raw"):
                a, b = one_step(d, dt, variant, 40), one_step(d, dt, variant, 60)
                assert abs(a - b) < 1e-10, (d, dt, variant, a, b)
                rows.append({"d": d, "dt": dt, "projection_at": variant, "e_cos_step": b, "exact": math.exp(-d * dt / 2)})
                print(d, dt, variant, "relative bias per unit time", (b / math.exp(-d * dt / 2) - 1) / dt)
    info = meta("heun_sphere.py", "f64 Gauss quadrature, two orders agree to 1e-10", ("numpy", "scipy"),
                quantity="e_cos_step = E<Y, Y+> of one Stratonovich-Heun step with projection on S^d, exact = e^{-d dt/2}")
    write("heun_sphere.json", info, rows=rows)


if __name__ == "__main__":
    main()
