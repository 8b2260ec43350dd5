import pickle

import numpy as np
import pytest

from manifusion import Manifold
from manifusion.manifolds import MANIFOLDS

SPECS = ["sphere:2", "torus:3", "so:3", "euclidean:2", "hyperbolic:2", "sphere:2*torus:1"]


@pytest.mark.parametrize("spec", SPECS)
def test_geometry_fits_together(spec):
    manifold = Manifold(spec)
    d, m = manifold.dim, manifold.ambient_dim
    x = manifold.random(20, seed=1)
    assert x.shape == (20, m)
    assert (manifold.residual(x) < 1e-9).all()
    np.testing.assert_allclose(manifold.project(x), x, atol=1e-9)
    frame = manifold.frame(x)
    assert frame.shape == (20, d, m)
    np.testing.assert_allclose(
        frame @ frame.transpose(0, 2, 1), np.broadcast_to(np.eye(d), (20, d, d)), atol=1e-9
    )
    u = np.random.default_rng(0).normal(size=(20, m))
    tangent = manifold.tangent(x, u)
    # P u is the part of u in the span of the frame.
    inside = np.einsum("nd,ndm->nm", np.einsum("ndm,nm->nd", frame, u), frame)
    np.testing.assert_allclose(tangent, inside, atol=1e-9)
    step = 1e-4 * tangent
    moved = manifold.retract(x, step)
    assert (manifold.residual(moved) < 1e-6).all()
    np.testing.assert_allclose(moved - x, step, atol=1e-5)


@pytest.mark.parametrize("spec", ["sphere:2", "torus:3", "so:3", "sphere:3"])
def test_uniform_draws(spec):
    manifold = Manifold(spec)
    x = manifold.random(4000, seed=0)
    assert np.abs(x.mean(axis=0)).max() < 0.06
    np.testing.assert_allclose(manifold.prior_log_density(x[:5]), -manifold.log_volume)
    assert (manifold.random(5, seed=3) == manifold.random(9, seed=3)[:5]).all()
    assert (manifold.random(5, seed=3) != manifold.random(5, seed=4)).any()


@pytest.mark.parametrize("spec", ["sphere:2", "torus:2", "so:3", "euclidean:2"])
def test_the_score_is_the_gradient_of_the_heat_kernel(spec):
    manifold = Manifold(spec)
    x = manifold.random(6, seed=1)
    y = manifold.noise(x, 0.3, seed=2)
    score = manifold.heat_kernel_score(x, y, 0.3)
    frame, h = manifold.frame(y), 1e-5
    for j in range(manifold.dim):
        e = frame[:, j]
        ahead = manifold.heat_kernel(x, manifold.retract(y, h * e), 0.3)
        behind = manifold.heat_kernel(x, manifold.retract(y, -h * e), 0.3)
        np.testing.assert_allclose((ahead - behind) / (2 * h), (score * e).sum(-1), atol=1e-4)


def test_noise_has_the_law_of_the_kernel():
    sphere = Manifold("sphere:2")
    pole = np.array([0.0, 0.0, 1.0])
    y = sphere.noise(np.tile(pole, (20_000, 1)), 0.5, seed=1)
    # E cos θ = exp(−s) for Brownian motion on the sphere, whose generator is ½Δ.
    assert abs(y[:, 2].mean() - np.exp(-0.5)) < 0.01
    times = np.linspace(0.1, 0.5, 5)
    assert sphere.noise(np.tile(pole, (5, 1)), times).shape == (5, 3)
    z = np.linspace(-1, 1, 20_001)
    line = np.stack([np.sqrt(1 - z**2), 0 * z, z], axis=1)
    density = np.exp(sphere.heat_kernel(pole, line, 0.5))
    assert abs(2 * np.pi * np.trapezoid(density, z) - 1) < 1e-4


def test_shapes():
    sphere = Manifold("sphere:2")
    x = sphere.random(6).reshape(2, 3, 3)
    assert sphere.project(2 * x).shape == (2, 3, 3)
    assert sphere.frame(x).shape == (2, 3, 2, 3)
    assert sphere.residual(x).shape == (2, 3)
    assert sphere.heat_kernel(x[0, 0], x, 0.2).shape == (2, 3)
    assert sphere.noise(x[0, 0], 0.1).shape == (3,)
    assert sphere.project(np.float32([[0, 0, 3]])).dtype == np.float64


def test_errors_have_the_numbers():
    sphere = Manifold("sphere:2")
    for problem, act in [
        ("cube", lambda: Manifold("cube:2")),
        (r"\[4, 2\].*\(\.\.\., 3\)", lambda: sphere.project(np.zeros((4, 2)))),
        ("row 1", lambda: sphere.frame([[0, 0, 1], [0, 0, 1.1]])),
        ("row 0", lambda: sphere.project([0.0, 0.0, 0.0])),
        ("times are positive", lambda: sphere.noise([0.0, 0, 1], -1.0)),
        ("hyperbolic", lambda: Manifold("hyperbolic:2").heat_kernel([1, 0, 0], [1, 0, 0], 0.1)),
    ]:
        with pytest.raises(ValueError, match=problem):
            act()


def test_values_of_a_manifold():
    sphere = Manifold("sphere:2")
    assert repr(sphere) == 'Manifold("sphere:2")'
    assert sphere == Manifold("sphere:2") != Manifold("sphere:3")
    assert len({sphere, Manifold("sphere:2")}) == 1
    assert pickle.loads(pickle.dumps(sphere)) == sphere
    assert sphere.log_volume == pytest.approx(np.log(4 * np.pi))
    assert Manifold("euclidean:2").log_volume is None
    assert "sphere" in MANIFOLDS


def test_forms_and_back():
    rotations = Manifold("so:3")
    x = rotations.random(10)
    for form in ["quaternion", "matrix", "euler", "rotvec"]:
        again = rotations.from_form(rotations.to_form(x, form), form)
        np.testing.assert_allclose(again, x, atol=1e-7)
