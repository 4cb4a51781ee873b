"""Results of runs: one run, the runs of a scheme, a comparison."""

from __future__ import annotations

import copy
import functools
import html
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _arguments as arguments
from . import _native
from ._errors import RunError, UsageError
from ._estimate import Estimate
from ._json_lines import lines_of, objects_of
from ._packages import package

if TYPE_CHECKING:
    import altair
    import matplotlib.figure
    import pandas
    import polars

#: Columns that identify a run, before its counters.
KEYS = ("ipc", "workload", "machine", "guest", "host", "seed", "instructions", "cycles")
#: Figures of a scheme that have an interval, in the order of tables.
ESTIMATES = ("speed", "saving", "translation_share")
#: Place of the notes that are only counted.
_REST = "run.notes has them"


class Run:
    """One scheme on one workload with one seed: an object of a results file."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    @property
    def scheme(self) -> str:
        """Scheme, or the pair ``GUEST+HOST``."""
        return str(self._record["scheme"])

    @property
    def workload(self) -> str:
        """Workload with its parameters, or the trace's name."""
        return str(self._record["workload"])

    @property
    def machine(self) -> str:
        """Machine."""
        return str(self._record.get("machine", ""))

    @property
    def seed(self) -> int:
        """Seed of workload and memory."""
        return int(self._record.get("seed", 0))

    @property
    def instructions(self) -> int:
        """Instructions measured, warm-up apart."""
        return int(self._record.get("instructions", 0))

    @property
    def cycles(self) -> Optional[int]:
        """Cycles of these instructions; None for a functional run."""
        cycles: Optional[int] = self._record.get("cycles")
        return cycles

    @property
    def ipc(self) -> Optional[float]:
        """Instructions per cycle; None for a functional run."""
        ipc: Optional[float] = self._record.get("ipc")
        return ipc

    @property
    def counters(self) -> Mapping[str, float]:
        """All figures by id; :func:`perforate.counters` describes them."""
        return MappingProxyType(self._record.get("counters", {}))

    @property
    def notes(self) -> Sequence[str]:
        """Notes needed to interpret the figures."""
        return list(self._record.get("notes", ()))

    @property
    def config(self) -> Mapping[str, Any]:
        """Configuration of the run."""
        return MappingProxyType(self._record.get("config", {}))

    def __getitem__(self, counter: str) -> float:
        return _counter(self.counters, counter)

    def to_dict(self) -> dict[str, Any]:
        """The run as in a results file."""
        return copy.deepcopy(self._record)

    def row(self) -> dict[str, Any]:
        """The run as a row of a table: identity, then counters."""
        return {"scheme": self.scheme, **{key: self._record.get(key) for key in KEYS}, **self.counters}

    def __eq__(self, other: object) -> bool:
        return self._record == other._record if isinstance(other, Run) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.scheme, self.workload, self.machine, self.seed))

    def __repr__(self) -> str:
        ipc = "" if self.ipc is None else f", ipc {self.ipc:.4f}"
        return f"<Run of {self.workload} under {self.scheme} on {self.machine}, seed {self.seed}{ipc}>"

    def __str__(self) -> str:
        return str(Results(json.dumps(self._record) + "\n"))

    def _repr_html_(self) -> str:
        rows = {"instructions": self.instructions, "cycles": self.cycles, "ipc": self.ipc, **self.counters}
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{_number(value)}</td></tr>"
            for name, value in rows.items()
            if value is not None
        )
        title = html.escape(f"{self.workload} under {self.scheme} on {self.machine}, seed {self.seed}")
        return f"<p>{title}</p><table>{cells}</table>{notes_html(self.notes)}"


def notes_html(notes: Iterable[str]) -> str:
    """Notes as HTML."""
    return "".join(f"<p><small>note: {html.escape(note)}</small></p>" for note in notes)


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _counter(counters: Mapping[str, float], name: str) -> float:
    try:
        return counters[name]
    except KeyError:
        raise KeyError(arguments.unknown(name, counters)) from None


