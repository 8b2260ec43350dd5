"""One command: the training step of this library against PyTorch and JAX.

Run from anywhere: python3 benches/peers/engine_compare.py [--rounds 9] [--turn 1.0] [--cases sphere,torus2] [--skip-setup]
Makes benches/peers/.venv with the pinned packages of requirements.txt (the first time), builds our benchmark, checks that
all engines agree on loss, gradient and the loss after ten Adam steps to 1e-4, then lets them run in turns, in a new order
each round. A ratio is formed within a round (peer's time / our time), so that a slow spell of the machine touches both
sides; the table gives medians. Above 1 means that this library is faster.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = HERE / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
TOLERANCE = 1e-4
BARS = {
    "sphere": (1.15, 1.4),
    "torus2": (1.25, 1.25),
    "torus7": (1.15, 1.5),
    "probe": (1.15, 1.3),
    "denoising": (1.15, 1.3),
    "forward": (1.3, 1.4),
}


def set_up():
    stamp = VENV / "requirements.installed"
    wanted = (HERE / "requirements.txt").read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    subprocess.run([str(PYTHON), "-m", "pip", "install", "--quiet", "-r", str(HERE / "requirements.txt")], check=True)
    stamp.write_text(wanted)


def build():
    """The path of our benchmark program."""
    command = ["cargo", "bench", "-p", "manifusion", "--bench", "engine", "--no-run", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    targets = [m for m in messages if m.get("target", {}).get("name") == "engine" and m.get("executable")]
    return targets[-1]["executable"]


class Engine:
    """A program that answers one line per request."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            sys.exit(f"{self.name} stopped at '{request}'")
        return answer

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def check(engines, case, directory):
    """Stop unless all engines computed the same; returns the largest relative differences."""
    import numpy as np

    losses = {e.name: [float(w) for w in e.ask(f"check {case}").split()] for e in engines}
    results = {e.name: np.fromfile(directory / case / e.name, "<f4").astype(float) for e in engines}
    ours, worst = results["ours"], [0.0, 0.0]
    for name, result in results.items():
        error = np.linalg.norm(result - ours) / np.linalg.norm(ours)
        loss = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(losses[name], losses["ours"]))
        worst = [max(worst[0], error), max(worst[1], loss)]
        if not (error < TOLERANCE and loss < TOLERANCE):
            sys.exit(f"{case}: {name} disagrees: gradient {error:.1e}, loss {loss:.1e} ({losses[name]}, {losses['ours']})")
    return worst


def measure(engines, rounds, turn, shuffle):
    """Milliseconds per step of each engine and round."""
    counts = {}
    for engine in engines:
        engine.ask("time 2")
        counts[engine.name] = max(2, round(turn * 1e3 / float(engine.ask("time 2"))))
    times = {engine.name: [] for engine in engines}
    for _ in range(rounds):
        shuffle.shuffle(engines)
        for engine in engines:
            time.sleep(0.3)  # the threads of the engine before go to sleep
            engine.ask("time 2")  # and its data leave the caches
            times[engine.name].append(float(engine.ask(f"time {counts[engine.name]}")))
    return times


def ratio(times, peer):
    return statistics.median(p / o for p, o in zip(times[peer], times["ours"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--turn", type=float, default=1.0, help="seconds of one turn")
    parser.add_argument("--cases", default=",".join(BARS))
    parser.add_argument("--partitions", default="2")
    parser.add_argument("--skip-setup", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        if not options.skip_setup:
            set_up()
        sys.exit(subprocess.run([str(PYTHON), __file__, *sys.argv[1:], "--inside"]).returncode)

    import engine_cases

    program = build()
    shuffle = random.Random(1)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        for case in engine_cases.CASES:
            engine_cases.make(case, directory / case.name)
        engines = [
            Engine("ours", [program, "--serve", temporary, "--partitions", options.partitions]),
            Engine("torch-stacked", [sys.executable, str(HERE / "engine_torch.py"), temporary, "stacked"]),
            Engine("torch-paper", [sys.executable, str(HERE / "engine_torch.py"), temporary, "paper"]),
            Engine("jax", [sys.executable, str(HERE / "engine_jax.py"), temporary]),
        ]
        by_name = {engine.name: engine for engine in engines}
        report(engines, by_name, directory, options, shuffle)
        for engine in engines:
            engine.stop()


def report(engines, by_name, directory, options, shuffle):
    import importlib.metadata

    versions = {name: importlib.metadata.version(name) for name in ("torch", "jax")}
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown")
    print(f"{model}, {os.cpu_count()} cores, {platform.system()}; torch {versions['torch']}, jax {versions['jax']}")
    print(f"{options.rounds} rounds, turns of {options.turn} s, medians; ratio = peer's time / ours, bar in brackets")
    print("| work | ours, ms | share of FMA peak | torch compiled, ms | torch paper, ms | JAX, ms | to best torch | to JAX | grad. diff. |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in options.cases.split(","):
        for engine in engines:
            engine.ask(f"load {case}")
        difference = check(engines, case, directory)
        times = measure(engines, options.rounds, options.turn, shuffle)
        median = {name: statistics.median(t) for name, t in times.items()}
        best = min(("torch-stacked", "torch-paper"), key=lambda name: median[name])
        peak, work = float(by_name["ours"].ask("peak")), float(by_name["ours"].ask("work"))
        share = work / (median["ours"] * 1e-3) / peak
        torch_bar, jax_bar = BARS[case]
        print(
            f"| {case} | {median['ours']:.2f} | {100 * share:.0f} % | {median['torch-stacked']:.2f} | {median['torch-paper']:.2f} "
            f"| {median['jax']:.2f} | {ratio(times, best):.2f} ({torch_bar}) | {ratio(times, 'jax'):.2f} ({jax_bar}) "
            f"| {difference[0]:.0e} |",
            flush=True,
        )
    memory = ", ".join(f"{name} {engine.ask('memory')}" for name, engine in sorted(by_name.items()))
    print(f"largest resident memory, MB: {memory}")


if __name__ == "__main__":
    main()
