"""A scorer for Ray Data.

    import ray
    from manifusion.ray import Scorer

    rows = ray.data.read_parquet("s3://…")
    pool = ray.data.ActorPoolStrategy(size=8)
    scored = rows.map_batches(
        Scorer, fn_constructor_args=("runs/quakes",), compute=pool, num_cpus=1
    )

Each actor loads the model once. Ray itself is not imported here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._saved import SavedModel

__all__ = ["Scorer"]


class Scorer:
    """Adds a column of log-densities to batches: NumPy columns, pandas data frames or Arrow tables.

    Parameters
    ----------
    model : path or SavedModel
        The folder of a saved model, under the same path on every node.
    column : str
        The name of the new column.
    threads : int
        Threads of an actor; as many as its ``num_cpus``.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | SavedModel,
        column: str = "log_density",
        threads: int = 1,
    ) -> None:
        self.column, self.threads = column, threads
        self.saved = model if isinstance(model, SavedModel) else SavedModel(model)

    def __call__(self, batch: Any) -> Any:
        model = self.saved.model()
        # Rows of ``ray.data.from_numpy`` are one column of vectors.
        only = next(iter(batch.values())) if isinstance(batch, Mapping) and len(batch) == 1 else None
        rows = only if only is not None and np.ndim(only) == 2 else batch
        data, names = model._new_rows(rows)
        found = model._fitted().log_density(data, names, self.threads, None)
        if isinstance(batch, Mapping):
            return {**batch, self.column: found}
        if hasattr(batch, "append_column"):
            import pyarrow as pa

            return batch.append_column(self.column, pa.array(found))
        return batch.assign(**{self.column: found})
