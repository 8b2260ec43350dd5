"""A model in its folder, for the processes of a cluster."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._estimators import load

if TYPE_CHECKING:
    from ._estimators import Estimator

# What a model is read from; the record of the training and evaluations may change beside it.
_READ = ("config.toml", "data.json", "split.json")

_loaded: dict[tuple[str, str], Estimator] = {}
_lock = threading.Lock()


def _hash(folder: Path) -> str:
    """SHA-256 of the files that make the model."""
    names = [*_READ, *(f.name for f in folder.glob("*.safetensors") if f.stem != "checkpoint")]
    whole = hashlib.sha256()
    for name in sorted(names):
        file = folder / name
        if file.is_file():
            content = file.read_bytes()
            whole.update(f"{name} {len(content)}\n".encode())
            whole.update(content)
    return whole.hexdigest()


class SavedModel:
    """A saved model that is pickled as its path and the hash of its files.

    Every process loads it once. The path must be the same folder in all of them, and a folder whose
    files have changed since is an error.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        # Reading it finds now what would otherwise be found by every process.
        self._model = load(self.path)
        self.hash = _hash(Path(self.path))

    def __reduce__(self) -> Any:
        return _promised, (self.path, self.hash)

    def __repr__(self) -> str:
        return f"SavedModel({self.path!r})"

    def model(self) -> Estimator:
        """The estimator."""
        known: Estimator | None = self.__dict__.get("_model")
        if known is not None:
            return known
        with _lock:
            key = (self.path, self.hash)
            if key not in _loaded:
                found = _hash(Path(self.path))
                if found != self.hash:
                    raise ValueError(
                        f"the model in {self.path} has changed: its files have the hash "
                        f"{found[:12]}…, and {self.hash[:12]}… was sent"
                    )
                _loaded[key] = load(self.path)
            return _loaded[key]

    def __dask_tokenize__(self) -> Any:
        return ("manifusion.SavedModel", self.path, self.hash)


def _promised(path: str, hash: str) -> SavedModel:
    """The model in another process, which loads it when it is needed."""
    saved = SavedModel.__new__(SavedModel)
    saved.path, saved.hash = path, hash
    return saved
