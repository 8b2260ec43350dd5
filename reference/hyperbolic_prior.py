"""Hyperboloid <x,x>_L = 1/K in R^{d+1} with the metric induced by Euclidean space: prior, drift, divergences, maps.

Everything in the chart y in R^d, x = (sqrt(1/|K|+|y|^2), y), by high-precision differences (charts.py), so no formula of
the product is used except the definitions:
  log_p0    log N(y; 0, I) - 1/2 log|G_E|, the density w.r.t. the g_E volume of the point above y ~ N(0, I)
  u0        1/2 grad_g log p_0, ambient vector of R^{d+1};  div_u0 its g_E divergence
  h         mean-curvature vector (sum, not average) of the Euclidean embedding
  half_log_ge, half_log_gl    1/2 log|G_E|, 1/2 log|G_L|
  div_e     g_E divergence of P_E f, P_E the Euclidean orthogonal projection on the tangent space
  div_le    g_L divergence of the same vector field P_E f
  div_l     g_L divergence of P_L f, the Lorentz projection f - K <x,f>_L x
Field, m = d+1 ambient coordinates, i = 0..m-1, indices mod m:
  f_i(x) = (0.3 + 0.1 i) x_{i+1} + 0.2 x_i^2 - 0.1 x_i x_{i+2} + 0.05 (i+1)
Maps (of the Lorentz metric): exp at the origin o = (1/sqrt|K|, 0) of the tangent vector (0, v), log, distance; and the Euclidean closest
point on the upper sheet.

Run: reference/.venv/bin/python reference/hyperbolic_prior.py      (about 2 minutes)
Ran with Python 3.11.7, mpmath 1.3.0.
"""

import math
import random

import mpmath
from mpmath import mp, mpf

from charts import DPS, divergence, mean_curvature, metric
from common import close, meta, write

FIELD = "f_i(x) = (0.3 + 0.1 i) x_{(i+1) mod m} + 0.2 x_i^2 - 0.1 x_i x_{(i+2) mod m} + 0.05 (i+1), i = 0..m-1, m = d+1, x_0 the time coordinate"


def field(x):
    m = len(x)
    return [
        (mpf(3) + i) / 10 * x[(i + 1) % m] + x[i] ** 2 / 5 - x[i] * x[(i + 2) % m] / 10 + mpf(i + 1) / 20 for i in range(m)
    ]


def chart_of(curv):
    def chart(y):
        return [mpmath.sqrt(1 / abs(mpf(curv)) + sum(v * v for v in y))] + list(y)

    return chart


def log_p0(chart, y):
    g = metric(chart, y)[2]
    return -mpf(len(y)) / 2 * mpmath.log(2 * mp.pi) - sum(v * v for v in y) / 2 - mpmath.log(mpmath.det(g)) / 2


def gradient(fun, y, h):
    out = []
    for j in range(len(y)):
        up, dn = list(y), list(y)
        up[j] += h
        dn[j] -= h
        out.append((fun(up) - fun(dn)) / (2 * h))
    return mpmath.matrix(out)


def u0_coordinates(chart, y, h):
    g = metric(chart, y)[2]
    return mpmath.inverse(g) * gradient(lambda z: log_p0(chart, z), y, h) / 2


def lorentz(a, b):
    return -a[0] * b[0] + sum(p * q for p, q in zip(a[1:], b[1:]))


def point_row(d, curv, y):
    chart = chart_of(curv)
    t = [mpf(v) for v in y]
    eta = [-1] + [1] * d
    jac, _, g = metric(chart, t)
    gl = metric(chart, t, eta)[2]
    u = u0_coordinates(chart, t, mpf(10) ** -20)
    u0 = jac * u
    # div U_0 = |G|^{-1/2} d_j (|G|^{1/2} u^j): three nested differences, wider steps outside
    h = mpf(10) ** -15
    div_u0 = mpf(0)
    for j in range(d):
        up, dn = list(t), list(t)
        up[j] += h
        dn[j] -= h
        a = mpmath.sqrt(mpmath.det(metric(chart, up)[2])) * u0_coordinates(chart, up, mpf(10) ** -20)[j]
        b = mpmath.sqrt(mpmath.det(metric(chart, dn)[2])) * u0_coordinates(chart, dn, mpf(10) ** -20)[j]
        div_u0 += (a - b) / (2 * h)
    div_u0 /= mpmath.sqrt(mpmath.det(g))
    x = chart(t)
    row = {
        "d": d, "k": curv, "y": list(y), "x": x, "log_p0": log_p0(chart, t), "u0": u0, "div_u0": div_u0,
        "h": mean_curvature(chart, t, d + 1),
        "half_log_ge": mpmath.log(mpmath.det(g)) / 2, "half_log_gl": mpmath.log(mpmath.det(gl)) / 2,
        "div_e": divergence(chart, t, [field])[0],
        "div_le": divergence(chart, t, [field], volume=eta)[0],
        "div_l": divergence(chart, t, [field], eta=eta)[0],
    }
    # the definitions agree with what is known: x on the hyperboloid, u0 tangent, h normal
    close(lorentz(x, x), 1 / mpf(curv), 1e-80, "constraint")
    scale = mpmath.norm(u0) * mpmath.norm(mpmath.matrix(x)) + mpf(10) ** -30
    assert abs(lorentz(x, list(u0))) / scale < 1e-25
    return row


