import os
from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FORMS",
    "MANIFOLDS",
    "Manifold",
    "Run",
    "__version__",
    "compare_check",
    "compare_run",
    "compare_table",
    "contours",
    "geojson",
    "grid",
    "html",
    "methods",
    "plot",
]

__version__: str
MANIFOLDS: str
FORMS: list[str]

_Show = Callable[[str, float | None], None]

def methods() -> list[dict[str, Any]]: ...
def compare_check(
    changes: list[str], open: list[str], methods: list[str], seeds: list[int]
) -> list[str]: ...
def compare_run(
    changes: list[str],
    open: list[str],
    method: str,
    seed: int,
    out: str | os.PathLike[str],
    threads: int | None = None,
    show: _Show | None = None,
) -> str: ...
def compare_table(results: list[str]) -> tuple[str, str]: ...

@final
class Manifold:
    def __new__(cls, spec: str) -> Manifold: ...
    @staticmethod
    def from_functions(
        name: str,
        dim: int,
        ambient_dim: int,
        tangent: Callable[[NDArray[np.float64], NDArray[np.float64]], ArrayLike],
        project: Callable[[NDArray[np.float64]], ArrayLike],
    ) -> Manifold: ...
    def check(self) -> list[dict[str, Any]]: ...
    @property
    def is_own(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def ambient_dim(self) -> int: ...
    @property
    def log_volume(self) -> float | None: ...
    def project(self, x: ArrayLike) -> NDArray[np.float64]: ...
    def residual(self, x: ArrayLike) -> NDArray[np.float64]: ...
    def tangent(self, x: ArrayLike, u: ArrayLike) -> NDArray[np.float64]: ...
    def retract(self, x: ArrayLike, u: ArrayLike) -> NDArray[np.float64]: ...
    def frame(self, x: ArrayLike) -> NDArray[np.float64]: ...
    def random(self, n: int, seed: int = 0) -> NDArray[np.float64]: ...
    def prior_log_density(self, x: ArrayLike) -> NDArray[np.float64]: ...
    def noise(self, x: ArrayLike, s: ArrayLike, seed: int = 0) -> NDArray[np.float64]: ...
    def heat_kernel(self, x: ArrayLike, y: ArrayLike, s: ArrayLike) -> NDArray[np.float64]: ...
    def heat_kernel_score(
        self, x: ArrayLike, y: ArrayLike, s: ArrayLike
    ) -> NDArray[np.float64]: ...
    def from_form(self, rows: ArrayLike, form: str) -> NDArray[np.float64]: ...
    def to_form(self, x: ArrayLike, form: str) -> NDArray[np.float64]: ...

@final
class Run:
    @staticmethod
    def fit(
        changes: list[str],
        open: list[str],
        x: Any,
        names: list[str] | None,
        threads: int | None = None,
        show: _Show | None = None,
        own: Manifold | None = None,
    ) -> Run: ...
    @staticmethod
    def open(path: str | os.PathLike[str], own: Manifold | None = None) -> Run: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def log_density(
        self,
        x: Any,
        names: list[str] | None,
        threads: int | None = None,
        show: _Show | None = None,
    ) -> NDArray[np.float64]: ...
    def sample(
        self, n: int, seed: int, threads: int | None = None, show: _Show | None = None, first: int = 0
    ) -> NDArray[np.float64]: ...
    def evaluate(
        self,
        x: Any,
        names: list[str] | None,
        options: str,
        seed: int,
        threads: int | None = None,
        show: _Show | None = None,
    ) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def manifold(self) -> str: ...
    @property
    def geometry(self) -> Manifold: ...
    @property
    def form(self) -> str: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def width(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def data(self) -> str: ...
    @property
    def section(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def parameters(self) -> int | None: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def remarks(self) -> list[str]: ...

def plot(
    run: Run,
    x: Any,
    names: list[str] | None,
    kind: str | None,
    width: int,
    value: str,
    evaluations: int,
    coastlines: bool,
    samples: bool,
    threads: int | None = None,
    show: _Show | None = None,
) -> tuple[bytes, str]: ...
def grid(
    run: Run, evaluations: int, threads: int | None = None, show: _Show | None = None
) -> dict[str, Any]: ...
def contours(
    run: Run,
    levels: list[float],
    shares: list[float],
    evaluations: int,
    threads: int | None = None,
    show: _Show | None = None,
) -> list[dict[str, Any]]: ...
def geojson(
    run: Run, evaluations: int, threads: int | None = None, show: _Show | None = None
) -> str: ...
def html(
    run: Run,
    x: Any,
    names: list[str] | None,
    evaluations: int,
    coastlines: bool,
    threads: int | None = None,
    show: _Show | None = None,
) -> str: ...
