"""Scores, samples and comparisons on a Dask cluster.

    from dask.distributed import Client
    import manifusion.dask

    client = Client("scheduler:8786")                              # the cluster that you name
    manifusion.dask.score("runs/quakes", frame)                    # a lazy column of log-densities
    manifusion.dask.sample("runs/quakes", 10**9)                   # a lazy array of draws
    manifusion.dask.compare(client, X, "sphere:2", methods=["kernel", "vmf"], seeds=range(5))

Numbers are those of one process: each row's log-density depends on the row alone, and draw i of a
seed is the same wherever it is made. A model is sent as the path of its folder and the hash of its
files, and loaded once in every worker; workers must see the folder under that path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import dask.array as da
import numpy as np

from ._compare import Comparison, prepared, run_one
from ._native import Manifold
from ._saved import SavedModel

__all__ = ["SavedModel", "compare", "sample", "score"]


def _saved(model: Any) -> SavedModel:
    if isinstance(model, SavedModel):
        return model
    if isinstance(model, (str, os.PathLike)):
        return SavedModel(model)
    raise TypeError(
        f"{type(model).__name__} is no saved model; give the folder of save(), so that workers "
        "can load it"
    )


def _log_density(part: Any, saved: SavedModel, threads: int) -> Any:
    model = saved.model()
    data, names = model._new_rows(part)
    return model._fitted().log_density(data, names, threads, None)


def _score_array(part: Any, saved: SavedModel, threads: int) -> Any:
    return _log_density(part, saved, threads) if len(part) else np.empty(0)


def _score_frame(part: Any, saved: SavedModel, threads: int) -> Any:
    import pandas as pd

    found = _score_array(part, saved, threads)
    return pd.Series(found, index=part.index, name="log_density", dtype="float64")


def _sample_array(
    saved: SavedModel, seed: int, threads: int, block_info: Any = None
) -> Any:
    first, end = block_info[None]["array-location"][0]
    return saved.model()._fitted().sample(end - first, seed, threads, None, first)


def _sample_frame(rows: tuple[int, int], saved: SavedModel, seed: int, threads: int) -> Any:
    import pandas as pd

    first, end = rows
    run = saved.model()._fitted()
    drawn = run.sample(end - first, seed, threads, None, first)
    return pd.DataFrame(drawn, columns=run.names, index=pd.RangeIndex(first, end))


def score(model: str | os.PathLike[str] | SavedModel, X: Any, *, threads: int = 1) -> Any:
    """Log-densities of the rows of a Dask data frame or array, lazily and partition by partition.

    Parameters
    ----------
    model : path or SavedModel
        The folder of a saved model.
    X : dask.dataframe.DataFrame or dask.array.Array
        Rows in the form of the model's data: by their names, or in the form's order.
    threads : int
        Threads of each task; 1 leaves the cores to Dask.

    Returns
    -------
    dask.dataframe.Series or dask.array.Array
        With the partitions of X.
    """
    saved = _saved(model)
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise ValueError(f"X has {X.ndim} dimensions; rows of an array with 2 are needed")
        # A row is not divided.
        X = X.rechunk({1: -1})
        return X.map_blocks(
            _score_array, saved, threads, drop_axis=1, dtype=np.float64, meta=np.empty(0)
        )
    if hasattr(X, "map_partitions"):
        meta = ("log_density", "float64")
        return X.map_partitions(_score_frame, saved, threads, meta=meta)
    raise TypeError(f"X is a {type(X).__name__}; a Dask data frame or array is needed")


def sample(
    model: str | os.PathLike[str] | SavedModel,
    n: int,
    *,
    seed: int | None = None,
    chunk: int = 100_000,
    frame: bool = False,
    threads: int = 1,
) -> Any:
    """n draws as a lazy Dask array, or as a data frame with the names of the model's columns.

    Row i is row i of ``model.sample(n, seed)``, whatever the size of chunks.
    """
    saved = _saved(model)
    run = saved.model()._fitted()
    seed = run.seed if seed is None else seed
    if n < 1 or chunk < 1:
        raise ValueError(f"n = {n} and chunk = {chunk} are not allowed; at least 1 each")
    if not frame:
        sizes = tuple(min(chunk, n - first) for first in range(0, n, chunk))
        return da.map_blocks(
            _sample_array,
            saved,
            seed,
            threads,
            chunks=(sizes, (run.width,)),
            dtype=np.float64,
            meta=np.empty((0, 0)),
        )
    import dask.dataframe as dd
    import pandas as pd

    if not run.names:
        raise ValueError("the model's data have no names of columns; sample an array instead")
    rows = [(first, min(first + chunk, n)) for first in range(0, n, chunk)]
    return dd.from_map(
        _sample_frame,
        rows,
        saved=saved,
        seed=seed,
        threads=threads,
        meta=pd.DataFrame({name: np.empty(0) for name in run.names}),
    )


def compare(
    client: Any,
    X: Any,
    manifold: str | Manifold | None = None,
    *,
    methods: Sequence[str],
    seeds: Iterable[int] = (0, 1, 2),
    form: str | None = None,
    columns: list[str] | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    settings: dict[str, Any] | None = None,
    threads: int = 1,
) -> Comparison:
    """Methods against each other, a task of the cluster for each method and seed.

    The same as ``manifusion.compare``, on the cluster of ``client`` (a
    ``dask.distributed.Client``). Rows are sent to the workers; a path is read by each of them. A
    run whose worker dies is made again by another.
    """
    plan = prepared(X, manifold, methods, seeds, form, columns, minutes, steps, settings)
    data = client.scatter(plan.data, broadcast=True) if plan.path is None else None
    tasks = [
        client.submit(
            run_one, plan.path, data, plan.changes, plan.left_open, method, seed, threads, pure=False
        )
        for seed in plan.seeds
        for method in plan.methods
    ]
    return Comparison(client.gather(tasks))
