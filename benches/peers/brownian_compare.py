"""One command: Brownian motion on S^2, 512 points x 100 Heun steps, this library against PyTorch and JAX.

Run from anywhere: python3 benches/peers/brownian_compare.py [--rounds 5] [--seconds 3] [--skip-setup]
Makes benches/peers/.venv with the pinned packages of requirements.txt (the first time; torch brings several GB), builds
`cargo bench -p manifusion --bench brownian`, then runs all engines one after the other, in a new order each round, for
several rounds. A ratio is formed within a round (peer time / our time), so that a slow spell of the machine touches both sides;
the table gives the median of the ratios and their range. Above 1 means that this library is faster.
Needs only the Python standard library outside the venv.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = HERE / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
WORK = "heun_s2_512x100"
OURS = "manifusion"


def set_up():
    stamp = VENV / "requirements.installed"
    wanted = (HERE / "requirements.txt").read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    subprocess.run([str(PYTHON), "-m", "pip", "install", "--quiet", "-r", str(HERE / "requirements.txt")], check=True)
    stamp.write_text(wanted)


def results(command):
    """Run a command; every line of its output that starts with '{' is a result."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(command)}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def dtype_of(result):
    """The precision of a result: its own word for it, else the suffix of the workload, else f64."""
    return result.get("dtype") or ("f32" if "f32" in result["work"] else "f64")


def ours():
    return results(["cargo", "bench", "-p", "manifusion", "--bench", "brownian"])


def peer(script, dtype, seconds, form):
    command = [str(PYTHON), str(HERE / script), "--dtype", dtype, "--seconds", str(seconds)]
    return results(command + (["--form", form] if form else []))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each peer measurement")
    parser.add_argument("--skip-setup", action="store_true", help="use the venv as it is")
    args = parser.parse_args()
    if not args.skip_setup:
        set_up()
    subprocess.run(["cargo", "bench", "-p", "manifusion", "--bench", "brownian", "--no-run"], cwd=ROOT, check=True)

    scripts = {"torch": "brownian_torch.py", "jax": "brownian_jax.py"}
    engines = [(OURS, None)] + [(name, dtype) for name in scripts for dtype in ("f64", "f32")]
    forms, rounds, versions = {}, [], {}
    # round 0 chooses the fastest form of each peer, and is not counted
    for number in range(args.rounds + 1):
        order = engines[:]
        random.Random(number).shuffle(order)
        found = {}
        for name, dtype in order:
            if name == OURS:
                for r in ours():
                    if r["work"].startswith(WORK):
                        key = (OURS, dtype_of(r), r["work"])
                        found[key] = r
                continue
            for r in peer(scripts[name], dtype, args.seconds, forms.get((name, dtype))):
                found[(name, dtype_of(r), r["work"])] = r
                forms.setdefault((name, dtype), r.get("form"))
                versions[name] = r.get("version")
        if not any(key[0] == OURS for key in found):
            sys.exit(f"the bench printed no result whose work starts with {WORK}")
        if number > 0:
            rounds.append(found)
        print(f"round {number} of {args.rounds} done" + (" (warm-up)" if number == 0 else ""), file=sys.stderr, flush=True)

    print(f"machine: {platform.machine()}, {os.cpu_count()} CPUs, {platform.system()}; " + ", ".join(f"{k} {v}" for k, v in sorted(versions.items())))
    for (name, dtype), form in sorted(forms.items()):
        print(f"form of {name} {dtype}: {form}")
    keys = sorted({k for found in rounds for k in found})
    print(f"\n{'engine':<12} {'type':<5} {'work':<28} {'median ms':>10} {'min ms':>10}   (median over rounds, least over rounds)")
    for key in keys:
        rows = [found[key] for found in rounds if key in found]
        print(f"{key[0]:<12} {key[1]:<5} {key[2]:<28} {statistics.median(r['median_ms'] for r in rows):>10.4f} {min(r['min_ms'] for r in rows):>10.4f}")
    print(f"\n{'ours':<34} {'peer':<12} {'ratio of medians':>17} {'range':>16} {'ratio of minima':>16}")
    summary = []
    for mine in (k for k in keys if k[0] == OURS):
        for other in (k for k in keys if k[0] != OURS):
            pairs = [(found[mine], found[other]) for found in rounds if mine in found and other in found]
            medians = [b["median_ms"] / a["median_ms"] for a, b in pairs]
            minima = [b["min_ms"] / a["min_ms"] for a, b in pairs]
            label = f"{mine[2]} ({mine[1]})"
            note = "" if mine[1] == other[1] else "   other precision"
            spread = f"{min(medians):.2f} .. {max(medians):.2f}"
            print(f"{label:<34} {other[0] + ' ' + other[1]:<12} {statistics.median(medians):>17.2f} {spread:>16} {statistics.median(minima):>16.2f}{note}")
            summary.append({"ours": mine[2], "our_dtype": mine[1], "peer": other[0], "peer_dtype": other[1], "rounds": len(pairs),
                            "ratio_median": statistics.median(medians), "ratio_low": min(medians), "ratio_high": max(medians),
                            "ratio_min": statistics.median(minima)})
    print(json.dumps({"work": WORK, "versions": versions, "ratios": summary}))


if __name__ == "__main__":
    main()