def closest(q, curv):
    """Euclidean closest point of q on the upper sheet: x + lam J x = q, the root of the constraint in lam, then compared with a scan."""
    q0, qr = mpf(q[0]), mpmath.sqrt(sum(mpf(v) ** 2 for v in q[1:]))
    c = 1 / abs(mpf(curv))

    # one variable: the point (sqrt(c + r^2), r) in the half-plane of q; minimise over r >= 0 by a scan, then Newton on the slope
    def slope(r):
        x0 = mpmath.sqrt(c + r * r)
        return (x0 - q0) * r / x0 + (r - qr)

    def dist2(r):
        return (mpmath.sqrt(c + r * r) - q0) ** 2 + (r - qr) ** 2

    top = abs(q0) + qr + 2
    grid = [top * i / 4000 for i in range(4001)]
    best = min(grid, key=dist2)
    r = mpmath.findroot(slope, (max(best - top / 4000, 0), best + top / 4000), solver="anderson", tol=mpf(10) ** -120)
    assert dist2(r) <= dist2(best) + mpf(10) ** -60
    direction = [mpf(v) / qr for v in q[1:]]
    x = [mpmath.sqrt(c + r * r)] + [r * v for v in direction]
    # the other way: the multiplier
    lam = (q0 - x[0]) / (-x[0])
    for v, w in zip(x[1:], q[1:]):
        close(v * (1 + lam), w, 1e-25, "multiplier")
    return x, mpmath.sqrt(dist2(r))


def map_row(d, curv, v, w):
    """exp_o(v), exp_o(w), their distances; v, w in R^d."""
    k = mpmath.sqrt(abs(mpf(curv)))

    def expo(t):
        n = mpmath.sqrt(sum(mpf(c) ** 2 for c in t))
        s = mpmath.sinh(k * n) / (k * n) if n else mpf(1)
        return [mpmath.cosh(k * n) / k] + [s * mpf(c) for c in t]

    a, b = expo(v), expo(w)
    norm = mpmath.sqrt(sum(mpf(c) ** 2 for c in v))
    dist = mpmath.acosh(mpf(curv) * lorentz(a, b)) / k
    # the Lorentz length of the radial curve is |v|; the distance by the quadrature of the hyperbolic line a -> b
    length = mpmath.quad(
        lambda t: mpmath.sqrt(lorentz(*(2 * [[mpmath.diff(lambda z, i=i: expo([z * mpf(c) for c in v])[i], t) for i in range(d + 1)]]))), [0, 1]
    )
    close(length, norm, 1e-25, "length")
    # law of cosines at o for the distance
    nw = mpmath.sqrt(sum(mpf(c) ** 2 for c in w))
    dot = sum(mpf(p) * mpf(q) for p, q in zip(v, w)) / (norm * nw)
    law = mpmath.cosh(k * norm) * mpmath.cosh(k * nw) - mpmath.sinh(k * norm) * mpmath.sinh(k * nw) * dot
    close(mpmath.acosh(law) / k, dist, 1e-40, "law of cosines")
    return {"d": d, "k": curv, "v": list(v), "w": list(w), "exp_v": a, "exp_w": b, "dist_origin_v": norm, "dist_vw": dist}


def main():
    mp.dps = DPS
    rng = random.Random(20240611)
    points, maps, closest_rows = [], [], []
    for d in (1, 2, 3, 5):
        for curv in (-1.0, -0.5, -2.0):
            radii = [1e-3, 0.4, 1.3, 4.0, 30.0, 1000.0]
            for r in radii:
                g = [rng.gauss(0, 1) for _ in range(d)]
                n = math.sqrt(sum(c * c for c in g))
                points.append(point_row(d, curv, [r * c / n for c in g]))
            points.append(point_row(d, curv, [0.0] * d))
            mp.dps = 60
            for scale in (1e-6, 0.5, 3.0, 12.0):
                maps.append(map_row(d, curv, [scale * rng.gauss(0, 1) for _ in range(d)], [rng.gauss(0, 1) for _ in range(d)]))
            far = [8 * rng.gauss(0, 1) for _ in range(d)]
            maps.append(map_row(d, curv, far, [c + 1e-5 * rng.gauss(0, 1) for c in far]))
            for q0, scale in ((1.5, 0.7), (3.0, 0.2), (0.2, 2.0), (0.0, 1.0), (-0.5, 1.5), (40.0, 38.0), (5.0, 1e-3)):
                q = [q0] + [scale * rng.gauss(0, 1) for _ in range(d)]
                x, dist = closest(q, curv)
                closest_rows.append({"d": d, "k": curv, "q": q, "x": x, "dist": dist})
            mp.dps = DPS
            print(d, curv, flush=True)
    info = meta(
        "hyperbolic_prior.py", f"{DPS} digits, nested central differences (error below 1e-25 relative)", field=FIELD,
        quantity="points: see the header of the script; x = (sqrt(1/|k|+|y|^2), y). maps: exp at o = (1/sqrt|k|, 0) of (0, v), Lorentz distances. "
        "closest: the Euclidean closest point x of q on the upper sheet (global minimum) and the distance",
    )
    write("hyperbolic_prior.json", info, points=points, maps=maps, closest=closest_rows)


if __name__ == "__main__":
    main()