class Scheme:
    """The runs of one scheme in a comparison, one for each seed. Figures are medians over the seeds."""

    def __init__(self, name: str, runs: Sequence[Run], summary: Mapping[str, Any], lines: str) -> None:
        #: Name of the scheme.
        self.name = name
        #: Runs, in order of the seeds.
        self.runs = runs
        self._summary = summary
        self._lines = lines

    @property
    def ipc(self) -> Optional[float]:
        """Instructions per cycle; None for functional runs."""
        known = [run.ipc for run in self.runs if run.ipc is not None]
        return _median(known) if known else None

    @property
    def counters(self) -> Mapping[str, float]:
        """All figures by id."""
        return MappingProxyType(self._counters)

    @functools.cached_property
    def _counters(self) -> dict[str, float]:
        ids = dict.fromkeys(name for run in self.runs for name in run.counters)
        if len(self.runs) == 1:
            return dict(self.runs[0].counters)
        return {name: _median(run.counters[name] for run in self.runs if name in run.counters) for name in ids}

    @property
    def speed(self) -> Optional[Estimate]:
        """Speed relative to 4KB pages, or to the first scheme if there are none; None for functional runs."""
        return _estimate(self._summary["speed"])

    @property
    def saving(self) -> Optional[Estimate]:
        """Share of the time that free translation would save, 0–1: 1 − cycles under ``free`` ÷ cycles
        under this scheme. Results without ``free`` have ``ideal`` in its place. None of that scheme itself,
        and of functional runs."""
        return _estimate(self._summary["saving"])

    @property
    def translation_share(self) -> Optional[Estimate]:
        """Share of the time waiting for address translation, 0–1; None for functional runs."""
        return _estimate(self._summary["translation_share"])

    def speed_over(self, other: Union[str, Scheme]) -> Optional[Estimate]:
        """Speed relative to another scheme of the comparison. Its interval is narrower than those of two speeds,
        as both schemes are measured on the same parts of the program."""
        name = other.name if isinstance(other, Scheme) else other
        known = dict.fromkeys(run.scheme for run in _runs(self._lines))
        if name not in known:
            raise KeyError(arguments.unknown(name, known))
        return _estimate(json.loads(_native.speed_over(self._lines, self.name, name)))

    @property
    def colour(self) -> str:
        """Colour in all reports, ``#rrggbb``."""
        return str(self._summary["colour"])

    def __getitem__(self, counter: str) -> float:
        return _counter(self.counters, counter)

    def __eq__(self, other: object) -> bool:
        return (self.name, self._lines) == (other.name, other._lines) if isinstance(other, Scheme) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, self._lines))

    def __repr__(self) -> str:
        speed = "" if self.speed is None else f", speed {self.speed}"
        return f"<Scheme {self.name}{speed}>"


def _estimate(found: Optional[Mapping[str, Any]]) -> Optional[Estimate]:
    return None if found is None else Estimate(found["mean"], found["half_width_95"])


def _runs(lines: str) -> list[Run]:
    return [Run(record) for record in objects_of(lines)]


class Results:
    """Runs, in the order of a results file."""

    def __init__(self, lines: str, remarks: Sequence[str] = ()) -> None:
        #: The results as lines of a results file. The same inputs and seed give the same bytes.
        self.lines = lines
        self._left_out = list(remarks)

    @functools.cached_property
    def runs(self) -> Sequence[Run]:
        """All runs."""
        return _runs(self.lines)

    @property
    def remarks(self) -> list[str]:
        """Warnings and notes on all runs, each once, and impossible pairs of schemes. ``run.notes`` has
        those of a run."""
        return [*_native.merged_notes(self.lines, _REST), *self._left_out]

    @functools.cached_property
    def _summaries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(_native.summaries(self.lines))
        return found

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """The comparisons in these results: one, unless an option was varied or files were joined."""
        lines = lines_of(self.lines)
        own = ("".join(lines[place] + "\n" for place in one["places"]) for one in self._summaries)
        return [Comparison(text, self._left_out) for text in own]

    @property
    def answer(self) -> str:
        """The answer in a few sentences."""
        return "\n".join(" ".join(one["answer"]) for one in self._summaries)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run: scheme, figures with the ends of their intervals, identity of the run,
        counters."""
        several = len(self._summaries) > 1
        pairs = zip(self._summaries, self.comparisons)
        return [
            {**({"difference": one["difference"]} if several else {}), **row}
            for one, found in pairs
            for row in found.rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        answers = [sentence for one in self._summaries for sentence in one["answer"]]
        return {"answer": answers, "remarks": self.remarks, "runs": [run.to_dict() for run in self.runs]}

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of :meth:`rows` as a data frame; ``.attrs`` has the answer and the remarks."""
        frame: pandas.DataFrame = package("pandas", "to_pandas").DataFrame(self.rows())
        frame.attrs.update(answer=self.answer, remarks=self.remarks)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The rows of :meth:`rows` as a data frame."""
        make = package("polars", "to_polars").DataFrame
        frame: polars.DataFrame = make(self.rows(), infer_schema_length=None)
        return frame

    def table(self, width: int = 100, all: bool = False) -> str:
        """The answer and the table as the command line prints them; ``all`` has all figures."""
        return _native.table(self.lines, arguments.whole("width", width, 1), all)

    def report(self, path: Optional[Union[str, os.PathLike[str]]] = None) -> str:
        """The report as one HTML page that opens offline. It is written to a file if one is named."""
        page = _native.report_html(self.lines)
        if path is not None:
            if os.path.isdir(path):
                raise RunError(f"{os.fspath(path)}: is a folder; expected the path of a file")
            write_whole({Path(path): page})
        return page

    def save(self, folder: Union[str, os.PathLike[str]]) -> None:
        """Writes ``results.jsonl`` and ``report.html``, as the command line does."""
        into = make_folder(folder)
        write_whole({into / "results.jsonl": self.lines, into / "report.html": self.report()})

    def __len__(self) -> int:
        return len(self.runs)

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and self.lines == other.lines

    def __hash__(self) -> int:
        return hash(self.lines)

    def __getstate__(self) -> dict[str, Any]:
        return {"lines": self.lines, "_left_out": self._left_out}

    def __repr__(self) -> str:
        width = columns()
        return (self.table(width) + "\n" + _native.notes(self.remarks, width)).rstrip()

    def _repr_html_(self) -> str:
        return _native.summary_html(self.lines) + notes_html(self.remarks)


def columns() -> int:
    """Width of the terminal, or 100 without a terminal."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 40), 240)


