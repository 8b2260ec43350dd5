"""What the Python package costs beside the Rust library, in processor time, in turns.

    cargo build --release -p manifusion-cli -p manifusion-run --bins --example score_again
    target/python/bare/bin/python python/benches/shell.py score       # needs Linux
    target/python/bare/bin/python python/benches/shell.py fit flood.csv
    target/python/bare/bin/python python/benches/shell.py own

`score`: 100 000 places by one model, from Python and from Rust, one thread each. `fit`: a training
on the same rows from Python and by the command line. `own`: a training on a sphere that is written
in Python, and on the library's. Numbers are seconds: the median, and the least and the most.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import manifusion
from manifusion import Manifold, MixtureVMF, RiemannianDiffusion

PROGRAMS = Path(__file__).resolve().parents[2] / "target" / "release"
ROWS = 100_000


def shown(name, times):
    middle, least, most = statistics.median(times), min(times), max(times)
    print(f"{name:45} {middle:8.4f}  ({least:.4f} to {most:.4f}, {len(times)} times)", flush=True)
    return middle


def processor_seconds(pid):
    """Of all threads of another process."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


class Rust:
    """The example `score_again`, which scores once for each line that it is sent."""

    def __init__(self, folder, file, what):
        program = str(PROGRAMS / "examples" / "score_again")
        self.process = subprocess.Popen(
            [program, str(folder), str(file), what],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"

    def __call__(self):
        before = processor_seconds(self.process.pid)
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        total = float(self.process.stdout.readline())
        return processor_seconds(self.process.pid) - before, total


def score(turns=60):
    sphere = Manifold("sphere:2")
    learned = sphere.noise(np.repeat(sphere.random(20, seed=1), 50, axis=0), 0.01, seed=2)
    cases = {"ambient": lambda x: x, "latlon": lambda x: sphere.to_form(x, "latlon")}
    for form, written in cases.items():
        X = written(sphere.random(ROWS, seed=3))
        for components in (2, 64):
            model = MixtureVMF(
                "sphere:2", form=form, threads=1, settings={"components": components}
            ).fit(written(learned))
            with tempfile.TemporaryDirectory() as folder:
                run, file = Path(folder, "run"), Path(folder, "rows.npy")
                model.save(run)
                np.save(file, X)
                rust = {what: Rust(run, file, what) for what in ("points", "table")}
                times = {"python": [], "points": [], "table": []}
                for _ in range(turns):
                    began = time.process_time()
                    log_p = model.score_samples(X)
                    times["python"].append(time.process_time() - began)
                    for what, call in rust.items():
                        took, total = call()
                        times[what].append(took)
                        assert abs(total - log_p.sum()) <= 1e-9 * abs(total)
                for call in rust.values():
                    call.process.stdin.close()
                    call.process.wait()
            title = f"{form}, {components} components"
            python = shown(f"{title}: score_samples", times["python"])
            table = shown(f"{title}: Rust, from columns", times["table"])
            points = shown(f"{title}: Rust, from points", times["points"])
            print(f"{'':45} {python / table - 1:+8.1%} and {python / points - 1:+.1%}\n")


def children_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


FIT = """
import sys, numpy as np
from manifusion import RiemannianDiffusion
X = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1, usecols=(0, 1))
settings = {"train.validations": 1}
model = RiemannianDiffusion("sphere:2", form="latlon", steps=1500, threads=1, settings=settings)
model.fit(X).save(sys.argv[2])
"""


def fit(file, turns=5):
    """Training and validation rows of the command line are those of the run in Python.

    It needs a test row as well, which is the last row once more.
    """
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        lines = Path(file).read_text().splitlines()
        (folder / "rows.csv").write_text("\n".join([*lines, lines[-1]]) + "\n")
        times = {"python": [], "command": []}
        for turn in range(turns):
            ours, theirs = folder / f"python{turn}", folder / f"command{turn}"
            times["python"].append(children_seconds([sys.executable, "-c", FIT, file, str(ours)]))
            split = json.loads((ours / "split.json").read_text())
            parts = [(row, part) for part in ("train", "validation") for row in split[part]]
            rows = "".join(f"{row},{part}\n" for row, part in sorted(parts))
            (folder / "split.csv").write_text(f"row,part\n{rows}{len(lines) - 1},test\n")
            given = [
                "--data", str(folder / "rows.csv"), "--split", str(folder / "split.csv"),
                "--manifold", "sphere:2", "--as", "latlon", "--method", "rdm", "--steps", "1500",
                "--threads", "1", "--set", "train.validations=1", "--out", str(theirs),
            ]  # fmt: skip
            times["command"].append(
                children_seconds([str(PROGRAMS / "manifusion"), "train", *given])
            )
            for part in ("train", "validation"):
                # Their order is another, so that the models are not the same bits.
                chosen = json.loads((theirs / "split.json").read_text())[part]
                assert sorted(chosen) == sorted(split[part])
    python, command = shown("fit from Python", times["python"]), shown("train", times["command"])
    print(f"{'':45} {python / command - 1:+8.1%}")


def tangent(x, u):
    return u - np.sum(x * u, axis=1, keepdims=True) * x


def project(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def own(turns=3, steps=300):
    sphere = Manifold("sphere:2")
    X = sphere.noise(np.repeat(sphere.random(20, seed=1), 50, axis=0), 0.05, seed=2)
    written = Manifold.from_functions("sphere", 2, 3, tangent, project)
    began = time.process_time()
    written.random(1)
    print(f"the uniform distribution and its volume, once: {time.process_time() - began:.1f} s")
    # What the method chooses where there is no heat kernel, for the library's sphere as well.
    chosen = RiemannianDiffusion(written, steps=2).fit(X).settings_
    # Validations solve an ODE whose cost depends on what was learned: hardly any here, so that
    # the difference of two trainings is that of their steps.
    few = {"train.validations": 1, "train.validation_points": 2}
    kept = ("net.", "train.loss", "train.noise_steps", "train.divergence", "train.times", "train.b")
    alike = {key: value for key, value in chosen.items() if key.startswith(kept)}
    print({key: value for key, value in alike.items() if key.startswith("train.")})
    cases = {
        "sphere:2": ("sphere:2", few),
        "sphere:2, without its heat kernel": ("sphere:2", {**alike, **few}),
        "written in Python": (written, few),
    }
    times = {f"{name}: {n} steps": [] for name in cases for n in (steps // 3, steps)}
    scores = {name: [] for name in cases}
    for _ in range(turns):
        for name, (manifold, settings) in cases.items():
            for n in (steps // 3, steps):
                model = RiemannianDiffusion(manifold, steps=n, threads=1, settings=settings)
                began = time.process_time()
                model.fit(X)
                times[f"{name}: {n} steps"].append(time.process_time() - began)
                assert model.outcome_["steps"] == n
            began = time.process_time()
            model.score_samples(X[:200])
            scores[name].append(time.process_time() - began)
    for name in cases:
        short = shown(f"{name}: {steps // 3} steps", times[f"{name}: {steps // 3} steps"])
        long = shown(f"{name}: {steps} steps", times[f"{name}: {steps} steps"])
        print(f"{'':45} {1000 * (long - short) / (steps - steps // 3):8.2f} ms for a step")
        shown(f"{name}: score of 200 rows", scores[name])


if __name__ == "__main__":
    print(f"manifusion {manifusion.__version__}, NumPy {np.__version__}")
    {"score": score, "fit": fit, "own": own}[sys.argv[1]](*sys.argv[2:])
