"""Log-volumes of manifolds in the metric induced by their ambient space (Frobenius for matrices).

Closed forms: S^d 2 pi^{(d+1)/2}/Gamma((d+1)/2); T^d (2 pi)^d; Stiefel(n,k) 2^{k(k-1)/4} prod_{j=n-k}^{n-1} vol S^j (vol S^0 = 2);
O(n) = Stiefel(n,n), SO(n) half of it; the ellipsoid of semi-axes (1, 2, 1), prolate; the torus of revolution 4 pi^2 R r.
Checked by quadrature of the area element in a chart: S^2, SO(3) in Euler angles, Stiefel(3,2), both surfaces.

Run: reference/.venv/bin/python reference/volumes.py      (seconds)
Ran with Python 3.11.7, mpmath 1.3.0.
"""

import mpmath
from mpmath import mp, mpf

from charts import metric
from common import close, meta, write


def sphere(d):
    return mpmath.log(2) + mpf(d + 1) / 2 * mpmath.log(mp.pi) - mpmath.loggamma(mpf(d + 1) / 2)


def stiefel(n, k):
    return mpf(k * (k - 1)) / 4 * mpmath.log(2) + sum(sphere(j) for j in range(n - k, n))


def by_quadrature(chart, fixed, spans):
    """Volume by quadrature over the parameters of `spans` (None: the element does not depend on it, length in `fixed`)."""
    free = [i for i, s in enumerate(spans) if s is not None]

    def element(*vals):
        t = [mpf(1) / 3] * len(spans)
        for i, v in zip(free, vals):
            t[i] = v
        return mpmath.sqrt(abs(mpmath.det(metric(chart, t)[2])))

    area = mpmath.quad(element, *[spans[i] for i in free])
    for i, length in fixed.items():
        area *= length
    return area


def rotation(t):
    """R_z(a) R_x(b) R_z(c)"""
    def rz(a):
        return mpmath.matrix([[mpmath.cos(a), -mpmath.sin(a), 0], [mpmath.sin(a), mpmath.cos(a), 0], [0, 0, 1]])

    b = t[1]
    rx = mpmath.matrix([[1, 0, 0], [0, mpmath.cos(b), -mpmath.sin(b)], [0, mpmath.sin(b), mpmath.cos(b)]])
    return rz(t[0]) * rx * rz(t[2])


def main():
    mp.dps = 60
    rows = []
    for d in list(range(1, 11)) + [20, 50, 100]:
        rows.append({"manifold": "sphere", "d": d, "log_volume": sphere(d)})
    for d in (1, 2, 3, 7, 50):
        rows.append({"manifold": "torus", "d": d, "log_volume": d * mpmath.log(2 * mp.pi)})
    for n in range(2, 7):
        rows.append({"manifold": "so", "n": n, "log_volume": stiefel(n, n) - mpmath.log(2)})
        rows.append({"manifold": "o", "n": n, "log_volume": stiefel(n, n)})
        for k in range(1, n + 1):
            rows.append({"manifold": "stiefel", "n": n, "k": k, "log_volume": stiefel(n, k)})
    # prolate spheroid, equatorial radius a = 1, polar c = 2: 2 pi a^2 (1 + c/(a e) asin e), e^2 = 1 - a^2/c^2
    e = mpmath.sqrt(mpf(3)) / 2
    ellipsoid = 2 * mp.pi * (1 + 2 / e * mpmath.asin(e))
    rows.append({"manifold": "ellipsoid", "semi_axes": [1.0, 2.0, 1.0], "volume": ellipsoid, "log_volume": mpmath.log(ellipsoid)})
    ring = 4 * mp.pi**2 * 2 * mpf(0.5)
    rows.append({"manifold": "torus_of_revolution", "major": 2.0, "minor": 0.5, "volume": ring, "log_volume": mpmath.log(ring)})

    pi, tol = mp.pi, 1e-20
    close(stiefel(3, 3) - mpmath.log(2), mpmath.log(16 * mpmath.sqrt(2) * pi**2), 1e-50, "SO(3)")
    ball = lambda t: [mpmath.sin(t[0]) * mpmath.cos(t[1]), mpmath.sin(t[0]) * mpmath.sin(t[1]), mpmath.cos(t[0])]
    close(by_quadrature(ball, {1: 2 * pi}, [[0, pi], None]), mpmath.exp(sphere(2)), tol, "S^2")
    so3 = lambda t: list(rotation(t))
    close(by_quadrature(so3, {0: 2 * pi, 2: 2 * pi}, [None, [0, pi], None]), mpmath.exp(stiefel(3, 3)) / 2, tol, "SO(3) by Euler angles")
    # Stiefel(3,2): the first two columns of a rotation; O(3) from the left (a) and O(2) from the right (c) are isometries
    two = lambda t: [rotation(t)[i, j] for i in range(3) for j in range(2)]
    close(by_quadrature(two, {0: 2 * pi, 2: 2 * pi}, [None, [0, pi], None]), mpmath.exp(stiefel(3, 2)), tol, "Stiefel(3,2)")
    egg = lambda t: [mpmath.sin(t[0]) * mpmath.cos(t[1]), mpmath.sin(t[0]) * mpmath.sin(t[1]), 2 * mpmath.cos(t[0])]
    close(by_quadrature(egg, {1: 2 * pi}, [[0, pi / 2, pi], None]), ellipsoid, 1e-12, "ellipsoid")
    tube = lambda t: [(2 + mpmath.cos(t[0]) / 2) * mpmath.cos(t[1]), (2 + mpmath.cos(t[0]) / 2) * mpmath.sin(t[1]), mpmath.sin(t[0]) / 2]
    close(by_quadrature(tube, {1: 2 * pi}, [[0, 2 * pi], None]), ring, 1e-12, "torus of revolution")
    info = meta(
        "volumes.py", "60 digits, closed forms; five of them checked by quadrature",
        quantity="log of the Riemannian volume, metric induced by the ambient space (Frobenius for matrices); ellipsoid x^2 + y^2/4 + z^2 = 1",
    )
    write("volumes.json", info, rows=rows)


if __name__ == "__main__":
    main()
