"""Many comparisons: a grid of options, or a list of points."""

from __future__ import annotations

import functools
import hashlib
import html
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _arguments as arguments
from . import _native
from ._errors import Error, InternalError, SweepError, UsageError
from ._local import LocalProcesses, WorkerDied
from ._results import Comparison, Results, write_whole

if TYPE_CHECKING:
    import altair
    import matplotlib.figure

#: What is varied: values by key, every one with every other, or points as they are.
Grid = Union[Mapping[str, Any], Iterable[Mapping[str, Any]]]


class Sweep(Results):
    """The comparisons of a sweep, in the order of its points."""

    def __init__(self, points: Sequence[Mapping[str, Any]], lines: Sequence[str]) -> None:
        super().__init__("".join(lines))
        #: What makes each point: its keywords of :func:`perforate.compare`.
        self.points = points
        self._lines = lines

    @functools.cached_property
    def comparisons(self) -> Sequence[Comparison]:
        """The comparison at each point."""
        return [Comparison(lines) for lines in self._lines]

    @property
    def varied(self) -> Sequence[str]:
        """The keys that do not have the same value at all points."""
        keys = dict.fromkeys(key for point in self.points for key in point)
        first = self.points[0] if self.points else {}
        return [key for key in keys if any(point.get(key) != first.get(key) for point in self.points)]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run: the keys that are varied, what it is, then its counters."""
        return [
            {**{key: _plain(point.get(key)) for key in self.varied}, **run.row()}
            for point, comparison in zip(self.points, self.comparisons)
            for run in comparison.runs
        ]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        pairs = zip(self.points, self.comparisons)
        return {"points": [{"point": dict(point), **found.to_dict()} for point, found in pairs]}

    def plot(self, x: Optional[str] = None, y: str = "speed") -> matplotlib.figure.Figure:
        """A curve for each scheme by matplotlib: ``y`` is speed, translation_share, ipc or a counter,
        ``x`` the first key that is varied where none is named."""
        from ._plots import plot_sweep

        return plot_sweep(self, x, y)

    def chart(self, x: Optional[str] = None, y: str = "speed") -> altair.TopLevelMixin:
        """The same by altair."""
        from ._plots import chart_sweep

        return chart_sweep(self, x, y)

    def __getitem__(self, place: int) -> Comparison:
        return self.comparisons[place]

    def __len__(self) -> int:
        return len(self.points)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "points": self.points, "_lines": self._lines}

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and cells: the keys that are varied, then every scheme's speed."""
        names = list(dict.fromkeys(scheme.name for found in self.comparisons for scheme in found))
        rows = []
        for point, found in zip(self.points, self.comparisons):
            cells = [str(_plain(point.get(key, "–"))) for key in self.varied]
            for name in names:
                scheme = found.schemes.get(name)
                estimate = None if scheme is None else scheme.speed
                cells.append("–" if estimate is None else f"{estimate.mean:.3f}×")
            rows.append(cells)
        return [*self.varied, *names], rows

    def __repr__(self) -> str:
        head, rows = self._table()
        widths = [max(map(len, column)) for column in zip(head, *rows)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in [head, *rows]]
        return "\n".join([f"{len(self)} points; speeds of each scheme", *lines])

    def _repr_html_(self) -> str:
        head, rows = self._table()
        cell = "<t{0} style='text-align:right'>{1}</t{0}>"
        above = "".join(cell.format("h", html.escape(name)) for name in head)
        below = "".join(f"<tr>{''.join(cell.format('d', html.escape(one)) for one in row)}</tr>" for row in rows)
        return f"<p>{len(self)} points; speeds of each scheme</p><table><tr>{above}</tr>{below}</table>"


def _plain(value: Any) -> Any:
    """A value that fits into a cell."""
    return value if isinstance(value, (int, float, str, type(None))) else arguments.text("value", value)


def sweep(
    grid: Grid,
    executor: Optional[Executor] = None,
    *,
    out: Optional[Union[str, os.PathLike[str]]] = None,
    workers: Optional[int] = None,
    attempts: int = 3,
    progress: Optional[Callable[[int, int], object]] = None,
    **fixed: Any,
) -> Sweep:
    """Compares schemes at many points.

    ``grid`` has values by key, every one with every other (``{"memory": ["4G", "16G"], "tlb.l2.entries":
    [1536, 3072]}``), or is a list of points. Keys are the keywords of :func:`perforate.compare`, and
    keys of the machine, which have a point; ``fixed`` are the same at all points. Results are in the
    order of the points, in the same bytes whatever computes them.

    Points are computed by ``executor``, any of ``concurrent.futures``'s kind, or by ``workers``
    processes on this computer. A point whose process dies is submitted again, up to ``attempts`` times
    in all. With ``out``, what was computed is kept in that folder, by a hash of all that a point depends
    on, and is not computed again; results.jsonl has all of it. ``progress`` hears how many points are
    done, and of how many.
    """
    points = _points(grid, fixed)
    asked = [_asked(point) for point in points]
    keys = [_native.point(one) for one in asked]
    store = _Store(Path(out) if out is not None else None)
    known = {key: lines for key in dict.fromkeys(keys) if (lines := store.get(key)) is not None}
    missing = {key: one for key, one in zip(keys, asked) if key not in known}
    total = len(set(keys))
    failures: dict[str, BaseException] = {}
    if missing:
        work = _Work(executor, workers, attempts)
        for key, outcome in work.outcomes(missing):
            if isinstance(outcome, BaseException):
                failures[key] = outcome
            else:
                known[key] = outcome
                store.put(key, outcome)
            if progress is not None:
                progress(len(known) + len(failures), total)
    if failures:
        raise _failed(points, keys, failures)
    found = [known[key] for key in keys]
    store.finish(points, keys, found)
    return Sweep(points, found)


