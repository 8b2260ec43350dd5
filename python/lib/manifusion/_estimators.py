"""Estimators in scikit-learn's manner, one class for every method of the registry.

scikit-learn is not needed, and not imported: the classes follow its protocol.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from . import _native
from ._progress import Progress
from ._rows import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self


class NotFittedError(ValueError, AttributeError):
    """An estimator was used before ``fit``; scikit-learn's own class is raised where it is loaded."""


class Picture(bytes):
    """The bytes of a PNG, which notebooks show; ``svg`` is the same picture as SVG."""

    svg: str

    def __new__(cls, png: bytes, svg: str) -> Picture:
        picture = super().__new__(cls, png)
        picture.svg = svg
        return picture

    def _repr_png_(self) -> bytes:
        return bytes(self)

    def __repr__(self) -> str:
        return f"<Picture, {len(self)} bytes of PNG>"

    def __reduce__(self) -> Any:
        return Picture, (bytes(self), self.svg)


class Estimator:
    """What the estimators of all methods share; use one of its subclasses.

    ``fit`` learns a density from rows, ``score_samples`` gives log-densities and ``sample`` draws.
    """

    method: ClassVar[str]
    manifold_: _native.Manifold

    def __init__(
        self,
        manifold: str | _native.Manifold | None = None,
        *,
        form: str | None = None,
        columns: list[str] | None = None,
        seed: int = 0,
        threads: int | None = None,
        progress: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.manifold = manifold
        self.form = form
        self.columns = columns
        self.seed = seed
        self.threads = threads
        self.progress = progress
        self.settings = settings

    # The protocol of scikit-learn.

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor, by name."""
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **params: Any) -> Self:
        """Changes parameters of the constructor."""
        known = sorted(self._defaults())
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. "
                    f"Valid parameters are: {known!r}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name, default in self._defaults().items()
            if repr(getattr(self, name)) != repr(default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_is_fitted__(self) -> bool:
        return "_run" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type="density_estimator",
            target_tags=TargetTags(required=False),
            input_tags=InputTags(),
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if "_run" in state:
            # As the files of its folder: one format for all that is kept.
            with tempfile.TemporaryDirectory() as folder:
                state.pop("_run").save(os.path.join(folder, "run"))
                files = Path(folder, "run").iterdir()
                state["_files"] = {file.name: file.read_bytes() for file in files}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        self.__dict__.update(state)
        if files is not None:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in files.items():
                    Path(folder, name).write_bytes(content)
                self._run = _native.Run.open(folder, _own(self.manifold_))

    # What users call.

    def fit(self, X: Any, y: None = None) -> Self:
        """Learns a density.

        Parameters
        ----------
        X : array, pandas or polars data frame
            One point per row, in the coordinates that ``form`` names. A tenth of the rows is held
            out to choose by.
        y : ignored

        Returns
        -------
        self
            With ``manifold_``, ``form_``, ``settings_`` (nothing left open), ``outcome_`` (how the
            training went), ``remarks_`` (what to know about the data, in sentences), ``stopped_``,
            ``n_features_in_`` and, for data frames, ``feature_names_in_``.

        Ctrl-C ends a training early: the estimator then has what was learned so far, with a
        RuntimeWarning.
        """
        data, names = rows(X)
        if len(data if names is None else data[0]) == 1:
            raise ValueError("X has 1 sample, and a tenth of at least 2 is held out to choose by")
        changes, left_open = self._config()
        own = _own(self.manifold)
        with self._shown() as show:
            run = _native.Run.fit(changes, left_open, data, names, self.threads, show, own)
        self._take(run)
        self.n_features_in_ = data.shape[1] if names is None else len(names)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if run.stopped:
            warnings.warn(
                "the training was stopped; the model has what was learned until then",
                RuntimeWarning,
                stacklevel=2,
            )
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The log-density of every row in nats, with respect to the volume of the manifold."""
        run = self._fitted()
        data, names = self._new_rows(X)
        with self._shown() as show:
            return run.log_density(data, names, self.threads, show)

    def score(self, X: Any, y: None = None) -> float:
        """The total log-likelihood of X in nats, as scikit-learn's ``KernelDensity.score`` has it.

        Divide by the number of rows for the mean log-density.
        """
        return float(np.sum(self.score_samples(X)))

    def sample(self, n: int = 1, seed: int | None = None) -> NDArray[np.float64]:
        """n draws as rows in the form of the training data; ``seed`` is that of the fit by default."""
        run = self._fitted()
        seed = run.seed if seed is None else seed
        with self._shown() as show:
            return run.sample(n, seed, self.threads, show)

    def evaluate(self, X: Any, seed: int = 0, **options: Any) -> dict[str, Any]:
        """Every number that the model is judged by on these rows, as ``eval.json`` has them.

        ``nll`` with its standard error and interval, bounds, the mass of the density, simple rivals
        and times. Options are ``points`` (rows that are judged, at most), ``tolerance``, ``kelbo_paths``,
        ``bound_points``, ``mass_points`` and ``bootstrap``; 0 points leave bounds and mass out.
        """
        run = self._fitted()
        data, names = self._new_rows(X)
        with self._shown() as show:
            found = run.evaluate(data, names, _json(options), seed, self.threads, show)
        return dict(json.loads(found))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keeps the model in a new folder, which ``manifusion.load`` and the command line read."""
        self._fitted().save(path)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        X: Any = None,
        kind: str | None = None,
        width: int = 1200,
        value: str = "log-density",
        evaluations: int = 10_000,
        coastlines: bool = True,
        samples: bool = False,
    ) -> Picture:
        """Draws the density, with the rows of X or else the held-out ones over it.

        ``path`` ends in ``.png`` or ``.svg``. ``kind`` is one of the command line's (``mollweide``,
        ``ramachandran``, ``corner``, ``disk``, ``rotations``, ``curves``, …), by default the
        manifold's natural one. Coastlines are drawn where rows are latitudes and longitudes.
        """
        if path is not None and Path(path).suffix.lower() not in (".png", ".svg"):
            raise ValueError(f"{path}: the name of a picture ends in .png or .svg")
        run = self._fitted()
        data, names = (None, None) if X is None else self._new_rows(X)
        with self._shown() as show:
            png, svg = _native.plot(
                run, data, names, kind, width, value, evaluations, coastlines, samples,
                self.threads, show,
            )  # fmt: skip
        if path is not None:
            is_svg = Path(path).suffix.lower() == ".svg"
            Path(path).write_bytes(svg.encode() if is_svg else png)
        return Picture(png, svg)

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, X: Any = None, coastlines: bool = True
    ) -> str:
        """The report as one HTML page, judged on X or else on the held-out rows."""
        run = self._fitted()
        data, names = (None, None) if X is None else self._new_rows(X)
        with self._shown() as show:
            page = _native.html(run, data, names, 5000, coastlines, self.threads, show)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def grid(self, evaluations: int = 10_000) -> dict[str, Any]:
        """Log-densities on a grid of two coordinates: arrays ``x``, ``y``, ``log_density`` and the
        ``volume`` of every cell, with the names of the axes and of the measure.
        """
        run = self._fitted()
        with self._shown() as show:
            return _native.grid(run, evaluations, self.threads, show)

    def contours(
        self,
        levels: Sequence[float] | None = None,
        *,
        shares: Sequence[float] = (0.5, 0.9, 0.95),
        evaluations: int = 10_000,
    ) -> list[dict[str, Any]]:
        """Lines of equal log-density in the coordinates of ``grid``, as arrays.

        One dictionary for each of ``levels`` (log-densities) or, without them, for the boundary of
        each region of highest density that holds one of ``shares`` of the mass: ``share``,
        ``log_density``, ``lines`` (arrays of shape ``(k, 2)``: x and y of the grid, longitude and
        latitude on the sphere) and ``rings`` (the same closed along the ends of the grid, to be
        filled: the region lies to the right of a ring).
        """
        run = self._fitted()
        chosen = [float(share) for share in shares] if levels is None else []
        with self._shown() as show:
            return _native.contours(
                run, [float(level) for level in levels or []], chosen, evaluations,
                self.threads, show,
            )  # fmt: skip

    def to_geojson(
        self, path: str | os.PathLike[str] | None = None, *, evaluations: int = 10_000
    ) -> str:
        """Regions of highest density and contours on the sphere, as the text of a GeoJSON file.

        For cartopy, GeoPandas and GIS programs: features have the properties ``kind``, ``share``,
        ``log_density`` and, for regions, their area. ``path`` is written if it is given.
        """
        run = self._fitted()
        with self._shown() as show:
            text = _native.geojson(run, evaluations, self.threads, show)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    # How it is done.

    def _config(self) -> tuple[list[str], list[str]]:
        """Settings as the command line's ``--set``, and those that are left open."""
        common = {
            "method": self.method,
            "manifold": getattr(self.manifold, "name", self.manifold),
            "seed": self.seed,
            "data.form": self.form,
            "data.columns": None if self.columns is None else [str(name) for name in self.columns],
        }
        chosen = {**common, **(self.settings or {})}
        return [f"{key}={_json(value)}" for key, value in chosen.items() if value is not None], []

    def _fitted(self) -> _native.Run:
        run: _native.Run | None = self.__dict__.get("_run")
        if run is not None:
            return run
        message = f"This {type(self).__name__} instance is not fitted yet; call fit first."
        if "sklearn" in sys.modules:
            from sklearn.exceptions import NotFittedError as Theirs

            raise Theirs(message)
        raise NotFittedError(message)

    def _new_rows(self, X: Any) -> tuple[Any, list[str] | None]:
        data, names = rows(X)
        expected = self._run.width
        if names is None and data.shape[1] != expected:
            raise ValueError(
                f"X has {data.shape[1]} features, but {type(self).__name__} is expecting "
                f"{expected} features as input"
            )
        return data, names

    def _take(self, run: _native.Run) -> None:
        self._run = run
        self.manifold_ = run.geometry
        self.form_ = run.form
        self.settings_ = _flat(json.loads(run.section))
        self.outcome_ = json.loads(run.outcome)
        self.remarks_ = run.remarks
        self.stopped_ = run.stopped
        self.n_parameters_ = run.parameters

    def _shown(self) -> contextlib.AbstractContextManager[Progress | None]:
        return Progress() if self.progress else contextlib.nullcontext()


