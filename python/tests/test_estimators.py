import json
import pickle
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

import manifusion
from manifusion import KernelMixture, RiemannianDiffusion

# Steps that take a second or two; what is learned is not judged here.
QUICK = {"net.width": 16, "net.depth": 2}


def test_every_method_of_the_registry_is_a_class_with_its_settings_explained():
    assert [c.method for c in manifusion.ESTIMATORS.values()] == list(manifusion.ESTIMATORS)
    assert {"stack", "rdm", "kernel", "vmf", "kent", "mops"} <= set(manifusion.ESTIMATORS)
    for made in manifusion.ESTIMATORS.values():
        assert getattr(manifusion, made.__name__) is made
        assert made.__name__ in manifusion.__all__
    assert "net.width : " in RiemannianDiffusion.__doc__
    assert "minutes" in RiemannianDiffusion().get_params()
    assert "minutes" not in KernelMixture().get_params()


def test_the_stub_has_the_same_classes():
    stub = (Path(manifusion.__file__).parent / "__init__.pyi").read_text()
    for made in manifusion.ESTIMATORS.values():
        assert f"class {made.__name__}({made.__mro__[1].__name__}): ..." in stub
    assert stub.count("\nclass ") == len(manifusion.ESTIMATORS)


@pytest.mark.parametrize("method", list(manifusion.ESTIMATORS))
def test_every_method_fits_scores_and_samples(method, cloud):
    made = manifusion.ESTIMATORS[method]
    model = made("sphere:2", settings={"train.steps": 2} if hasattr(made(), "steps") else None)
    model.fit(cloud)
    log_p = model.score_samples(cloud[:20])
    assert log_p.shape == (20,) and log_p.dtype == np.float64 and np.isfinite(log_p).all()
    drawn = model.sample(4, seed=1)
    assert drawn.shape == (4, 3)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1.0, atol=1e-9)
    assert (model.sample(4, seed=1) == drawn).all() and (model.sample(4, seed=2) != drawn).any()