def _points(grid: Grid, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(grid, Mapping):
        return [{**fixed, **point} for point in grid]
    for key, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise UsageError(f"{key}: expected several values, such as [{values!r}]")
    combined = itertools.product(*grid.values())
    return [{**fixed, **dict(zip(grid, values))} for values in combined]


def _asked(point: Mapping[str, Any]) -> arguments.Compared:
    of_machine = {key: value for key, value in point.items() if "." in key}
    others = {key: value for key, value in point.items() if "." not in key}
    of_machine = {**others.pop("set", {}), **of_machine}
    return arguments.compared(set=of_machine, **others)


def compute(asked: arguments.Compared) -> str:
    """The lines of a point; what executors call."""
    return _native.compare(asked, None)[0]


def _failed(
    points: Sequence[Mapping[str, Any]], keys: Sequence[str], failures: Mapping[str, BaseException]
) -> SweepError:
    at = {place: failures[key] for place, key in enumerate(keys) if key in failures}
    place, error = next(iter(at.items()))
    text = f"{len(at)} of {len(points)} points failed; the first, {dict(points[place])}: {error}"
    failed = SweepError(text, at)
    failed.__cause__ = error
    return failed


class _Work:
    """Has points computed, and submits again those whose worker died."""

    def __init__(self, executor: Optional[Executor], workers: Optional[int], attempts: int) -> None:
        self._own: Optional[LocalProcesses] = None
        self._workers = workers
        self._executor = executor
        self._attempts = attempts

    def outcomes(self, points: Mapping[str, arguments.Compared]) -> Iterable[tuple[str, Any]]:
        """The lines of each point, or why there are none, as they come."""
        tried = dict.fromkeys(points, 0)
        running: dict[Future[str], str] = {}
        try:
            for key in points:
                running[self._submit(points[key])] = key
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    key = running.pop(future)
                    error = future.exception() if not future.cancelled() else WorkerDied("cancelled")
                    if error is None:
                        yield key, future.result()
                        continue
                    if isinstance(error, BrokenExecutor):
                        # It broke under all of its points, and does not say under which.
                        self._replace()
                    else:
                        tried[key] += 1
                    if not _is_of_worker(error) or tried[key] >= self._attempts:
                        yield key, error
                    else:
                        running[self._submit(points[key])] = key
            self._end()
        finally:
            # Reached with work left over if Ctrl-C, or whoever asked, ends it.
            for future in running:
                future.cancel()
            if self._own is not None:
                self._own.kill()

    def _submit(self, asked: arguments.Compared) -> Future[str]:
        if self._executor is None:
            self._replace()
        assert self._executor is not None
        try:
            return self._executor.submit(compute, asked)
        except BrokenExecutor:
            self._replace()
            return self._executor.submit(compute, asked)

    def _replace(self) -> None:
        """Goes on in processes of its own, which do not break together."""
        if self._own is None:
            self._own = LocalProcesses(self._workers)
        self._executor = self._own

    def _end(self) -> None:
        if self._own is not None:
            self._own.shutdown()


def _is_of_worker(error: BaseException) -> bool:
    """Whether the worker is to blame, not the point."""
    return isinstance(error, (WorkerDied, InternalError)) or not isinstance(error, Error)


class _Store:
    """Lines by key in a folder; in none, nothing is kept."""

    def __init__(self, folder: Optional[Path]) -> None:
        self._folder = folder
        if folder is not None:
            (folder / "points").mkdir(parents=True, exist_ok=True)

    def _file(self, key: str) -> Optional[Path]:
        return None if self._folder is None else self._folder / "points" / f"{key}.jsonl"

    def get(self, key: str) -> Optional[str]:
        """What is kept, if it is whole: its first line is a hash of the others."""
        file = self._file(key)
        if file is None or not file.exists():
            return None
        digest, _, lines = file.read_text(encoding="utf-8").partition("\n")
        return lines if digest == _digest(lines) else None

    def put(self, key: str, lines: str) -> None:
        """Keeps lines."""
        file = self._file(key)
        if file is not None:
            write_whole(file, f"{_digest(lines)}\n{lines}")

    def finish(self, points: Sequence[Mapping[str, Any]], keys: Sequence[str], lines: Sequence[str]) -> None:
        """Writes all results in order, and which point has which."""
        if self._folder is None:
            return
        write_whole(self._folder / "results.jsonl", "".join(lines))
        described = [
            {"point": {name: _plain(value) for name, value in point.items()}, "key": key, "runs": own.count("\n")}
            for point, key, own in zip(points, keys, lines)
        ]
        write_whole(self._folder / "sweep.json", json.dumps(described, indent=1, ensure_ascii=False) + "\n")


def _digest(lines: str) -> str:
    return hashlib.sha256(lines.encode()).hexdigest()