class TrainedEstimator(Estimator):
    """What the estimators share that train for a time or for a number of steps."""

    def __init__(
        self,
        manifold: str | _native.Manifold | None = None,
        *,
        form: str | None = None,
        columns: list[str] | None = None,
        minutes: float | None = None,
        steps: int | None = None,
        seed: int = 0,
        threads: int | None = None,
        progress: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            manifold,
            form=form,
            columns=columns,
            seed=seed,
            threads=threads,
            progress=progress,
            settings=settings,
        )
        self.minutes = minutes
        self.steps = steps

    def _config(self) -> tuple[list[str], list[str]]:
        changes, left_open = super()._config()
        if self.minutes is not None and self.steps is not None:
            raise ValueError(f"minutes={self.minutes} and steps={self.steps} exclude each other")
        if self.minutes is not None:
            changes.append(f"train.minutes={_json(self.minutes)}")
            left_open.append("train.steps")
        if self.steps is not None:
            changes.append(f"train.steps={_json(self.steps)}")
            left_open.append("train.minutes")
        return changes, left_open


def _own(manifold: str | _native.Manifold | None) -> _native.Manifold | None:
    """A manifold of the user's own; all others are made from their names."""
    return manifold if isinstance(manifold, _native.Manifold) and manifold.is_own else None


