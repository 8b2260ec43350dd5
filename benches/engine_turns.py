#!/usr/bin/env python3
"""Training steps of two builds of the engine's bench in turns.

    cargo bench -p manifusion --bench engine --no-run      # prints the program's path, in each state
    python3 benches/engine_turns.py OLD NEW [--partitions 2 8] [--threads 2] [--turns 40]

Prints, for each case, medians over the turns of new / old: time that passed, and processor time of
all threads, which another program on a busy machine disturbs less.
"""

import argparse
import statistics
import subprocess


class Engine:
    def __init__(self, program, partitions, threads):
        command = [program, "--serve", "-", "--partitions", str(partitions), "--threads", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--partitions", nargs=2, type=int, default=[2, 8], metavar=("OLD", "NEW"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--cases", nargs="*", default=["sphere", "torus2", "torus7", "probe", "denoising"])
    args = parser.parse_args()
    programs = zip([args.old, args.new], args.partitions)
    engines = [Engine(program, partitions, args.threads) for program, partitions in programs]
    for case in args.cases:
        for engine in engines:
            if engine.ask(f"load {case}") != "ok":
                raise SystemExit(f"no case {case}")
            engine.ask("time 2")
        line = f"{case:10}"
        for request, name in [("time 3", "time"), ("cpu 3", "processor time")]:
            ratios, medians = [], [[], []]
            for turn in range(args.turns):
                order = [0, 1] if turn % 2 == 0 else [1, 0]
                took = {i: float(engines[i].ask(request)) for i in order}
                ratios.append(took[1] / took[0])
                for i in (0, 1):
                    medians[i].append(took[i])
            low, middle, high = statistics.quantiles(ratios, n=4)
            old, new = (statistics.median(values) for values in medians)
            line += f"  {name} {middle:.3f} ({low:.3f} to {high:.3f}), {old:.1f} to {new:.1f} ms"
        print(line, flush=True)
    memory = [engine.ask("memory") for engine in engines]
    print(f"largest resident memory {memory[0]} to {memory[1]} MB")


if __name__ == "__main__":
    main()
