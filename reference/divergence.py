"""Riemannian divergence div(P f) and mean-curvature vector on embedded manifolds, in charts (see charts.py).

One field for every manifold, in terms of the m ambient coordinates (matrices flattened by rows), i = 0..m-1, indices mod m:
  f_i(x) = (0.3 + 0.1 i) x_{i+1} + 0.2 x_i^2 - 0.1 x_i x_{i+2} + 0.05 (i+1) + 0.4 sin(x_{i+1} + 0.5 i)
Charts: S^d by stereographic-like graph x0 + sum t_j b_j normalised; tori by angles; O(n) by X cay(A), A skew; Stiefel(n,k) by
(X+V)(I+V^T V)^{-1/2}, V tangent; the ellipsoid and the torus of revolution by their angles. The stored point x is f64 and
can be off the manifold by a rounding (1e-16); the chart goes through the point that is exactly on it. O(4) and Stiefel use the Frobenius metric.
A second way, for every row: tr(P D(P f) P), where P is the projection at the chart's own moving point, along curves of the chart.

Run: reference/.venv/bin/python reference/divergence.py      (about 5 minutes)
Ran with Python 3.11.7, mpmath 1.3.0.
"""

import math
import random

import mpmath
from mpmath import mp, mpf

from charts import DPS, divergence, jacobian, unit_fields
from common import close, meta, write

FIELD = (
    "f_i(x) = (0.3 + 0.1 i) x_{(i+1) mod m} + 0.2 x_i^2 - 0.1 x_i x_{(i+2) mod m} + 0.05 (i+1) + 0.4 sin(x_{(i+1) mod m} + 0.5 i), i = 0..m-1"
)


def field(x):
    m = len(x)
    return [
        (mpf(3) + i) / 10 * x[(i + 1) % m] + x[i] ** 2 / 5 - x[i] * x[(i + 2) % m] / 10 + mpf(i + 1) / 20
        + mpf(2) / 5 * mpmath.sin(x[(i + 1) % m] + mpf(i) / 2)
        for i in range(m)
    ]


def orthonormal(vectors):
    """Gram-Schmidt on lists."""
    out = []
    for v in vectors:
        for _ in range(2):
            for u in out:
                dot = sum(a * b for a, b in zip(u, v))
                v = [a - dot * b for a, b in zip(v, u)]
        n = mpmath.sqrt(sum(a * a for a in v))
        out.append([a / n for a in v])
    return out


def gauss(rng, n):
    return [mpf(rng.gauss(0, 1)) for _ in range(n)]


def sphere(d, rng):
    frame = orthonormal([gauss(rng, d + 1) for _ in range(d + 1)])

    def chart(t):
        y = [frame[0][i] + sum(t[j] * frame[j + 1][i] for j in range(d)) for i in range(d + 1)]
        n = mpmath.sqrt(sum(v * v for v in y))
        return [v / n for v in y]

    return chart, [mpf(0)] * d


def torus(d, rng):
    def chart(t):
        out = []
        for a in t:
            out += [mpmath.cos(a), mpmath.sin(a)]
        return out

    return chart, [mpf(rng.uniform(-3, 3)) for _ in range(d)]


def flat(m):
    return [m[i, j] for i in range(m.rows) for j in range(m.cols)]


def orthogonal(n, rng, det):
    base = mpmath.matrix(orthonormal([gauss(rng, n) for _ in range(n)]))
    if mpmath.det(base) * det < 0:
        for j in range(n):
            base[0, j] = -base[0, j]
    pairs = [(i, j) for i in range(n) for j in range(i)]

    def chart(t):
        a = mpmath.zeros(n)
        for v, (i, j) in zip(t, pairs):
            a[i, j] = v
            a[j, i] = -v
        eye = mpmath.eye(n)
        return flat(base * mpmath.inverse(eye - a) * (eye + a))

    return chart, [mpf(0)] * len(pairs)