def _json(value: Any) -> str:
    """JSON, whose numbers, texts and lists are TOML as well."""

    def plain(value: Any) -> Any:
        if isinstance(value, (np.generic, np.ndarray)):
            return value.tolist()
        raise TypeError(f"{value!r} cannot be a setting")

    return json.dumps(value, default=plain)


def _flat(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by their names, such as ``net.width``."""
    flat: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


# Names of classes; a method without one here is called by its own name.
_NAMES = {
    "stack": "Stack",
    "rdm": "RiemannianDiffusion",
    "kernel": "KernelMixture",
    "parzen": "ParzenWindows",
    "vmf": "MixtureVMF",
    "kent": "MixtureKent",
    "mops": "MixturePowerSpherical",
    "rsgm": "ScoreBased",
    "stereographic": "Stereographic",
    "moser": "MoserFlow",
    "rcnf": "ContinuousFlow",
    "rfm": "FlowMatching",
}

_PARAMETERS = """
    manifold : str or Manifold
        Where the points live, such as ``"sphere:2"``; ``manifusion.MANIFOLDS`` says what there is,
        and ``Manifold.from_functions`` makes your own.
        ``"euclidean"`` has as many dimensions as X has columns.
    form : str, optional
        The coordinates of rows, such as ``"latlon"`` (``manifusion.FORMS``). Without it, an array
        that is as wide as the manifold's own coordinates is taken for these, and other forms are
        recognised by the names of columns or by their values, as on the command line.
    columns : list of str, optional
        The columns of a data frame, where they are not found by their names."""
_BUDGET = """
    minutes : float, optional
        Time that fits, training and validations may take; 5 by default.
    steps : int, optional
        Steps to train for, instead of a time."""
_COMMON = """
    seed : int
        Seed of everything random.
    threads : int, optional
        Threads; all cores by default. Results do not depend on it unless a time is set.
    progress : bool
        Whether a line on standard error shows the progress.
    settings : dict, optional
        Settings of the method by name; what is left out is chosen from the data."""


def _made(info: dict[str, Any]) -> type[Estimator]:
    """The class of a method."""
    trained = any(name == "train.minutes" for name, _, _ in info["settings"])
    name = _NAMES.get(info["name"], "".join(part.title() for part in info["name"].split("-")))
    settings = "\n".join(f"    {name} : {kind}\n        {text}" for name, kind, text in info["settings"])
    doc = (
        f"{info['help'].rstrip('.')}.\n\n    Method ``{info['name']}``, for {info['manifolds']}.\n\n"
        f"    Parameters\n    ----------{_PARAMETERS}{_BUDGET if trained else ''}{_COMMON}\n\n"
        f"    Settings\n    --------\n{settings}\n"
    )
    base = TrainedEstimator if trained else Estimator
    namespace = {"__doc__": doc, "__module__": "manifusion", "method": info["name"]}
    return type(name, (base,), namespace)


ESTIMATORS: dict[str, type[Estimator]] = {info["name"]: _made(info) for info in _native.methods()}


def load(
    path: str | os.PathLike[str], *, manifold: _native.Manifold | None = None
) -> Estimator:
    """The fitted estimator of a folder, of ``save`` or of a finished run of the command line.

    Its ``settings`` are those of the run, so that a clone of it is fitted in the same way. A model
    on a manifold of your own needs that ``manifold`` again.
    """
    run = _native.Run.open(path, _own(manifold))
    data = json.loads(run.data)
    estimator = ESTIMATORS[run.method](
        run.manifold if manifold is None else manifold,
        form=data.get("form"),
        columns=data.get("columns"),
        seed=run.seed,
        settings=_flat(json.loads(run.section)),
    )
    estimator._take(run)
    estimator.n_features_in_ = run.width
    if run.names:
        estimator.feature_names_in_ = np.asarray(run.names, dtype=object)
    return estimator
