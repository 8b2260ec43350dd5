"""What the package costs beside the library: importing it, and passing arrays."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import manifusion
from manifusion import Manifold, MixtureVMF


def _cpu_seconds(code):
    """Processor time of a fresh interpreter, which the load of a machine changes little."""
    def once():
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return min(once() for _ in range(5))


@pytest.mark.skipif(sys.platform == "win32", reason="no times of children there")
def test_importing_takes_less_than_a_third_of_a_second():
    numpy, whole = _cpu_seconds("import numpy"), _cpu_seconds("import manifusion")
    assert whole < 0.3, f"{whole:.3f} s, of which {numpy:.3f} s for NumPy"


def test_nothing_heavy_is_imported():
    heavy = ["pandas", "polars", "pyarrow", "sklearn", "dask", "ray", "matplotlib", "scipy"]
    code = f"import sys, manifusion; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_passing_arrays_costs_little_beside_scoring(cloud):
    # The cheapest model there is; every other one makes the share of the shell smaller.
    model = MixtureVMF("sphere:2", threads=1, settings={"components": 2}).fit(cloud)
    X = Manifold("sphere:2").random(100_000)

    def fastest(work):
        def once():
            began = time.thread_time(), time.process_time()
            work()
            return time.process_time() - began[1]

        return min(once() for _ in range(7))

    shell = fastest(lambda: manifusion._rows.rows(X))
    assert shell < 0.05 * fastest(lambda: model.score_samples(X)), shell
    assert np.isfinite(model.score_samples(X[:10])).all()
