"""Training steps of two builds of the engine's bench in turns.

    cargo bench -p manifusion --bench engine --no-run      # prints the program's path; once in each state
    python3 benches/peers/engine_turns.py OLD NEW [--partitions 2 8] [--threads 2] [--turns 40]

Prints medians over the turns of new / old for each case: of the time that passed, and of the processor time of all threads, which other
programs on a busy machine disturb less (Linux only). Needs numpy.
"""

import argparse
import glob
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from engine_cases import BY_NAME, make


class Engine:
    def __init__(self, program, folder, partitions, threads):
        command = [program, "--serve", folder, "--partitions", str(partitions), "--threads", str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def cpu_seconds(self):
        stats = glob.glob(f"/proc/{self.process.pid}/task/*/schedstat")
        return sum(int(Path(stat).read_text().split()[0]) for stat in stats) / 1e9

    def steps(self, count):
        start, cpu = time.perf_counter(), self.cpu_seconds()
        self.ask(f"time {count}")
        return time.perf_counter() - start, self.cpu_seconds() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--partitions", nargs=2, type=int, default=[2, 8], metavar=("OLD", "NEW"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--cases", nargs="*", default=["sphere", "torus2", "torus7", "probe", "denoising"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = zip([args.old, args.new], args.partitions)
        engines = [Engine(program, folder, partitions, args.threads) for program, partitions in programs]
        for name in args.cases:
            make(BY_NAME[name], Path(folder) / name)
            for engine in engines:
                if engine.ask(f"load {name}") != "ok":
                    raise SystemExit(f"case {name} was not loaded")
                engine.ask("time 2")
            turns = []
            for turn in range(args.turns):
                took = {i: engines[i].steps(3) for i in ([0, 1] if turn % 2 == 0 else [1, 0])}
                turns.append((took[0], took[1]))
            line = f"{name:10}"
            for what, unit in [(0, "time"), (1, "processor time")]:
                low, middle, high = statistics.quantiles([new[what] / old[what] for old, new in turns], n=4)
                best = [min(turn[i][what] for turn in turns) / 3 * 1e3 for i in (0, 1)]
                line += f"  {unit} {middle:.3f} ({low:.3f} to {high:.3f}), best {best[0]:.1f} and {best[1]:.1f} ms"
            print(line, flush=True)
        memory = [engine.ask("memory") for engine in engines]
        print(f"largest resident memory {memory[0]} and {memory[1]} MB")


if __name__ == "__main__":
    main()
