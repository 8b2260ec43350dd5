"""The cases of the engine comparison: shapes, inputs and parameters, the same for every engine.

A case is a directory of little-endian f32 files: params (each layer's weight, inputs x outputs row-major, then its bias),
x (n x m), s (n), e (n x k x m), h (n x m: the mean-curvature vector, or the target of the denoising loss).
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    name: str
    dim: int  # m
    depth: int
    width: int
    activation: str
    rows: int
    per_row: int  # k
    block: int  # coordinates of one factor: 3 for the sphere, 2 for a circle
    work: str  # implicit, denoising or forward

    def shapes(self):
        widths = [self.dim + 1] + [self.width] * self.depth + [self.dim]
        return list(zip(widths[:-1], widths[1:]))


CASES = [
    Case("sphere", 3, 5, 512, "sine", 512, 2, 3, "implicit"),
    Case("torus2", 4, 4, 256, "swish", 512, 2, 2, "implicit"),
    Case("torus7", 14, 4, 256, "swish", 512, 7, 2, "implicit"),
    Case("probe", 3, 5, 512, "sine", 512, 1, 3, "implicit"),
    Case("denoising", 3, 5, 512, "sine", 512, 0, 3, "denoising"),
    Case("forward", 3, 5, 512, "sine", 4096, 2, 3, "forward"),
]
BY_NAME = {case.name: case for case in CASES}
LEARNING_RATE = 2e-4


def project(x, v, block):
    """The orthogonal projection on the tangent space, factor by factor."""
    xs, vs = x.reshape(*x.shape[:-1], -1, block), v.reshape(*v.shape[:-1], -1, block)
    return (vs - xs * (xs * vs).sum(-1, keepdims=True)).reshape(v.shape)


def frame(x, block):
    """An orthonormal tangent basis of each row, n x k x m."""
    n, m = x.shape
    factors = m // block
    basis = np.zeros((n, factors * (block - 1), m))
    for f in range(factors):
        part = x[:, f * block : (f + 1) * block]
        q = np.linalg.qr(np.concatenate([part[:, :, None], np.tile(np.eye(block), (n, 1, 1))], axis=2))[0]
        for j in range(block - 1):
            basis[:, f * (block - 1) + j, f * block : (f + 1) * block] = q[:, :, j + 1]
    return basis


def make(case, directory):
    """Write the files of a case."""
    rng = np.random.default_rng(20 + CASES.index(case))
    directory.mkdir(parents=True, exist_ok=True)
    params = []
    for inputs, outputs in case.shapes():
        bound = inputs**-0.5
        params += [rng.uniform(-bound, bound, inputs * outputs), rng.uniform(-bound, bound, outputs)]
    x = rng.normal(size=(case.rows, case.dim)).reshape(case.rows, -1, case.block)
    x = (x / np.linalg.norm(x, axis=-1, keepdims=True)).reshape(case.rows, case.dim)
    s = rng.uniform(0.01, 2.0, case.rows)
    e = frame(x, case.block)
    if case.name == "probe":
        e = project(x, rng.normal(size=x.shape), case.block)[:, None, :]
    h = -(case.block - 1) * x if case.work != "denoising" else rng.normal(size=x.shape)
    if case.per_row == 0:
        e = np.zeros((case.rows, 0, case.dim))
    for name, value in {"params": np.concatenate(params), "x": x, "s": s, "e": e, "h": h}.items():
        np.asarray(value, "<f4").tofile(directory / f"{name}.bin")


def load(case, directory):
    """The arrays of a case: a list of (weight, bias), x, s, e, h."""
    read = lambda name: np.fromfile(directory / f"{name}.bin", "<f4")
    flat, params, at = read("params"), [], 0
    for inputs, outputs in case.shapes():
        weight = flat[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        params.append((weight.copy(), flat[at : at + outputs].copy()))
        at += outputs
    n, k, m = case.rows, case.per_row, case.dim
    return params, read("x").reshape(n, m), read("s").reshape(n, 1), read("e").reshape(n, k, m), read("h").reshape(n, m)


def resident_mb():
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) / 1e3 for line in status if line.startswith("VmHWM:"))


def serve(make_engine, directory):
    """Answer requests, one per line: load NAME, check NAME, time COUNT, memory."""
    import sys
    import time

    engine = None
    for line in sys.stdin:
        words = line.split()
        if words[0] == "load":
            engine = make_engine(BY_NAME[words[1]], directory / words[1])
            answer = "ok"
        elif words[0] == "check":
            first, result = engine.check()
            np.asarray(result, "<f4").tofile(directory / words[1] / engine.name)
            for _ in range(10):
                engine.step()
            answer = f"{first:.9e} {engine.loss():.9e}"
        elif words[0] == "time":
            count = int(words[1])
            engine.wait()
            start = time.perf_counter()
            for _ in range(count):
                engine.step()
            engine.wait()
            answer = f"{(time.perf_counter() - start) * 1e3 / count:.6f}"
        elif words[0] == "memory":
            answer = f"{resident_mb():.1f}"
        else:
            sys.exit(f"request not understood: {line}")
        print(answer, flush=True)
