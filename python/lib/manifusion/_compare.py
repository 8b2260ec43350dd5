"""Methods against each other: every method on every seed, judged on the same held-out rows."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._estimators import _json
from ._rows import rows


class Comparison:
    """The table of a comparison, the best method first.

    ``methods`` has a dictionary for each method (``standing``, ``nll`` and its spread over the
    seeds, ``difference`` from the best with its standard error, times), ``results`` what came of
    each run. Printed, and shown by notebooks, it is a table.
    """

    def __init__(self, results: list[str]) -> None:
        table, self.markdown = _native.compare_table(results)
        self.results: list[dict[str, Any]] = [json.loads(result) for result in results]
        self.methods: list[dict[str, Any]] = json.loads(table)["methods"]

    def __repr__(self) -> str:
        return self.markdown

    def _repr_markdown_(self) -> str:
        return self.markdown


class Prepared(NamedTuple):
    """A comparison that was checked: what all of its runs have in common."""

    path: str | None
    data: Any
    changes: list[str]
    left_open: list[str]
    methods: list[str]
    seeds: list[int]


def prepared(
    X: Any,
    manifold: str | _native.Manifold | None,
    methods: Sequence[str],
    seeds: Iterable[int],
    form: str | None,
    columns: list[str] | None,
    minutes: float | None,
    steps: int | None,
    settings: dict[str, Any] | None,
) -> Prepared:
    """The plan; an error where it makes no sense."""
    if minutes is not None and steps is not None:
        raise ValueError(f"minutes={minutes} and steps={steps} exclude each other")
    if isinstance(manifold, _native.Manifold) and manifold.is_own:
        raise ValueError(
            f"{manifold.name} is a manifold of your own, and a comparison keeps runs in folders, "
            "which know the manifolds of the library alone; fit the methods one by one"
        )
    path = os.path.abspath(X) if isinstance(X, (str, os.PathLike)) else None
    chosen = {
        "manifold": getattr(manifold, "name", manifold),
        "data.form": form,
        "data.columns": columns,
        "train.minutes": minutes,
        "train.steps": steps,
        **(settings or {}),
    }
    changes = [f"{key}={_json(value)}" for key, value in chosen.items() if value is not None]
    left_open = ["train.steps"] if minutes is not None else []
    left_open += ["train.minutes"] if steps is not None else []
    names, numbers = [str(method) for method in methods], [int(seed) for seed in seeds]
    for remark in _native.compare_check(changes, left_open, names, numbers):
        warnings.warn(remark, UserWarning, stacklevel=3)
    data = None
    if path is None:
        table, header = rows(X)
        data = (header, table if header is None else [np.asarray(column) for column in table])
    return Prepared(path, data, changes, left_open, names, numbers)


def run_one(
    path: str | None,
    data: Any,
    changes: list[str],
    left_open: list[str],
    method: str,
    seed: int,
    threads: int | None,
    show: Any = None,
) -> str:
    """One run in a folder that is gone afterwards, and what came of it, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        source = path if path is not None else _written(folder, *data)
        own = [*changes, f"data.source={json.dumps(source)}"]
        out = os.path.join(folder, "run")
        return _native.compare_run(own, left_open, method, seed, out, threads, show)


def _written(folder: str, names: list[str] | None, table: Any) -> str:
    """Rows as a file that the library reads, to the last bit."""
    if names is None:
        path = Path(folder, "rows.npy")
        np.save(path, np.ascontiguousarray(table))
        return str(path)
    path = Path(folder, "rows.csv")
    with path.open("w", encoding="utf-8") as file:
        kept = [(n, c) for n, c in zip(names, table) if c.dtype.kind == "f"]
        quoted = ['"' + name.replace('"', '""') + '"' for name, _ in kept]
        file.write(",".join(quoted) + "\n")
        for row in zip(*(column.tolist() for _, column in kept)):
            file.write(",".join(map(repr, row)) + "\n")
    return str(path)


def compare(
    X: Any,
    manifold: str | _native.Manifold | None = None,
    *,
    methods: Sequence[str],
    seeds: Iterable[int] = (0, 1, 2),
    form: str | None = None,
    columns: list[str] | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    settings: dict[str, Any] | None = None,
    threads: int | None = None,
) -> Comparison:
    """Methods against each other on the same rows, as ``manifusion compare`` has them.

    Every method learns on every seed; a seed decides which tenth of the rows is held out to judge
    by, and everything random.

    Parameters
    ----------
    X : rows as for ``fit``, or the path of a file
    manifold, form, columns, minutes, steps, threads : as for the estimators
    methods : list of str
        Names of the registry (``manifusion.ESTIMATORS``).
    seeds : list of int
    settings : dict, optional
        Settings by name: for every method that has them, or ``kernel.local_weights`` for one.

    Examples
    --------
    >>> import manifusion
    >>> X = manifusion.Manifold("sphere:2").random(200)
    >>> table = manifusion.compare(X, "sphere:2", methods=["vmf", "kent"], seeds=[0])
    >>> [row["method"] for row in table.methods if row["standing"] == "failed"]
    []
    """
    plan = prepared(X, manifold, methods, seeds, form, columns, minutes, steps, settings)
    results = [
        run_one(plan.path, plan.data, plan.changes, plan.left_open, method, seed, threads)
        for seed in plan.seeds
        for method in plan.methods
    ]
    return Comparison(results)
