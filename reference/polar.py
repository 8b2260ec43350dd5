"""Orthogonal polar factor (nearest matrix with orthonormal columns) and nearest rotation, of random and ill-conditioned matrices.

By the singular value decomposition in 60 digits, from the f64 matrix stored in the file; scipy.linalg.polar must agree within
its own conditioning. polar = U V^T; rotation (square only) = U diag(1..1, det(U V^T)) V^T, the nearest element of SO(n) in
the Frobenius norm. sigma: the singular values, decreasing. The factor moves by about |dA| * 2/(sigma_last + sigma_before_last) (square,
real) under a perturbation dA, the rotation by 2/(sigma_before_last + det sigma_last): "gap_polar" and "gap_rotation" are these sums;
a f64 code can be expected to reach about 1e-16 * sigma_first / gap.

Run: reference/.venv/bin/python reference/polar.py      (seconds)
Ran with Python 3.11.7, mpmath 1.3.0, numpy 2.4.6, scipy 1.17.1.
"""

import mpmath
import numpy as np
import scipy.linalg
from mpmath import mp, mpf

from common import meta, write


def matrix(a):
    return mpmath.matrix([[mpf(float(v)) for v in row] for row in a])


def polar_row(kind, a):
    m = matrix(a)
    n, k = a.shape
    u, sigma, vt = mpmath.svd_r(m)
    order = sorted(range(k), key=lambda i: -sigma[i])
    sigma = [sigma[i] for i in order]
    u = mpmath.matrix([[u[i, j] for j in order] for i in range(n)])
    vt = mpmath.matrix([[vt[i, j] for j in range(k)] for i in order])
    q = u * vt
    # definition: q^T q = 1, q^T a symmetric positive
    h = q.T * m
    assert mpmath.mnorm(q.T * q - mpmath.eye(k), "f") < 1e-50 and mpmath.mnorm(h - h.T, "f") < 1e-45 * (1 + mpmath.mnorm(h, "f"))
    # two small singular values of a square matrix decide; a tall one also needs the smallest alone
    gap = sigma[-1] + sigma[-2] if n == k else min(sigma[-1] + sigma[-2], sigma[-1])
    row = {"kind": kind, "rows": n, "cols": k, "a": a, "sigma": sigma, "polar": q, "gap_polar": gap}
    own = scipy.linalg.polar(a)[0]
    err = max(abs(own[i, j] - float(q[i, j])) for i in range(n) for j in range(k))
    assert err < 1e-14 * max(1, float(sigma[0] / gap)), (kind, err)
    if n == k:
        sign = mpf(1) if mpmath.det(q) > 0 else mpf(-1)
        flip = mpmath.eye(k)
        flip[k - 1, k - 1] = sign
        r = u * flip * vt
        assert abs(mpmath.det(r) - 1) < 1e-50
        row["rotation"] = r
        row["gap_rotation"] = sigma[-2] + sign * sigma[-1]
    return row


def main():
    mp.dps = 60
    rng = np.random.default_rng(11)
    rows = []
    for shape in ((3, 3), (4, 4), (5, 2)):
        n, k = shape
        for _ in range(5):
            rows.append(polar_row("gaussian", rng.standard_normal(shape)))
        for cond in (1e4, 1e8, 1e12):
            u = np.linalg.qr(rng.standard_normal(shape))[0]
            v = np.linalg.qr(rng.standard_normal((k, k)))[0]
            rows.append(polar_row(f"condition {cond:.0e}", u @ np.diag(np.geomspace(1, 1 / cond, k)) @ v.T))
        q = np.linalg.qr(rng.standard_normal(shape))[0]
        rows.append(polar_row("nearly orthonormal", q + 1e-3 * rng.standard_normal(shape)))
        rows.append(polar_row("nearly orthonormal, 1e-8", q + 1e-8 * rng.standard_normal(shape)))
        rows.append(polar_row("large", 1e150 * rng.standard_normal(shape)))
        rows.append(polar_row("small", 1e-150 * rng.standard_normal(shape)))
    for n in (3, 4):  # both signs of the determinant, well apart from the switch
        a = rng.standard_normal((n, n))
        a[0] *= -np.sign(np.linalg.det(a))
        rows.append(polar_row("negative determinant", a))
        a[0] *= -1
        rows.append(polar_row("positive determinant", a))
    info = meta("polar.py", "60 digits", ("mpmath", "numpy", "scipy"),
                quantity="polar = orthogonal polar factor of a, rotation = nearest element of SO(n) (square a only); sigma and gaps: see the script's header")
    write("polar.json", info, rows=rows)


if __name__ == "__main__":
    main()
