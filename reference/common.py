"""Shared by the reference scripts: where the JSON goes, its layout, package versions.

Every golden file is {"meta": {...}, "<table>": [row, ...], ...}, one row per line. All inputs of a row (s, phi, x, ...)
are f64 numbers written with repr(), so that the reader gets the same bits; the reference value is computed from that f64
value (exactly), in high precision, and rounded once to f64.
"""

import json
import math
import platform
from importlib.metadata import version
from pathlib import Path

import mpmath
import numpy as np

GOLDEN = Path(__file__).resolve().parent.parent / "crates" / "manifusion" / "tests" / "golden"


def meta(script, precision, packages=("mpmath",), **more):
    """The "meta" object: script name, versions, precision, and anything that the reader needs."""
    out = {"script": f"reference/{script}", "python": platform.python_version()}
    out["packages"] = {name: version(name) for name in packages}
    out["precision"] = precision
    out.update(more)
    return out


def plain(value):
    """Turn mpf, numpy and nested sequences into plain JSON values (each mpf rounded once to f64)."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, mpmath.matrix):
        if value.cols == 1:
            return [plain(value[i]) for i in range(value.rows)]
        return [[plain(value[i, j]) for j in range(value.cols)] for i in range(value.rows)]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"not finite: {value}")
    return number + 0.0  # no -0.0


def write(name, meta_object, **tables):
    """Write one golden file; a table is a list of dicts."""
    parts = ['{"meta": ' + json.dumps(plain(meta_object))]
    for key, rows in tables.items():
        body = ",\n".join(json.dumps(plain(row), separators=(",", ":")) for row in rows)
        parts.append(f'"{key}": [\n{body}\n]')
    text = ",\n".join(parts) + "}\n"
    json.loads(text)
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / name).write_text(text)
    print(f"{name}: {len(text) / 1000:.0f} kB, " + ", ".join(f"{k} {len(v)}" for k, v in tables.items()))


def close(a, b, tol, what):
    """Relative agreement, or stop."""
    a, b = mpmath.mpf(a), mpmath.mpf(b)
    err = abs(a - b) / max(abs(a), abs(b), mpmath.mpf(10) ** -300)
    if err > tol:
        raise AssertionError(f"{what}: {mpmath.nstr(a, 20)} and {mpmath.nstr(b, 20)} differ by {mpmath.nstr(err, 3)}")
    return err
