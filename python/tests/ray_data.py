"""Run by test_scale.py in a process of its own: ``ray_data.py RUN ROWS.npy``.

Scores rows by Ray Data on this machine and compares with one process. Every stage is printed, so
that a run which takes too long says where.
"""

import sys
import time

import numpy as np
import ray
import ray.data

import manifusion
from manifusion.ray import Scorer


def main(folder: str, file: str) -> None:
    began = time.monotonic()

    def reached(stage: str) -> None:
        print(f"{time.monotonic() - began:.1f} s: {stage}", flush=True)

    X = np.load(file)
    # Little memory: the default is a third of the machine's, all of it in /dev/shm.
    ray.init(
        num_cpus=2, object_store_memory=100 * 2**20, include_dashboard=False, log_to_driver=False
    )
    reached("started")
    try:
        rows = ray.data.from_numpy(np.array_split(X, 4))
        reached("rows are there")
        scored = rows.map_batches(
            Scorer,
            fn_constructor_args=(folder,),
            compute=ray.data.ActorPoolStrategy(size=2),
            batch_size=100,
        )
        batches = list(scored.iter_batches(batch_format="numpy", batch_size=None))
        reached("scored")
    finally:
        ray.shutdown()
    data = np.concatenate([batch["data"] for batch in batches])
    found = np.concatenate([batch["log_density"] for batch in batches])
    assert sorted(map(tuple, data)) == sorted(map(tuple, X))
    assert (found == manifusion.load(folder).score_samples(data)).all()
    reached("the same numbers")


if __name__ == "__main__":
    main(*sys.argv[1:])
