"""Normalisers of directional distributions: von Mises-Fisher on S^d, Kent on S^2, power spherical on S^d.

log of the integral over the sphere of the unnormalised density, less the log of its largest value, kappa for the first two and
kappa log 2 for the last (it would drown the digits):
  vMF              (2 pi)^(m/2) kappa^(1-m/2) I_(m/2-1)(kappa), m = d + 1, against quadrature over the height
  Kent             2 pi int_-1^1 e^(kappa t) I_0(beta (1 - t^2)) dt by quadrature, against its series in I_(2j+1/2)(kappa)
  power spherical  2^(a+b) pi^b Gamma(a)/Gamma(a+b), a = d/2 + kappa, b = d/2, against quadrature over the height; its derivative
                   by kappa from digamma functions, against a difference quotient

Run: reference/.venv/bin/python reference/directional.py
"""

import mpmath
from mpmath import mp, mpf

from common import close, meta, write

mp.dps = 40
KAPPAS = [0.0, 1e-8, 1e-3, 0.1, 1.0, 5.0, 29.0, 31.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7]
SHARES = [0.0, 1e-3, 0.1, 0.3, 0.45, 0.49, 0.4999, 0.5]


def pieces(scale):
    """Places on [0, 2] that split an integral whose structure near 0 has this scale."""
    inner = [mpf(scale) * mpf(2) ** k for k in range(-8, 30)]
    return [mpf(0)] + [u for u in inner if u < 1.9] + [mpf(2)]


def integral(height, scale, peak):
    """The integral of a height function over [0, 2]; in units of its peak, because mpmath's tolerance is absolute."""
    top = height(min(mpf(peak), mpf(1)))
    return top * mpmath.quad(lambda u: height(u) / top, pieces(scale))


def area(k):
    """The area of the unit sphere S^k."""
    return 2 * mp.pi ** (mpf(k + 1) / 2) / mpmath.gamma(mpf(k + 1) / 2)


def vmf(d, kappa):
    m, kappa = mpf(d + 1), mpf(kappa)
    if kappa == 0:
        return mpmath.log(area(d))
    value = m / 2 * mpmath.log(2 * mp.pi) + (1 - m / 2) * mpmath.log(kappa) + mpmath.log(mpmath.besseli(m / 2 - 1, kappa)) - kappa
    if d > 1:
        height = lambda u: mpmath.exp(-kappa * u) * (u * (2 - u)) ** ((mpf(d) - 2) / 2)
        check = mpmath.log(area(d - 1) * integral(height, 1 / kappa, (mpf(d) - 1) / 2 / kappa))
        close(mpmath.exp(value), mpmath.exp(check), 1e-12, f"vMF {d} {kappa}")
    return value


def kent(kappa, beta):
    kappa, beta = mpf(kappa), mpf(beta)
    scaled = lambda z: mpmath.besseli(0, z) * mpmath.exp(-z) if z < 1e4 else mpmath.hyp2f0(0.5, 0.5, 1 / (2 * z)) / mpmath.sqrt(2 * mp.pi * z)
    height = lambda u: mpmath.exp(-kappa * u + beta * u * (2 - u)) * scaled(beta * u * (2 - u))
    places = sorted(set(pieces(1 / max(kappa, 1)) + pieces(1 / mpmath.sqrt(max(beta, 1)))))
    value = mpmath.log(2 * mp.pi * mpmath.quad(height, places))
    if 0.01 < kappa <= 100:
        term = lambda j: mpmath.gamma(j + mpf(1) / 2) / mpmath.gamma(j + 1) * beta ** (2 * j) * (kappa / 2) ** (-2 * j - mpf(1) / 2) * mpmath.besseli(2 * j + mpf(1) / 2, kappa)
        check = mpmath.log(2 * mp.pi * mpmath.fsum(term(j) for j in range(120))) - kappa
        close(mpmath.exp(value), mpmath.exp(check), 1e-12, f"Kent {kappa} {beta}")
    return value


def power_spherical(d, kappa):
    kappa = mpf(kappa)
    a, b = mpf(d) / 2 + kappa, mpf(d) / 2
    norm = lambda k: 2 * b * mpmath.log(2) + b * mpmath.log(mp.pi) + mpmath.loggamma(k + b) - mpmath.loggamma(k + 2 * b)
    value, slope = norm(kappa), mpmath.digamma(a) - mpmath.digamma(a + b)
    if d > 1 and kappa > 0:
        # (1 + t)^kappa is largest at t = 1: u = 1 - t.
        height = lambda u: (1 - u / 2) ** kappa * (u * (2 - u)) ** ((mpf(d) - 2) / 2)
        check = mpmath.log(area(d - 1) * integral(height, 1 / kappa, (mpf(d) - 1) / kappa))
        close(mpmath.exp(value), mpmath.exp(check), 1e-12, f"power spherical {d} {kappa}")
    h = mpf(10) ** -12 * (kappa + b)
    close(slope, (norm(kappa + h) - norm(kappa - h)) / (2 * h), 1e-12, f"slope of power spherical {d} {kappa}")
    return {"d": d, "kappa": float(kappa), "log_scaled_norm": value, "slope": slope}


def main():
    dims = [1, 2, 3, 5, 10, 50]
    write(
        "directional.json",
        meta("directional.py", "40 digits", log_scaled_norm="log of the normaliser less kappa (vMF, Kent) or kappa log 2 (power spherical)", slope="its derivative by kappa"),
        vmf=[{"d": d, "kappa": k, "log_scaled_norm": vmf(d, k)} for d in dims for k in KAPPAS],
        kent=[{"kappa": k, "beta": k * s, "log_scaled_norm": kent(k, k * s)} for k in KAPPAS for s in SHARES],
        power_spherical=[power_spherical(d, k) for d in [*dims, 63, 64] for k in KAPPAS],
    )


main()
