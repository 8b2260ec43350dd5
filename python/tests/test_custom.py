"""Manifolds written in Python: two functions on arrays."""

import pickle
import time

import numpy as np
import pytest

import manifusion
from manifusion import Manifold, RiemannianDiffusion, Stack


def tangent(x, u):
    return u - np.sum(x * u, axis=1, keepdims=True) * x


def project(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


AXES = np.array([1.0, 1.5, 0.7])


def ellipsoid_tangent(x, u):
    normal = x / AXES**2
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return u - np.sum(normal * u, axis=1, keepdims=True) * normal


def ellipsoid_project(x):
    return x / np.sqrt(np.sum((x / AXES) ** 2, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def sphere():
    return Manifold.from_functions("my sphere", 2, 3, tangent, project)


@pytest.fixture(scope="module")
def ellipsoid():
    return Manifold.from_functions("ellipsoid", 2, 3, ellipsoid_tangent, ellipsoid_project)


QUICK = {"net.width": 16, "net.depth": 2, "train.batch": 64}


def test_geometry_is_that_of_the_built_in_sphere(sphere):
    own = Manifold("sphere:2")
    x = own.random(30, seed=1)
    u = np.random.default_rng(0).normal(size=x.shape)
    np.testing.assert_allclose(sphere.project(2 * x), x, atol=1e-12)
    np.testing.assert_allclose(sphere.tangent(x, u), own.tangent(x, u), atol=1e-12)
    np.testing.assert_allclose(sphere.retract(x, 0.1 * own.tangent(x, u)),
                               own.retract(x, 0.1 * own.tangent(x, u)), atol=1e-12)
    frame = sphere.frame(x)
    np.testing.assert_allclose(frame @ frame.transpose(0, 2, 1),
                               np.broadcast_to(np.eye(2), (30, 2, 2)), atol=1e-9)
    # The volume is an estimate with an error of a few per cent.
    volume = -sphere.prior_log_density(x[:1])[0]
    assert abs(volume - np.log(4 * np.pi)) < 0.1
    drawn = sphere.random(2000, seed=2)
    assert np.abs(drawn.mean(axis=0)).max() < 4 * np.sqrt(1 / 3 / 2000)
    y = sphere.noise(np.tile([0.0, 0.0, 1.0], (3000, 1)), 0.5, seed=1)
    assert abs(y[:, 2].mean() - np.exp(-0.5)) < 0.03


def test_the_laws_are_measured(sphere, ellipsoid):
    for manifold in (sphere, ellipsoid):
        broken = [law for law in manifold.check() if not law["holds"]]
        assert not broken
    skew = Manifold.from_functions("skew", 2, 3, lambda x, u: 0.5 * tangent(x, u), project)
    assert not all(law["holds"] for law in skew.check())


def test_a_model_is_learned_scored_sampled_and_evaluated(ellipsoid):
    X = ellipsoid.noise(np.tile(ellipsoid.project([1.0, 0.2, 0.1]), (300, 1)), 0.05, seed=1)
    model = RiemannianDiffusion(ellipsoid, steps=100, settings=QUICK).fit(X)
    near, far = model.score_samples([X[0], -X[0]])
    assert near > far
    drawn = model.sample(50, seed=1)
    assert (ellipsoid.residual(drawn) < 1e-6).all()
    found = model.evaluate(X[:20], bound_points=0, mass_points=0)
    assert found["manifold"] == "python:ellipsoid" and np.isfinite(found["nll"])
    assert model.manifold_ == ellipsoid
    # The same numbers again.
    again = RiemannianDiffusion(ellipsoid, steps=100, settings=QUICK).fit(X)
    assert (again.score_samples(X[:5]) == model.score_samples(X[:5])).all()


def test_saved_loaded_pickled_and_cloned(ellipsoid, tmp_path):
    X = ellipsoid.random(100, seed=3)
    model = RiemannianDiffusion(ellipsoid, steps=3, settings=QUICK).fit(X)
    expected = model.score_samples(X[:5])
    model.save(tmp_path / "run")
    again = manifusion.load(tmp_path / "run", manifold=ellipsoid)
    assert (again.score_samples(X[:5]) == expected).all()
    assert (pickle.loads(pickle.dumps(model)).score_samples(X[:5]) == expected).all()
    assert pickle.loads(pickle.dumps(ellipsoid)) == ellipsoid
    with pytest.raises(ValueError, match="python:ellipsoid"):
        manifusion.load(tmp_path / "run")
    other = Manifold.from_functions("other", 2, 3, tangent, project)
    with pytest.raises(ValueError, match="python:ellipsoid, and python:other is given"):
        manifusion.load(tmp_path / "run", manifold=other)
    sklearn = pytest.importorskip("sklearn.base")
    assert sklearn.clone(model).manifold == ellipsoid


def test_the_default_method_works(ellipsoid):
    X = ellipsoid.noise(np.tile(ellipsoid.project([1.0, 0.2, 0.1]), (200, 1)), 0.05, seed=1)
    model = Stack(ellipsoid, steps=5, settings={**QUICK, "members": 1}).fit(X)
    assert np.isfinite(model.score_samples(X[:5])).all()


def test_an_exception_of_a_function_is_that_of_the_call(sphere):
    calls = []

    def late(x):
        calls.append(len(x))
        if len(calls) > 200:
            raise ZeroDivisionError("my own mistake")
        return project(x)

    broken = Manifold.from_functions("broken", 2, 3, tangent, late)
    X = Manifold("sphere:2").random(100)
    with pytest.raises(ZeroDivisionError, match="my own mistake"):
        RiemannianDiffusion(broken, steps=1000, settings=QUICK).fit(X)
    wide = Manifold.from_functions("wide", 2, 3, tangent, lambda x: np.ones((len(x), 4)))
    with pytest.raises(ValueError, match=r"shape \[1, 3\] and returned one of shape \[1, 4\]"):
        wide.project([0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="dim = 4 is not allowed; 1 to ambient_dim = 3"):
        Manifold.from_functions("x", 4, 3, tangent, project)


def test_functions_are_called_with_many_rows(ellipsoid):
    rows = []

    def counted(x):
        rows.append(len(x))
        return ellipsoid_project(x)

    manifold = Manifold.from_functions("counted", 2, 3, ellipsoid_tangent, counted)
    X = ellipsoid.random(200, seed=1)
    manifold.random(1)  # The uniform law, before anything is counted.
    rows.clear()
    began = time.monotonic()
    RiemannianDiffusion(manifold, steps=20, settings=QUICK).fit(X)
    assert np.mean(rows) > 30, (len(rows), np.mean(rows), time.monotonic() - began)