def test_the_density_is_one_and_knows_where_the_points_are(kernel):
    # Some kernels are narrow: a coarser grid misses the mass by a percent.
    grid = kernel.grid(200_000)
    assert abs((np.exp(grid["log_density"]) * grid["volume"]).sum() - 1) < 1e-3
    near, far = kernel.score_samples([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    assert near > far + 3
    drawn = kernel.sample(2000, seed=0)
    assert abs((drawn[:, 2] > 0.7).mean() - 2 / 3) < 0.06


def test_score_is_the_total_log_likelihood(kernel, cloud):
    assert kernel.score(cloud) == pytest.approx(kernel.score_samples(cloud).sum())


def test_seed_and_threads(cloud):
    def fitted(**more):
        model = RiemannianDiffusion("sphere:2", steps=5, settings=QUICK, **more).fit(cloud)
        return model.score_samples(cloud[:10])

    one = fitted(threads=1)
    assert (fitted(threads=2) == one).all()
    assert (fitted(seed=1) != one).any()


def test_settings_reach_the_method(cloud):
    model = RiemannianDiffusion("sphere:2", steps=3, settings={**QUICK, "train.batch": np.int64(32)})
    model.fit(cloud)
    assert model.settings_["net.width"] == 16
    assert model.settings_["train.batch"] == 32
    assert model.settings_["train.steps"] == 3
    assert model.outcome_["steps"] == 3
    assert model.n_parameters_ > 100


def test_evaluate_is_the_evaluation_of_the_library(kernel, cloud):
    found = kernel.evaluate(cloud, bound_points=0, mass_points=2000)
    assert found["nll"] == pytest.approx(-kernel.score_samples(cloud).mean())
    assert found["method"] == "kernel" and found["n"] == 300
    assert abs(found["mass"] - 1) < 0.05
    assert kernel.evaluate(cloud, mass_points=0)["mass"] is None
    with pytest.raises(ValueError, match="nonsense"):
        kernel.evaluate(cloud, nonsense=1)


def test_params_repr_and_clone_by_hand():
    model = RiemannianDiffusion("sphere:2", minutes=2, settings={"net.width": 8})
    assert repr(model) == (
        "RiemannianDiffusion(manifold='sphere:2', minutes=2, settings={'net.width': 8})"
    )
    again = RiemannianDiffusion(**model.get_params())
    assert again.get_params() == model.get_params()
    assert model.set_params(minutes=3) is model and model.minutes == 3
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)


def test_pickle(kernel, cloud):
    again = pickle.loads(pickle.dumps(kernel))
    assert (again.score_samples(cloud) == kernel.score_samples(cloud)).all()
    assert again.get_params() == kernel.get_params()
    unfitted = pickle.loads(pickle.dumps(KernelMixture("torus:2")))
    assert unfitted.manifold == "torus:2" and not hasattr(unfitted, "_run")


@pytest.mark.parametrize("made", [KernelMixture, RiemannianDiffusion])
def test_save_and_load(made, places, tmp_path):
    more = {"steps": 4} if made is RiemannianDiffusion else {}
    model = made("sphere:2", form="latlon", seed=7, **more).fit(places)
    model.save(tmp_path / "run")
    again = manifusion.load(tmp_path / "run")
    assert type(again) is made
    assert (again.score_samples(places) == model.score_samples(places)).all()
    assert (again.sample(5) == model.sample(5)).all()
    assert (again.manifold, again.form, again.seed) == ("sphere:2", "latlon", 7)
    assert again.settings_ == model.settings_
    # A copy of the copy, from memory alone.
    again.save(tmp_path / "copy")
    assert (manifusion.load(tmp_path / "copy").sample(5) == model.sample(5)).all()
    # Fitted again in the same way, it is the same.
    refitted = made(**again.get_params()).fit(places)
    assert (refitted.score_samples(places) == model.score_samples(places)).all()
    with pytest.raises(FileExistsError, match="already holds a run"):
        model.save(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        manifusion.load(tmp_path / "nowhere")


# Runs of the command line, of an earlier version.
RUNS = Path(__file__).parents[2] / "crates" / "manifusion-run" / "tests" / "format_1"


@pytest.mark.parametrize("name", ["kernel", "network"])
def test_a_run_of_the_command_line_is_read(name, tmp_path):
    model = manifusion.load(RUNS / name)
    judged = json.loads((RUNS / name / "eval.json").read_text())
    assert model.method == judged["method"]
    assert model.manifold_.name == judged["manifold"]
    drawn = model.sample(20, seed=1)
    assert np.isfinite(model.score_samples(drawn)).all()
    assert model.outcome_["train_seconds"] > 0
    # And kept again, with its data.
    model.save(tmp_path / "again")
    assert (tmp_path / "again" / "data.safetensors").read_bytes() == (
        RUNS / name / "data.safetensors"
    ).read_bytes()
    assert (manifusion.load(tmp_path / "again").sample(20, seed=1) == drawn).all()


def test_what_is_not_fitted_says_so():
    for use in (
        lambda model: model.score_samples([[0, 0, 1]]),
        lambda model: model.sample(),
        lambda model: model.save("nowhere"),
        lambda model: model.plot(),
    ):
        with pytest.raises(ValueError, match="not fitted yet"):
            use(KernelMixture("sphere:2"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "no manifold is given"),
        ({"manifold": "cube:2"}, "cube"),
        ({"manifold": "sphere:2", "form": "nonsense"}, "nonsense"),
        ({"manifold": "sphere:2", "settings": {"nonsense": 1}}, "nonsense"),
        ({"manifold": "sphere:2", "threads": 0}, "threads = 0"),
    ],
)
def test_errors_of_arguments(arguments, problem, cloud):
    with pytest.raises(ValueError, match=problem):
        KernelMixture(**arguments).fit(cloud)


def test_minutes_and_steps_exclude_each_other(cloud):
    with pytest.raises(ValueError, match="minutes=1 and steps=2"):
        RiemannianDiffusion("sphere:2", minutes=1, steps=2).fit(cloud)


def test_scikit_learn_is_not_imported():
    code = "import sys, manifusion; print(json.dumps([m for m in sys.modules if m == 'sklearn']))"
    out = subprocess.run([sys.executable, "-c", f"import json; {code}"], capture_output=True)
    assert json.loads(out.stdout) == [], out.stderr


def test_docstrings():
    import doctest

    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    checked = [
        manifusion,
        manifusion.Manifold,
        manifusion.Manifold.from_form,
        manifusion.Manifold.from_functions,
        manifusion.compare,
    ]
    for thing in checked:
        name = getattr(thing, "__name__", "?")
        parser = doctest.DocTestParser()
        test = parser.get_doctest(typing.cast(str, thing.__doc__), {}, name, None, None)
        assert test.examples, name
        runner.run(test)
    assert runner.failures == 0
