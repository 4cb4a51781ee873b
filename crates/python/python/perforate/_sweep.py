"""Sweeps: comparisons for a grid of options, a list of points, or an experiment."""

from __future__ import annotations

import collections
import functools
import html
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union, overload

from . import _arguments as arguments
from . import _native
from ._errors import RunError, SweepError, UsageError
from ._experiments import ExperimentResults, sweep_experiment
from ._results import Comparison, Results, check_folder, columns, make_folder, notes_html, write_whole
from ._work import AnyExecutor, Call, Work

if TYPE_CHECKING:
    import altair
    import matplotlib.figure

#: Values by key, of which all combinations are compared, or a list of points.
Grid = Union[Mapping[str, Any], Iterable[Mapping[str, Any]]]


#: Remarks that are printed below a sweep.
_REMARKS = 12


class Sweep(Results):
    """The comparisons of a sweep, in the order of its points."""

    def __init__(self, points: Sequence[Mapping[str, Any]], lines: Sequence[str]) -> None:
        super().__init__("".join(lines))
        #: Keywords of :func:`perforate.compare` at each point.
        self.points = points
        self._lines = lines

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """The comparison at each point."""
        return self._comparisons

    @functools.cached_property
    def _comparisons(self) -> list[Comparison]:
        return [Comparison(lines) for lines in self._lines]

    @property
    def varied(self) -> Sequence[str]:
        """Keys with different values."""
        keys = dict.fromkeys(key for point in self.points for key in point)
        first = self.points[0] if self.points else {}
        return [key for key in keys if any(point.get(key) != first.get(key) for point in self.points)]

    @property
    def remarks(self) -> list[str]:
        """Warnings and notes on all points, each once, with the number of points if not all have it."""
        counts = collections.Counter(remark for found in self.comparisons for remark in found.remarks)
        every = len(self.points)
        return [text if count == every else f"{text} (at {count} of {every} points)" for text, count in counts.items()]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run: the varied keys, then the row of :meth:`Comparison.rows`."""
        return [
            {**{key: _plain(point.get(key)) for key in self.varied}, **row}
            for point, comparison in zip(self.points, self.comparisons)
            for row in comparison.rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        pairs = zip(self.points, self.comparisons)
        return {"points": [{"point": dict(point), **found.to_dict()} for point, found in pairs]}

    def plot(self, x: Optional[str] = None, y: str = "speed") -> matplotlib.figure.Figure:
        """A curve for each scheme by matplotlib: ``y`` is speed, saving, translation_share, ipc or a counter,
        ``x`` a varied key, by default the first."""
        from ._plots import plot_sweep

        return plot_sweep(self, x, y)

    def chart(self, x: Optional[str] = None, y: str = "speed") -> altair.TopLevelMixin:
        """Like :meth:`plot`, by altair."""
        from ._plots import chart_sweep

        return chart_sweep(self, x, y)

    def __getitem__(self, place: int) -> Comparison:
        try:
            return self._comparisons[place]
        except TypeError:
            raise TypeError(f"{place!r}: points have places; found[0] is the comparison at the first") from None

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self._comparisons)

    def __len__(self) -> int:
        return len(self.points)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "points": self.points, "_lines": self._lines}

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and cells: the varied keys, then the speed of each scheme."""
        names = list(dict.fromkeys(scheme.name for found in self.comparisons for scheme in found))
        rows = []
        for point, found in zip(self.points, self.comparisons):
            cells = [str(_plain(point.get(key, "–"))) for key in self.varied]
            for name in names:
                scheme = found.schemes.get(name)
                estimate = None if scheme is None else scheme.speed
                cells.append("–" if estimate is None else f"{estimate:.3f}×")
            rows.append(cells)
        return [*self.varied, *names], rows

    def __repr__(self) -> str:
        head, rows = self._table()
        widths = [max(map(len, column)) for column in zip(head, *rows)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in [head, *rows]]
        table = "\n".join([f"{self._count()}; speeds of each scheme", *lines])
        return (table + "\n\n" + _native.notes(self._main_remarks(), columns())).rstrip()

    def _count(self) -> str:
        return f"{len(self)} point{'' if len(self) == 1 else 's'}"

    def _main_remarks(self) -> list[str]:
        """The first remarks, and the number of the others."""
        remarks = self.remarks
        more = len(remarks) - _REMARKS
        return remarks if more <= 0 else [*remarks[:_REMARKS], f"{more} more remarks: sweep.remarks has them"]

    def _repr_html_(self) -> str:
        head, rows = self._table()
        cell = "<t{0} style='text-align:right'>{1}</t{0}>"
        above = "".join(cell.format("h", html.escape(name)) for name in head)
        below = "".join(f"<tr>{''.join(cell.format('d', html.escape(one)) for one in row)}</tr>" for row in rows)
        table = f"<p>{self._count()}; speeds of each scheme</p><table><tr>{above}</tr>{below}</table>"
        return table + notes_html(self._main_remarks())


