"""Dask and Ray: the numbers of one process, on workers that may die, in bounded memory."""

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import manifusion
from manifusion import Manifold, MixtureVMF
from manifusion._saved import SavedModel

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

# It took 14 s and, on a busier machine, 145 s.
RAY_SECONDS = 300


@pytest.fixture(scope="module")
def saved(places, tmp_path_factory):
    """A cheap model of named columns, in its folder."""
    model = MixtureVMF("sphere:2", form="latlon", settings={"components": 2})
    model.fit({"lat": places[:, 0], "lon": places[:, 1]})
    folder = tmp_path_factory.mktemp("models") / "vmf"
    model.save(folder)
    return folder


@pytest.fixture(scope="module")
def client():
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        memory_limit="1GiB",
    )  # fmt: skip
    with cluster, distributed.Client(cluster) as client:
        yield client


def _positions(n, seed=0):
    return Manifold("sphere:2").to_form(Manifold("sphere:2").random(n, seed=seed), "latlon")


def test_arrays_and_frames_have_the_numbers_of_one_process(client, saved):
    import manifusion.dask

    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X = _positions(5000)
    expected = manifusion.load(saved).score_samples(X)
    lazy = manifusion.dask.score(saved, da.from_array(X, chunks=(700, 1)))
    assert lazy.shape == (5000,) and lazy.dtype == np.float64
    assert (lazy.compute() == expected).all()
    frame = pd.DataFrame({"lon": X[:, 1], "what": "x", "lat": X[:, 0]})
    column = manifusion.dask.score(saved, dd.from_pandas(frame, npartitions=4))
    found = column.compute()
    assert found.name == "log_density" and (found.index == frame.index).all()
    assert (found.to_numpy() == expected).all()


def test_draws_are_those_of_one_process(client, saved):
    import manifusion.dask

    model = manifusion.load(saved)
    expected = model.sample(2500, seed=4)
    lazy = manifusion.dask.sample(saved, 2500, seed=4, chunk=600)
    assert lazy.shape == (2500, 2)
    assert (lazy.compute() == expected).all()
    frame = manifusion.dask.sample(saved, 2500, seed=4, chunk=1000, frame=True).compute()
    assert list(frame.columns) == ["lat", "lon"]
    assert (frame.to_numpy() == expected).all()


def test_a_model_is_sent_as_path_and_hash(saved, tmp_path):
    model = SavedModel(saved)
    sent = pickle.dumps(model)
    assert len(sent) < 500 and str(saved).encode() in sent
    again = pickle.loads(sent)
    assert again.model() is pickle.loads(sent).model()
    # A folder that changes on the way is noticed.
    manifusion.load(saved).save(tmp_path / "copy")
    sent = pickle.dumps(SavedModel(tmp_path / "copy"))
    with (tmp_path / "copy" / "config.toml").open("a") as file:
        file.write("# edited\n")
    with pytest.raises(ValueError, match="has changed"):
        pickle.loads(sent).model()
    with pytest.raises(FileNotFoundError):
        SavedModel(tmp_path / "nowhere")


def _slowly(part, model):
    """A part that takes a moment, so that a worker can be killed in it."""
    time.sleep(0.3)
    return model.model().score_samples(part)


def test_the_tasks_of_a_killed_worker_are_run_again(client, saved):
    X = _positions(2000, seed=2)
    expected = manifusion.load(saved).score_samples(X)
    model = SavedModel(saved)
    parts = client.map(_slowly, np.array_split(X, 12), model=model, pure=False)
    pids = client.run(os.getpid)
    time.sleep(0.8)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    found = np.concatenate(client.gather(parts))
    assert (found == expected).all()
    client.wait_for_workers(2, timeout=60)


def _resident():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _made(rows, block_info=None):
    first, end = block_info[None]["array-location"][0]
    return _positions(end - first, seed=first)


def test_a_million_points_are_scored_in_bounded_memory(client, saved):
    import manifusion.dask

    n, chunk = 10**6, 25_000
    X = da.map_blocks(_made, 0, chunks=((chunk,) * (n // chunk), (2,)), dtype=float, meta=np.empty((0, 0)))
    before = max(client.run(_resident).values())
    log_p = manifusion.dask.score(saved, X)
    mass, count = da.compute(np.exp(log_p).mean(), (log_p > -1e9).sum())
    assert count == n
    # The mean of a density over uniform points is 1 / (4π), the error some per cent.
    assert abs(mass * 4 * np.pi - 1) < 0.1
    # 40 chunks of 0.4 MB: were all held, it would be 16 MB for X alone, with 8 for the result and
    # copies on the way; what a chunk needs is below 50 MB whatever the number of chunks.
    assert max(client.run(_resident).values()) < before + 150


def test_a_comparison_on_the_cluster_is_that_of_one_process(client, cloud):
    import manifusion.dask

    asked = {"methods": ["vmf", "kent"], "seeds": [0, 1]}
    here = manifusion.compare(cloud, "sphere:2", **asked)
    there = manifusion.dask.compare(client, cloud, "sphere:2", **asked)
    assert [r["method"] for r in here.methods] == [r["method"] for r in there.methods]
    for one, other in zip(here.methods, there.methods):
        assert one["nll_of_seeds"] == other["nll_of_seeds"] and len(one["nll_of_seeds"]) == 2
    assert "vmf" in repr(here) and here._repr_markdown_() == here.markdown
    with pytest.raises(ValueError, match="nonsense"):
        manifusion.compare(cloud, "sphere:2", methods=["nonsense"])


def test_a_scorer_for_ray_takes_every_kind_of_batch(saved):
    from manifusion.ray import Scorer

    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    X = _positions(100)
    expected = manifusion.load(saved).score_samples(X)
    scorer = pickle.loads(pickle.dumps(Scorer))(saved)
    columns = {"lat": X[:, 0], "lon": X[:, 1]}
    assert (scorer(columns)["log_density"] == expected).all() and "lat" in scorer(columns)
    assert (scorer({"data": X})["log_density"] == expected).all()
    assert (scorer(pd.DataFrame(columns))["log_density"] == expected).all()
    assert (scorer(pa.table(columns))["log_density"].to_numpy() == expected).all()


def _said_by_ray(command, home, seconds):
    """What a script says that uses Ray, and its exit code; it is ended if it takes too long."""
    # Ray keeps a token in the home folder, which is not the test's to write in.
    process = subprocess.Popen(
        command, env={**os.environ, "HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        return process.communicate(timeout=seconds)[0], process.returncode
    except subprocess.TimeoutExpired:
        # Ray ends its own processes when it is asked to stop.
        process.terminate()
        try:
            said, _ = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        pytest.fail(f"Ray did not end in {seconds:.0f} s; it said:\n{said}")


def test_ray_data(saved, tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    np.save(tmp_path / "rows.npy", _positions(1000))
    script = Path(__file__).with_name("ray_data.py")
    command = [sys.executable, str(script), str(saved), str(tmp_path / "rows.npy")]
    end = time.monotonic() + RAY_SECONDS
    for _ in range(3):
        said, code = _said_by_ray(command, tmp_path, end - time.monotonic())
        # Ray gives its processes 30 s to start, which no setting changes; a machine that is busy
        # with other work can be slower. Anything else that fails has failed.
        if "timed out during startup" not in said:
            break
    assert code == 0 and "the same numbers" in said, said
