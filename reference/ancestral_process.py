"""Law of M = A_inf^theta(s), the number of lineages left in Kingman's coalescent with mutation, started from infinity.

P(M=m) = sum_{k>=m} (-1)^{k-m} b_k(m), b_k(m) = (theta+2k-1)/(m!(k-m)!) Gamma(theta+m+k-1)/Gamma(theta+m) e^{-k(k+theta-1)s/2},
b_0(0) = 1, summed with 450 digits. Mean, variance, the pmf where P >= 1e-17 (from index "first"), the largest term of
the alternating series over all m (which decides whether f64 can sum it), and the cosine moments of the S^d heat kernel,
d = theta, by the mixture u ~ Beta(d/2, d/2+M), cos phi = 1-2u, against e^{-ds/2} and (1+d e^{-(d+1)s})/(d+1).
The mean is also checked against its closed positive series E M = sum_{k>=1} (theta+2k-1) e^{-k(k+theta-1)s/2}.

Run: reference/.venv/bin/python reference/ancestral_process.py      (about 2 minutes)
Ran with Python 3.11.7, mpmath 1.3.0.
"""

import mpmath
from mpmath import mp, mpf

from common import meta, write

THETAS = [1, 2, 3, 7, 20, 50, 100]
TIMES = [0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0]


def pmf_and_largest(theta, s):
    """All P(m) until the mass is 1 within 1e-60, and the largest b_k(m)."""
    s = mpf(s)
    pmf, m, mass, largest = [], 0, mpf(0), mpf(0)
    step = mpmath.exp(-s)
    while 1 - mass > mpf(10) ** -60 or m < 3:
        if m == 0:
            total, k, sign = mpf(1), 1, -1
        else:
            total, k, sign = mpf(0), m, 1
        b = (
            mpf(theta + 2 * k - 1) / (mpmath.factorial(m) * mpmath.factorial(k - m))
            * mpmath.gamma(theta + m + k - 1) / mpmath.gamma(theta + m)
            * mpmath.exp(-k * (k + mpf(theta) - 1) * s / 2)
        )
        ratio = mpmath.exp(-(2 * k + theta) * s / 2)
        while b > mpf(10) ** -350:
            total += sign * b
            largest = max(largest, b)
            b *= mpf(theta + 2 * k + 1) / (theta + 2 * k - 1) * (theta + m + k - 1) / (k + 1 - m) * ratio
            ratio *= step
            k += 1
            sign = -sign
        pmf.append(total)
        mass += total
        m += 1
    return pmf, largest


def mean_closed(theta, s):
    """E M = sum_{k>=1} (theta+2k-1) e^{-k(k+theta-1)s/2}: every term positive."""
    total, k, s = mpf(0), 1, mpf(s)
    while True:
        t = (theta + 2 * k - 1) * mpmath.exp(-k * (k + mpf(theta) - 1) * s / 2)
        total += t
        if t < mpf(10) ** -350 and k * s > 1:
            return total
        k += 1


def main():
    mp.dps = 450
    rows, worst = [], {"total mass": mpf(0), "mean": mpf(0), "E cos": mpf(0), "E cos^2": mpf(0)}
    for theta in THETAS:
        for s in TIMES:
            pmf, largest = pmf_and_largest(theta, s)
            assert min(pmf) > -mpf(10) ** -100
            mean = sum(m * p for m, p in enumerate(pmf))
            var = sum((m - mean) ** 2 * p for m, p in enumerate(pmf))
            d, a, t = theta, mpf(theta) / 2, mpf(s)
            # u ~ Beta(a, a+M): E u = a/(d+M), E u^2 = a(a+1)/((d+M)(d+M+1))
            u1 = sum(p * a / (d + m) for m, p in enumerate(pmf))
            u2 = sum(p * a * (a + 1) / ((d + m) * (d + m + 1)) for m, p in enumerate(pmf))
            cos1, cos2 = 1 - 2 * u1, 1 - 4 * u1 + 4 * u2
            exact1 = mpmath.exp(-d * t / 2)
            exact2 = (1 + d * mpmath.exp(-(d + 1) * t)) / (d + 1)
            for key, err in (
                ("total mass", abs(sum(pmf) - 1)), ("mean", abs(mean - mean_closed(theta, s)) / mean),
                ("E cos", abs(cos1 - exact1)), ("E cos^2", abs(cos2 - exact2)),
            ):
                worst[key] = max(worst[key], err)
            keep = [m for m, p in enumerate(pmf) if p >= mpf(10) ** -17]
            row = {"theta": theta, "s": s, "mean": mean, "variance": var, "largest_term": largest if largest < 1e300 else mpf(10) ** 300,
                   "e_cos": exact1, "e_cos2": exact2}
            if len(keep) < 400:
                row["first"] = keep[0]
                row["pmf"] = pmf[keep[0]:keep[-1] + 1]
            rows.append(row)
        print(f"theta={theta}", flush=True)
    for key, err in worst.items():
        print(key, mpmath.nstr(err, 3))
        assert err < 1e-30
    info = meta(
        "ancestral_process.py", "450 digits",
        quantity="M = A_inf^theta(s): mean, variance, pmf[i] = P(M = first+i) where P >= 1e-17; largest_term = max over m,k of b_k(m); "
        "e_cos, e_cos2 = E cos phi, E cos^2 phi on S^theta at time s",
        checks={k: mpmath.nstr(v, 3) for k, v in worst.items()},
    )
    write("ancestral_process.json", info, rows=rows)


if __name__ == "__main__":
    main()
