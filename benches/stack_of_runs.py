"""What finished runs on one split would give as a stack: weights by EM on the validation points, NLL of the test points.

    manifusion compare --data FILE --manifold SPEC --methods rdm,parzen --seeds 3 --minutes 10 --out BOTH
    python3 benches/stack_of_runs.py --data FILE --manifold SPEC BOTH/runs/rdm-seed0 BOTH/runs/parzen-seed0

The stack of the program has networks that share the time; this one has networks that had all of it, each. Needs Python alone.
"""

import argparse
import csv
import json
import math
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def rows_of(data, numbers, path):
    """Writes the rows of a CSV file with these numbers."""
    with open(data, newline="") as file:
        head, *rows = list(csv.reader(file))
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([head, *(rows[number] for number in numbers)])


def log_densities(args, run, numbers):
    with tempfile.TemporaryDirectory() as folder:
        rows, scored = Path(folder) / "rows.csv", Path(folder) / "scored.csv"
        rows_of(args.data, numbers, rows)
        command = [args.program, "score", str(run), "--data", str(rows), "--manifold", args.manifold, "--out", str(scored)]
        subprocess.run([*command, "--threads", str(args.threads), "--quiet"], check=True, stdout=subprocess.DEVNULL)
        with open(scored, newline="") as file:
            return [float(row["log_density"]) for row in csv.DictReader(file)]


def mixed(weights, values):
    most = max(values)
    return most + math.log(sum(weight * math.exp(value - most) for weight, value in zip(weights, values)))


def weights_of(values):
    """EM with one pseudo-observation per member; `values[i][k]` is the log-density of point i by member k."""
    members = len(values[0])
    weights = [1 / members] * members
    for _ in range(1000):
        counts = [1.0] * members
        for row in values:
            whole = mixed(weights, row)
            for k in range(members):
                counts[k] += weights[k] * math.exp(row[k] - whole)
        weights = [count / sum(counts) for count in counts]
    return weights


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--manifold", required=True)
    parser.add_argument("--program", default=str(ROOT / "target" / "release" / "manifusion"))
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    splits = [json.loads((run / "split.json").read_text()) for run in args.runs]
    if len({split["hash"] for split in splits}) > 1:
        raise SystemExit("the runs have different splits")
    parts = {}
    for part in ("validation", "test"):
        columns = [log_densities(args, run, splits[0][part]) for run in args.runs]
        parts[part] = list(zip(*columns))
    weights = weights_of(parts["validation"])
    test = parts["test"]
    print(json.dumps({
        "weights": weights,
        "alone": [-sum(row[k] for row in test) / len(test) for k in range(len(weights))],
        "nll": -sum(mixed(weights, row) for row in test) / len(test),
    }))


main()