class Comparison(Results):
    """Schemes compared on one workload, one machine and one memory."""

    @functools.cached_property
    def schemes(self) -> Mapping[str, Scheme]:
        """The schemes by name, in the order in which they were named."""
        summary = self._summary
        runs: dict[str, list[Run]] = {}
        for run in self.runs:
            runs.setdefault(run.scheme, []).append(run)
        summaries = {one["name"]: one for one in summary["schemes"]}
        return {name: Scheme(name, own, summaries[name], self.lines) for name, own in runs.items()}

    @property
    def _summary(self) -> dict[str, Any]:
        first, *others = self._summaries
        if others:
            raise UsageError(f"these results are {len(self._summaries)} comparisons: use found.comparisons")
        return first

    @property
    def reference(self) -> str:
        """Name of the scheme that speeds are relative to."""
        return str(self._summary["reference"])

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run: scheme, figures with the ends of their intervals, identity of the run,
        counters. Speeds are relative to :attr:`reference`, with the same seed."""
        if len(self._summaries) > 1:
            return super().rows()
        lines: dict[int, str] = {}
        for run, line in zip(self.runs, lines_of(self.lines)):
            lines[run.seed] = lines.get(run.seed, "") + line + "\n"
        of_seed: dict[int, Mapping[str, Mapping[str, Any]]] = {}
        for seed, own in lines.items():
            found = self._summaries if len(lines) == 1 else json.loads(_native.summaries(own))
            of_seed[seed] = {one["name"]: one for one in found[0]["schemes"]}
        return [_row(run, of_seed[run.seed][run.scheme]) for run in self.runs]

    def __getitem__(self, scheme: str) -> Scheme:
        try:
            return self.schemes[scheme]
        except (KeyError, TypeError):
            raise KeyError(arguments.unknown(scheme, self.schemes)) from None

    def __contains__(self, scheme: object) -> bool:
        return scheme in self.schemes if isinstance(scheme, str) else scheme in self.schemes.values()

    def __len__(self) -> int:
        return len(self.schemes)

    def __iter__(self) -> Iterator[Scheme]:
        return iter(self.schemes.values())

    def plot(self, counter: Optional[str] = None) -> matplotlib.figure.Figure:
        """Speeds and what free translation would save, or one counter, of every scheme, by matplotlib."""
        from ._plots import plot

        return plot(self, counter)

    def chart(self, counter: Optional[str] = None) -> altair.TopLevelMixin:
        """Like :meth:`plot`, by altair."""
        from ._plots import chart

        return chart(self, counter)


def _row(run: Run, summary: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"scheme": run.scheme}
    for name in ESTIMATES:
        found = _estimate(summary[name])
        row[name] = None if found is None else found.value
        row[f"{name}_low"] = None if found is None else found.low
        row[f"{name}_high"] = None if found is None else found.high
    return {**row, **run.row()}


def check_folder(key: str, folder: Union[str, os.PathLike[str]]) -> Path:
    """A folder that exists or can be created."""
    if not isinstance(folder, (str, os.PathLike)):
        raise UsageError(f"{key}: expected the path of a folder, not {folder!r}")
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{key}: {path}: a file of that name exists; expected a folder")
    return path


def make_folder(folder: Union[str, os.PathLike[str]]) -> Path:
    """A folder, created if missing."""
    path = check_folder("folder", folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{path}: cannot be made: {error.strerror}") from error
    return path


def write_whole(files: Mapping[Path, str]) -> None:
    """Writes several files, all of them or none."""
    _native.write_texts([(str(path), text) for path, text in files.items()])


def read_results(path: Union[str, os.PathLike[str]]) -> Comparison:
    """The results in a file, or in a folder with a ``results.jsonl``, of the command line or of
    Python. A file of several comparisons has them in ``.comparisons``."""
    file = Path(path)
    file = file / "results.jsonl" if file.is_dir() else file
    try:
        lines = file.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RunError(f"{file}: byte {error.start}: expected JSON lines in UTF-8") from error
    found = Comparison(lines)
    found._summaries  # what is wrong with the file is said here
    return found