def _plain(value: Any) -> Any:
    """A value, shortened for a cell."""
    return value if isinstance(value, (int, float, str, type(None))) else arguments.text("value", value)


@overload
def sweep(
    grid: Union[str, os.PathLike[str]],
    executor: Optional[AnyExecutor] = None,
    *,
    out: Optional[Union[str, os.PathLike[str]]] = None,
    workers: Optional[int] = None,
    attempts: int = 3,
    progress: Optional[Callable[[int, int], object]] = None,
    **options: Any,
) -> ExperimentResults: ...


@overload
def sweep(
    grid: Grid,
    executor: Optional[AnyExecutor] = None,
    *,
    out: Optional[Union[str, os.PathLike[str]]] = None,
    workers: Optional[int] = None,
    attempts: int = 3,
    progress: Optional[Callable[[int, int], object]] = None,
    **fixed: Any,
) -> Sweep: ...


def sweep(
    grid: Union[Grid, str, os.PathLike[str]],
    executor: Optional[AnyExecutor] = None,
    *,
    out: Optional[Union[str, os.PathLike[str]]] = None,
    workers: Optional[int] = None,
    attempts: int = 3,
    progress: Optional[Callable[[int, int], object]] = None,
    **fixed: Any,
) -> Union[Sweep, ExperimentResults]:
    """Computes all points of a grid or of an experiment.

    ``grid`` has values by key, every one with every other (``{"memory": ["4G", "16G"], "tlb.l2.entries":
    [1536, 3072]}``), or is a list of points: schemes are compared at each. Keys are the keywords of
    :func:`perforate.compare`, and keys of the machine, which have a point; ``fixed`` are the same at all
    points. Results are in the order of the points, in the same bytes whatever computes them.

    Or ``grid`` is an experiment: its name or its file. ``fixed`` are then the options of ``perforate
    experiment run``: ``quick=True``, ``seeds=5``.

    Points are computed by ``executor``, any of ``concurrent.futures``'s kind (Dask's is
    ``client.get_executor()``) or submitit's, or by ``workers`` processes on this computer; with submitit
    ``workers`` is the number of jobs. A point whose worker dies is submitted again, up to ``attempts``
    times in all. With ``out``, what was computed is kept in that folder, by a hash of all that a point
    depends on, and is not computed again; results.jsonl has all of it. ``progress`` hears how many points
    are done, and of how many.
    """
    work = Work(executor, workers, attempts)
    arguments.check_progress(progress)
    folder = None if out is None else check_folder("out", out)
    if isinstance(grid, (str, os.PathLike)):
        return sweep_experiment(grid, work, out, progress, fixed)
    return _sweep_grid(_points(grid, fixed), work, folder, progress)


def _sweep_grid(
    points: Sequence[Mapping[str, Any]],
    work: Work,
    folder: Optional[Path],
    progress: Optional[Callable[[int, int], object]],
) -> Sweep:
    asked = [_asked(point) for point in points]
    keys = [_native.point(one) for one in asked]
    if folder is not None:
        make_folder(folder)
    store = _native.PointStore(None if folder is None else str(folder / "points.jsonl"))
    by_key = dict(zip(keys, asked))
    missing = [key for key in by_key if store.get(key) is None]
    failures: dict[str, BaseException] = {}
    calls = [Call(compute, (key, by_key[key])) for key in missing]
    known = len(by_key) - len(missing)
    for done, (place, outcome) in enumerate(work.outcomes(calls), known + 1):
        key = missing[place]
        if isinstance(outcome, BaseException):
            failures[key] = outcome
        else:
            store.put(key, by_key[key], outcome)
        if progress is not None:
            progress(done, len(by_key))
    if failures:
        raise _failed(points, keys, failures)
    lines = [store.get(key) or "" for key in keys]
    if folder is not None:
        _write(folder, points, keys, lines)
    return Sweep(points, lines)


