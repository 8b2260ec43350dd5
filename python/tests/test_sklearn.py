"""The protocol of scikit-learn, with scikit-learn."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import manifusion
from manifusion import (
    FlowMatching,
    KernelMixture,
    MixtureVMF,
    ParzenWindows,
    RiemannianDiffusion,
    Stack,
)


# On R^d, because the checks make data of any width that lie on no other manifold.
CHECKED = [
    KernelMixture("euclidean"),
    ParzenWindows("euclidean"),
    RiemannianDiffusion("euclidean", steps=2),
    FlowMatching("euclidean", steps=2),
    Stack("euclidean", steps=2, settings={"members": 1}),
]


@parametrize_with_checks(CHECKED)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", list(manifusion.ESTIMATORS))
def test_only_methods_that_do_not_know_euclidean_space_are_not_checked(method):
    X = np.random.default_rng(0).normal(size=(40, 3))
    made = manifusion.ESTIMATORS[method]
    settings = {"train.steps": 2} if "steps" in made().get_params() else None
    model = made("euclidean", settings=settings)
    if method in [estimator.method for estimator in CHECKED]:
        assert np.isfinite(model.fit(X).score_samples(X)).all()
    else:
        with pytest.raises(ValueError, match=f"method {method} is not known on euclidean:3"):
            model.fit(X)


def test_clone(kernel):
    copy = clone(kernel)
    assert copy.get_params() == kernel.get_params() and not hasattr(copy, "manifold_")


def test_cross_validation(cloud):
    scores = cross_val_score(KernelMixture("sphere:2"), cloud, cv=3)
    assert scores.shape == (3,) and np.isfinite(scores).all()
    with_processes = cross_val_score(KernelMixture("sphere:2"), cloud, cv=3, n_jobs=2)
    np.testing.assert_array_equal(with_processes, scores)


def test_grid_search(cloud):
    grid = {"settings": [{"components": 1}, {"components": 2}]}
    shuffled = cloud[np.random.default_rng(0).permutation(len(cloud))]
    search = GridSearchCV(MixtureVMF("sphere:2"), grid, cv=2).fit(shuffled)
    # There are two clouds.
    assert search.best_params_ == {"settings": {"components": 2}}
    assert search.best_estimator_.sample(3).shape == (3, 3)


def test_pipeline(places):
    radians = FunctionTransformer(np.degrees)
    model = make_pipeline(radians, KernelMixture("sphere:2", form="latlon"))
    model.fit(np.radians(places))
    expected = KernelMixture("sphere:2", form="latlon").fit(places)
    found = model.score_samples(np.radians(places))
    np.testing.assert_allclose(found, expected.score_samples(places), atol=1e-6)


def test_not_fitted_is_the_error_of_scikit_learn():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        manifusion.Stack("sphere:2").sample()
