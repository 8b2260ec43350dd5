"""What users give as rows, as arrays that the extension module takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _arrow


def rows(X: Any) -> tuple[Any, list[str] | None]:
    """Float64 columns with their names for a table, else a two-dimensional array and None.

    Tables are pandas and polars data frames, dictionaries of columns, and whatever has
    ``__arrow_c_stream__``, such as those of pyarrow.
    """
    frame = _frame(X)
    if frame is None:
        return _array(X), None
    names, columns = frame
    length = next((len(c) for c in columns if not isinstance(c, str)), 0)
    if not columns or not length:
        shape = (length, len(columns))
        raise ValueError(
            f"0 sample(s) (shape={shape}) while a minimum of 1 is required."
            if columns
            else f"0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )
    return [_column(column) for column in columns], names


def _frame(X: Any) -> tuple[list[str], list[Any]] | None:
    """Names and columns of a table."""
    if hasattr(X, "collect_schema") and not hasattr(X, "get_columns"):
        raise ValueError("X is a lazy frame; call its collect() first")
    if hasattr(X, "get_columns") and hasattr(X, "columns"):
        return [str(name) for name in X.columns], list(X.get_columns())
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        columns = [X.iloc[:, i] for i in range(X.shape[1])]
        if all(isinstance(name, str) for name in X.columns):
            return list(X.columns), columns
        # Numbers are places, not names.
        return None
    if isinstance(X, Mapping):
        columns = [np.asarray(column) for column in X.values()]
        wrong = [(n, c.shape) for n, c in zip(X, columns) if c.ndim != 1]
        if wrong:
            raise ValueError(f"column {wrong[0][0]!r} has shape {wrong[0][1]}; one number per row")
        return [str(name) for name in X], columns
    if hasattr(X, "__arrow_c_stream__"):
        return _arrow.columns(X)
    return None


def _column(column: Any) -> Any:
    """Its numbers, or the name of its type."""
    if isinstance(column, str):
        return column
    values = np.asarray(column)
    if values.dtype.kind == "O":
        # Nullable numbers arrive as objects; a missing one is an error of the row that has it.
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            return str(column.dtype)
    if values.dtype.kind not in "fiub":
        return str(column.dtype)
    return values.astype(np.float64, copy=False)


def _array(X: Any) -> Any:
    if hasattr(X, "tocsr"):
        raise TypeError("Sparse data was passed for X, but dense data is required.")
    array = np.asarray(X)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X has dtype {array.dtype}")
    if array.dtype.kind not in "fiubO":
        raise ValueError(f"X has dtype {array.dtype}; numbers are needed")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: X has shape {array.shape}. "
            "Reshape your data, one row per point: X.reshape(1, -1) for a single point."
        )
    for axis, what in ((0, "sample"), (1, "feature")):
        if array.shape[axis] == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={array.shape}) "
                "while a minimum of 1 is required."
            )
    return array.astype(np.float64, copy=False)