#: An example of a grid.
_GRID = '{"memory": ["4G", "16G"]}'


def _points(grid: Grid, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(grid, Iterable) or isinstance(grid, bytes):
        kind = type(grid).__name__
        raise UsageError(f"grid: expected values by key such as {_GRID}, a list of points or an experiment, not {kind}")
    if "program" in fixed or isinstance(grid, Mapping) and "program" in grid:
        raise UsageError("program: a sweep takes a trace; perforate.record(program, 'my.trace') makes one")
    if isinstance(grid, Mapping):
        points = [{**fixed, **dict(zip(grid, values))} for values in itertools.product(*_values(grid, fixed))]
        is_empty = not grid
    else:
        points = [{**fixed, **_point(point)} for point in grid]
        is_empty = not points
    if is_empty:
        raise UsageError(f"grid: is empty; expected values by key such as {_GRID}, or a list of points")
    return points


def _values(grid: Mapping[str, Any], fixed: Mapping[str, Any]) -> list[list[Any]]:
    """The values of each key."""
    for key, values in grid.items():
        if not isinstance(key, str):
            raise UsageError(f"grid: expected keys such as those of {_GRID}, not {key!r}")
        if key in fixed:
            raise UsageError(f"{key}: has values in the grid and one beside it; leave one out")
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise UsageError(f"{key}: expected several values, such as [{values!r}]")
        if isinstance(values, (set, frozenset)):
            raise UsageError(f"{key}: expected a list of values, as a set has no order")
    listed = {key: list(values) for key, values in grid.items()}
    for key, several in listed.items():
        if not several:
            raise UsageError(f"{key}: has no values; expected some, such as those of {_GRID}")
    return list(listed.values())


def _point(point: Any) -> Mapping[str, Any]:
    if not isinstance(point, Mapping) or not all(isinstance(key, str) for key in point):
        raise UsageError(f"grid: expected points such as {{'memory': '4G'}}, not {point!r}")
    return point


def _asked(point: Mapping[str, Any]) -> arguments.Compared:
    of_machine = {key: value for key, value in point.items() if "." in key}
    others = {key: value for key, value in point.items() if "." not in key}
    of_machine = {**dict(arguments.settings(others.pop("set", {}))), **of_machine}
    return arguments.compared(set=of_machine, **others)


def compute(key: str, asked: arguments.Compared) -> str:
    """Result lines of a point. Executors call this function."""
    if _native.point(asked) != key:
        raise RunError(
            "the process that was to compute it has another build of Perforate, or other files under the same names"
        )
    return _native.compare(asked, None, False, None)[0]


def _failed(
    points: Sequence[Mapping[str, Any]], keys: Sequence[str], failures: Mapping[str, BaseException]
) -> SweepError:
    at = {place: failures[key] for place, key in enumerate(keys) if key in failures}
    place, error = next(iter(at.items()))
    text = f"{len(at)} of {len(points)} points failed; the first, {dict(points[place])}: {error}"
    failed = SweepError(text, at)
    failed.__cause__ = error
    return failed


def _write(folder: Path, points: Sequence[Mapping[str, Any]], keys: Sequence[str], lines: Sequence[str]) -> None:
    """Writes the results and the list of points."""
    described = [
        {"point": {name: _plain(value) for name, value in point.items()}, "key": key, "runs": own.count("\n")}
        for point, key, own in zip(points, keys, lines)
    ]
    described_text = json.dumps(described, indent=1, ensure_ascii=False) + "\n"
    write_whole({folder / "results.jsonl": "".join(lines), folder / "sweep.json": described_text})
