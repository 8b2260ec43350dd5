"""Not run: what type checkers must understand of the package (`mypy --strict`)."""

import numpy as np
from numpy.typing import NDArray

import manifusion
from manifusion import KernelMixture, Manifold, RiemannianDiffusion

model: RiemannianDiffusion = RiemannianDiffusion("sphere:2", minutes=2, settings={"net.width": 8})
fitted: RiemannianDiffusion = model.fit(np.zeros((3, 3)))
log_p: NDArray[np.float64] = fitted.score_samples(np.zeros((3, 3)))
total: float = KernelMixture("torus:2", seed=1).fit([[0.0, 1.0]]).score([[0.0, 1.0]])
picture: bytes = fitted.plot("map.png", kind="mollweide")
frames: NDArray[np.float64] = Manifold("sphere:2").frame([0.0, 0.0, 1.0])
loaded: manifusion.Estimator = manifusion.load("folder")


def project(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), dtype=np.float64)


def tangent(x: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(u - np.sum(x * u, axis=1, keepdims=True) * x, dtype=np.float64)


own: Manifold = Manifold.from_functions("sphere", 2, 3, tangent, project)
table: manifusion.Comparison = manifusion.compare("rows.csv", own, methods=["vmf"], seeds=[0])
lines: list[NDArray[np.float64]] = fitted.contours(shares=[0.5])[0]["lines"]
