"""How much smoothing one network wants: trainings by numbers of steps over sets, seeds and values of `train.smoothing`.

    cargo build --release
    python3 benches/smoothing_sweep.py run --data DATA [--out results/smoothing-sweep.jsonl] [--sets flood rna] [--seeds 0 1 2] [--part 0 2]
    python3 benches/smoothing_sweep.py table [--out results/smoothing-sweep.jsonl]

A finished run is one line of JSON and is not made again; `--part I N` makes every Nth run, so that several can work side by side. Trainings have one
thread and no budget of time, so that other work on the machine changes nothing but how long they take. Needs Python alone.
"""

import argparse
import collections
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VALUES = [0, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2]
# What is read, on which manifold, and how many steps one network has. Points are not stretched but on T⁷.
SETS = {
    "flood": (["flood.csv", "sphere:2"], 6000),
    "sphere-mixture": (["synthetic:sphere-mixture", None, "--rows", "2000"], 3000),
    "hyperbolic-mixture": (["synthetic:hyperbolic-mixture", "hyperbolic:2,metric=lorentz", "--rows", "5000"], 3000),
    "glycine": (["protein_glycine.csv", "torus:2"], 3000),
    "so3-frames": (["so3_protein_frames.csv", "so:3"], 3000),
    "rna": (["rna.csv", "torus:7"], 5000),
    "earthquake-dedup": (["earthquake.csv", "sphere:2", "--dedup"], 6000),
    "fire": (["fire.csv", "sphere:2"], 6000),
}


def finished(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def one(program, data, name, seed, value):
    (source, manifold, *more), steps = SETS[name]
    source = source if source.startswith("synthetic:") else str(data / source)
    where = ["--manifold", manifold] if manifold else []
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        fixed = ["--method", "rdm", "--threads", "1", "--quiet", "--seed", str(seed), "--steps", str(steps)]
        stretch = 0.25 if name == "rna" else 0
        chosen = ["--set", f"train.smoothing={value}", "--set", f"train.stretch={stretch}"]
        train = [program, "train", "--data", source, *where, *more, *fixed, *chosen, "--out", out]
        subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
        judge = [program, "evaluate", out, "--bound-points", "0", "--mass-points", "0", "--threads", "1", "--json", "--quiet"]
        found = json.loads(subprocess.run(judge, check=True, stdout=subprocess.PIPE).stdout)
        summary = json.loads((Path(out) / "summary.json").read_text())
    return {
        "set": name,
        "seed": seed,
        "c": value,
        "nll": found["nll"],
        "kernel": found["kernel_nll"],
        "truth": found["true_nll"],
        "validation": summary["validation_nll"],
        "best": summary["best_step"],
        "steps": summary["steps"],
    }


def run(args):
    done = {(row["set"], row["seed"], row["c"]) for row in finished(args.out)}
    jobs = [(name, seed, value) for seed in args.seeds for name in args.sets for value in VALUES]
    for number, job in enumerate(jobs):
        if number % args.part[1] == args.part[0] and job not in done:
            row = one(args.program, args.data, *job)
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


def table(args):
    """Means over the seeds that have every value; validation / test, the best of each in bold."""
    rows = collections.defaultdict(dict)
    for row in finished(args.out):
        rows[row["set"], row["seed"]][row["c"]] = row
    print("| data | seeds | steps, at most | " + " | ".join(f"c = {value}" for value in VALUES) + " | kernel mixture | ground truth |")
    print("|---" * (5 + len(VALUES)) + "|")
    for name in SETS:
        whole = [found for (other, _), found in sorted(rows.items()) if other == name and len(found) == len(VALUES)]
        if not whole:
            continue
        means = {key: [statistics.mean(found[value][key] for found in whole) for value in VALUES] for key in ("validation", "nll")}

        def cell(key, number):
            text = f"{means[key][number]:.3f}".replace("-", "−")
            return f"**{text}**" if means[key][number] == min(means[key]) else text

        cells = [f"{cell('validation', number)} / {cell('nll', number)}" for number in range(len(VALUES))]
        kernel = f"{statistics.mean(found[0]['kernel'] for found in whole):.3f}".replace("-", "−")
        truths = [found[0]["truth"] for found in whole]
        truth = "" if truths[0] is None else f"{statistics.mean(truths):.3f}".replace("-", "−")
        print(f"| {name} | {len(whole)} | {SETS[name][1]} | " + " | ".join(cells) + f" | {kernel} | {truth} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "smoothing-sweep.jsonl")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--program", default=str(ROOT / "target" / "release" / "manifusion"))
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--part", nargs=2, type=int, default=[0, 1])
    args = parser.parse_args()
    {"run": run, "table": table}[args.command](args)


if __name__ == "__main__":
    main()
