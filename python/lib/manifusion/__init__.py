"""Probability densities on Riemannian manifolds: learn, sample, score and draw them.

>>> import numpy as np
>>> import manifusion
>>> sphere = manifusion.Manifold("sphere:2")
>>> X = sphere.noise(np.tile([0.0, 0.0, 1.0], (200, 1)), 0.1)      # a cloud around the pole
>>> model = manifusion.KernelMixture("sphere:2").fit(X)
>>> model.score_samples([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]) > -3
array([ True, False])
>>> model.sample(5, seed=1).shape
(5, 3)

Every method is a class with the same functions: ``Stack`` (a weighted sum, the command line's
default), ``RiemannianDiffusion``, ``KernelMixture``, ``ParzenWindows``, ``MixtureVMF``,
``MixtureKent``, ``MixturePowerSpherical``, ``FlowMatching``, ``ScoreBased``, ``Stereographic``,
``MoserFlow`` and ``ContinuousFlow``. ``load`` reads what they ``save``, and the run folders of the command line.
"""

from . import manifolds
from ._compare import Comparison, compare
from ._estimators import ESTIMATORS, Estimator, NotFittedError, Picture, load
from ._native import FORMS, MANIFOLDS, Manifold, __version__

globals().update({_class.__name__: _class for _class in ESTIMATORS.values()})

__all__ = [
    "ESTIMATORS",
    "Comparison",
    "FORMS",
    "MANIFOLDS",
    "Estimator",
    "Manifold",
    "NotFittedError",
    "Picture",
    "__version__",
    "compare",
    "load",
    "manifolds",
    *(_class.__name__ for _class in ESTIMATORS.values()),
]