def stiefel(n, k, rng):
    """k = 2 only: the inverse square root of a symmetric 2x2 matrix in closed form."""
    assert k == 2
    rows = orthonormal([gauss(rng, n) for _ in range(n)])
    base = mpmath.matrix(rows).T  # columns orthonormal; the first k are the point
    dim = k * (k - 1) // 2 + (n - k) * k

    def chart(t):
        v = mpmath.zeros(n, k)
        coeff = mpmath.zeros(n, k)
        coeff[0, 1], coeff[1, 0] = t[0], -t[0]
        for idx in range(dim - 1):
            coeff[k + idx // k, idx % k] = t[1 + idx]
        v = base * coeff
        gram = mpmath.eye(k) + v.T * v
        # sqrt of a 2x2 SPD matrix: (gram + sqrt(det) I)/sqrt(trace + 2 sqrt(det))
        r = mpmath.sqrt(mpmath.det(gram))
        root = (gram + r * mpmath.eye(2)) / mpmath.sqrt(gram[0, 0] + gram[1, 1] + 2 * r)
        x = mpmath.matrix([[base[i, j] + v[i, j] for j in range(k)] for i in range(n)])
        return flat(x * mpmath.inverse(root))

    return chart, [mpf(0)] * dim


def ellipsoid(rng):
    def chart(t):
        return [mpmath.sin(t[0]) * mpmath.cos(t[1]), 2 * mpmath.sin(t[0]) * mpmath.sin(t[1]), mpmath.cos(t[0])]

    return chart, [mpf(rng.uniform(0.3, 2.8)), mpf(rng.uniform(-3, 3))]


def revolution(rng):
    def chart(t):
        r = 2 + mpf(0.5) * mpmath.cos(t[0])
        return [r * mpmath.cos(t[1]), r * mpmath.sin(t[1]), mpf(0.5) * mpmath.sin(t[0])]

    return chart, [mpf(rng.uniform(-3, 3)), mpf(rng.uniform(-3, 3))]


def projected_trace(chart, t):
    """tr(P D(Pf) P) with an orthonormal tangent basis e = J R^{-1}: sum_j e_j . d(P f)(along e_j in the chart)."""
    jac = jacobian(chart, t)
    inv = mpmath.inverse(jac.T * jac)
    h = mpf(10) ** -25

    def pf(at):
        j = jacobian(chart, at)
        return j * (mpmath.inverse(j.T * j) * (j.T * mpmath.matrix(field(chart(at)))))

    total = mpf(0)
    low = inv * jac.T  # sum_{ij} g^{ij} J_i . d_j(Pf)
    for j in range(len(t)):
        up, dn = list(t), list(t)
        up[j] += h
        dn[j] -= h
        diff = (pf(up) - pf(dn)) / (2 * h)
        total += sum(low[j, i] * diff[i] for i in range(diff.rows))
    return total


def main():
    mp.dps = DPS
    rng = random.Random(7)
    makers = [
        ("sphere", {"d": 2}, 6, lambda: sphere(2, rng)), ("sphere", {"d": 3}, 6, lambda: sphere(3, rng)),
        ("sphere", {"d": 7}, 3, lambda: sphere(7, rng)),
        ("torus", {"d": 2}, 6, lambda: torus(2, rng)), ("torus", {"d": 7}, 4, lambda: torus(7, rng)),
        ("so", {"n": 3}, 6, lambda: orthogonal(3, rng, 1)), ("o", {"n": 4}, 2, lambda: orthogonal(4, rng, 1)),
        ("o", {"n": 4}, 2, lambda: orthogonal(4, rng, -1)), ("stiefel", {"n": 4, "k": 2}, 4, lambda: stiefel(4, 2, rng)),
        ("stiefel", {"n": 3, "k": 2}, 3, lambda: stiefel(3, 2, rng)),
        ("ellipsoid", {"semi_axes": [1.0, 2.0, 1.0]}, 6, lambda: ellipsoid(rng)),
        ("torus_of_revolution", {"major": 2.0, "minor": 0.5}, 6, lambda: revolution(rng)),
    ]
    rows, worst = [], mpf(0)
    for name, params, count, make in makers:
        for _ in range(count):
            chart, t = make()
            x = chart(t)
            out = divergence(chart, t, [field] + unit_fields(len(x)))
            worst = max(worst, close(projected_trace(chart, t), out[0], 1e-25, name))
            rows.append({"manifold": name, **params, "x": x, "div": out[0], "h": out[1:], "f": field(x)})
        print(name, params, flush=True)
    info = meta(
        "divergence.py", f"{DPS} digits, central differences; two ways agree to {mpmath.nstr(worst, 2)}", field=FIELD,
        quantity="div = Riemannian divergence of the tangent part of f at x (ambient coordinates; matrices flattened by rows), "
        "h = mean-curvature vector (sum, not average), f = the field there; metric induced by R^m. ellipsoid: x^2 + y^2/4 + z^2 = 1; "
        "torus_of_revolution: (sqrt(x^2+y^2) - 2)^2 + z^2 = 0.25",
    )
    write("divergence.json", info, rows=rows)


if __name__ == "__main__":
    main()
