"""One command: exact log-densities of a trained network by this library against PyTorch with torchdiffeq.

Run from anywhere: python3 benches/peers/likelihood_compare.py [--rounds 5] [--run DIR --data FILE] [--points 2000]
Uses the environment of engine_compare.py. Trains a network on a generated set on S² for a minute (or takes a run of
`manifusion train --method rdm` and a file of points on S² as x, y, z or latitude and longitude), then scores the same
points to the same tolerance with the same weights and the exact divergence: `manifusion score` as a whole, from the start
of the program to the written file, against the solve alone in PyTorch (compiled; dopri5 in s, as peers do, and in log s).
Checks that log-densities agree, and takes turns; a ratio is formed within a round.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engine_compare import HERE, PYTHON, ROOT, Engine, set_up

TOLERANCE = "1e-5"


def build():
    command = ["cargo", "build", "--release", "-p", "manifusion-cli", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [m["executable"] for m in messages if m.get("executable")][-1]


def compare(arguments, directory):
    """Runs in the environment that has NumPy."""
    import numpy as np

    program, run, scored = build(), arguments.run, directory / "scored.csv"
    if run is None:
        run = directory / "run"
        train = [program, "train", "--data", "synthetic:sphere-mixture", "--rows", "20000", "--method", "rdm"]
        subprocess.run([*train, "--minutes", "1", "--seed", "0", "--out", run, "--quiet"], check=True)
    data = ["--data", arguments.data] if arguments.data else ["--data", "synthetic:sphere-mixture"]
    data += ["--rows", str(arguments.points), "--seed", "1"] if not arguments.data else []

    def ours():
        start = time.perf_counter()
        subprocess.run([program, "score", run, *data, "--out", scored, "--quiet"], check=True)
        return time.perf_counter() - start

    ours()
    table = np.genfromtxt(scored, delimiter=",", names=True)
    names = table.dtype.names
    if {"lat", "lon"} <= {name.lower()[:3] for name in names}:
        column = {name.lower()[:3]: np.radians(table[name]) for name in names}
        lat, lon = column["lat"], column["lon"]
        x = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], 1)
    else:
        x = np.stack([table[name] for name in names[:3]], 1)
    points = directory / "points.npy"
    np.save(points, x.astype(np.float64))
    expected = table["log_density"]

    torch = Engine("torch", [str(PYTHON), "likelihood_torch.py", str(Path(run) / "model.safetensors"), str(points)])
    rows = []
    for clock in ("time", "log-time"):
        request = f"solve {clock} {TOLERANCE} {len(x)}"
        torch.ask(request)
        difference = np.abs(np.load(f"{points}.torch.npy") - expected).max()
        ratios, seconds = [], []
        for _ in range(arguments.rounds):
            mine, theirs = ours(), json.loads(torch.ask(request))
            ratios.append(theirs["seconds"] / mine)
            seconds.append((mine, theirs["seconds"]))
        mine, peer = (statistics.median(column) for column in zip(*seconds))
        rows.append((clock, mine, peer, theirs["evaluations"], statistics.median(ratios), min(ratios), max(ratios), difference))
    torch.stop()
    print(f"{len(x)} points, tolerance {TOLERANCE}, {arguments.rounds} rounds; bar 4.0")
    for clock, mine, peer, evaluations, ratio, low, high, difference in rows:
        print(f"torchdiffeq dopri5 in {clock}: {peer:.2f} s ({evaluations:.0f} evaluations per point), ours {mine:.2f} s, "
              f"ratio {ratio:.2f} ({low:.2f} to {high:.2f}), largest difference of log p {difference:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run")
    parser.add_argument("--data")
    parser.add_argument("--points", type=int, default=2000)
    arguments = parser.parse_args()
    if Path(sys.prefix) != PYTHON.parent.parent:
        set_up()
        sys.exit(subprocess.run([str(PYTHON), str(HERE / "likelihood_compare.py"), *sys.argv[1:]]).returncode)
    with tempfile.TemporaryDirectory() as directory:
        compare(arguments, Path(directory))


if __name__ == "__main__":
    main()
