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
