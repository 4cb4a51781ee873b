"""Results of runs: one run, the runs of a scheme, a comparison."""

from __future__ import annotations

import functools
import html
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from . import _native
from ._errors import RunError
from ._packages import package

if TYPE_CHECKING:
    import altair
    import matplotlib.figure
    import pandas
    import polars

#: Keys of a run in tables, before its counters.
KEYS = ("scheme", "guest", "host", "workload", "machine", "seed", "instructions", "cycles", "ipc")


class Estimate(NamedTuple):
    """A figure with its 95 % confidence interval."""

    #: The figure.
    mean: float
    #: Half the interval's width; None where there is nothing to estimate it from.
    half_width_95: Optional[float]

    def __str__(self) -> str:
        half = "" if self.half_width_95 is None else f" ± {self.half_width_95:.4g}"
        return f"{self.mean:.4g}{half}"


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
        return str(self._record["machine"])

    @property
    def seed(self) -> int:
        """Seed of workload and memory."""
        return int(self._record["seed"])

    @property
    def instructions(self) -> int:
        """Instructions measured, warm-up apart."""
        return int(self._record["instructions"])

    @property
    def cycles(self) -> Optional[int]:
        """Cycles they took; None of a functional run."""
        cycles: Optional[int] = self._record["cycles"]
        return cycles

    @property
    def ipc(self) -> Optional[float]:
        """Instructions per cycle; None of a functional run."""
        ipc: Optional[float] = self._record["ipc"]
        return ipc

    @property
    def counters(self) -> Mapping[str, float]:
        """All figures by id; :func:`perforate.counters` says what they are."""
        counters: Mapping[str, float] = self._record["counters"]
        return counters

    @property
    def notes(self) -> Sequence[str]:
        """What a reader must know to judge the figures."""
        notes: Sequence[str] = self._record["notes"]
        return notes

    @property
    def config(self) -> Mapping[str, Any]:
        """Everything that the run was made from."""
        config: Mapping[str, Any] = self._record["config"]
        return config

    def __getitem__(self, counter: str) -> float:
        return _counter(self.counters, counter)

    def to_dict(self) -> dict[str, Any]:
        """The run as a results file has it."""
        return self._record

    def row(self) -> dict[str, Any]:
        """The run as a row of a table: what it is, then its counters."""
        keys = {key: self._record.get(key) for key in KEYS}
        return {**keys, **self.counters}

    def __repr__(self) -> str:
        ipc = "" if self.ipc is None else f", ipc {self.ipc:.4f}"
        return f"<Run of {self.workload} under {self.scheme} on {self.machine}, seed {self.seed}{ipc}>"

    def _repr_html_(self) -> str:
        rows = {"instructions": self.instructions, "cycles": self.cycles, "ipc": self.ipc, **self.counters}
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{_number(value)}</td></tr>"
            for name, value in rows.items()
            if value is not None
        )
        title = html.escape(f"{self.workload} under {self.scheme} on {self.machine}, seed {self.seed}")
        return f"<p>{title}</p><table>{cells}</table>"


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
        raise KeyError(_native.unknown(name, list(counters))) from None


class Scheme:
    """The runs of one scheme in a comparison, one for each seed. Figures are medians over the seeds."""

    def __init__(self, name: str, runs: Sequence[Run], summary: Mapping[str, Any]) -> None:
        #: Name of the scheme.
        self.name = name
        #: Its runs, in order of the seeds.
        self.runs = runs
        self._summary = summary

    @property
    def ipc(self) -> Optional[float]:
        """Instructions per cycle; None of functional runs."""
        known = [run.ipc for run in self.runs if run.ipc is not None]
        return _median(known) if known else None

    @functools.cached_property
    def counters(self) -> Mapping[str, float]:
        """All figures by id."""
        if len(self.runs) == 1:
            return self.runs[0].counters
        ids = dict.fromkeys(name for run in self.runs for name in run.counters)
        return {
            name: _median(run.counters[name] for run in self.runs if name in run.counters)
            for name in ids
        }

    @property
    def speed(self) -> Optional[Estimate]:
        """How many times as fast as with 4KB pages, or as the first scheme where these are not there;
        None of functional runs."""
        return _estimate(self._summary["speed"])

    @property
    def translation_share(self) -> Optional[Estimate]:
        """Share of the time waiting for address translation, 0–1; None of functional runs."""
        return _estimate(self._summary["translation_share"])

    @property
    def colour(self) -> str:
        """Its colour in all reports, ``#rrggbb``."""
        return str(self._summary["colour"])

    def __getitem__(self, counter: str) -> float:
        return _counter(self.counters, counter)

    def __repr__(self) -> str:
        speed = "" if self.speed is None else f", {self.speed}× as fast"
        return f"<Scheme {self.name}{speed}>"


def _estimate(found: Optional[Mapping[str, Any]]) -> Optional[Estimate]:
    return None if found is None else Estimate(found["mean"], found["half_width_95"])


class Results:
    """Runs, in the order of a results file."""

    def __init__(self, lines: str, remarks: Sequence[str] = ()) -> None:
        #: The results as a results file has them, a line each. The same inputs and seed give the same
        #: bytes.
        self.lines = lines
        #: What there is to say besides, such as pairs of schemes that cannot be.
        self.remarks = tuple(remarks)

    @functools.cached_property
    def runs(self) -> Sequence[Run]:
        """All runs."""
        return [Run(json.loads(line)) for line in self.lines.splitlines() if line.strip()]

    @functools.cached_property
    def _summaries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(_native.summaries(self.lines))
        return found

    @property
    def answer(self) -> str:
        """What it comes to, in a few sentences."""
        return "\n".join(" ".join(one["answer"]) for one in self._summaries)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run: what it is, then its counters."""
        return [run.row() for run in self.runs]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        answers = [sentence for one in self._summaries for sentence in one["answer"]]
        return {"answer": answers, "runs": [run.to_dict() for run in self.runs]}

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each run: what it is, then its counters."""
        frame: pandas.DataFrame = package("pandas", "to_pandas").DataFrame(self.rows())
        return frame

    def to_polars(self) -> polars.DataFrame:
        """A row for each run: what it is, then its counters."""
        make = package("polars", "to_polars").DataFrame
        frame: polars.DataFrame = make(self.rows(), infer_schema_length=None)
        return frame

    def table(self, width: int = 100, all: bool = False) -> str:
        """The answer and the table as the command line prints them; ``all`` has all figures."""
        return _native.table(self.lines, width, all)

    def report(self, path: Optional[Union[str, os.PathLike[str]]] = None) -> str:
        """The whole report as one HTML page that opens offline, also written to a file if one is
        named."""
        page = _native.report_html(self.lines)
        if path is not None:
            write_whole({Path(path): page})
        return page

    def save(self, folder: Union[str, os.PathLike[str]]) -> None:
        """Writes ``results.jsonl`` and ``report.html``, as the command line does."""
        into = Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        write_whole({into / "results.jsonl": self.lines, into / "report.html": self.report()})

    def __len__(self) -> int:
        return len(self.runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and self.lines == other.lines

    def __hash__(self) -> int:
        return hash(self.lines)

    def __getstate__(self) -> dict[str, Any]:
        return {"lines": self.lines, "remarks": self.remarks}

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return _native.summary_html(self.lines)


class Comparison(Results):
    """Schemes compared on one workload, one machine and one memory."""

    @functools.cached_property
    def schemes(self) -> Mapping[str, Scheme]:
        """The schemes by name, in the order in which they were named."""
        runs: dict[str, list[Run]] = {}
        for run in self.runs:
            runs.setdefault(run.scheme, []).append(run)
        summaries = {one["name"]: one for one in self._summaries[0]["schemes"]}
        return {name: Scheme(name, own, summaries[name]) for name, own in runs.items()}

    @property
    def reference(self) -> str:
        """The scheme that speeds are relative to, as tables call it."""
        return str(self._summaries[0]["reference"])

    def __getitem__(self, scheme: str) -> Scheme:
        try:
            return self.schemes[scheme]
        except KeyError:
            raise KeyError(_native.unknown(scheme, list(self.schemes))) from None

    def __iter__(self) -> Iterator[Scheme]:
        return iter(self.schemes.values())

    def plot(self, counter: Optional[str] = None) -> matplotlib.figure.Figure:
        """Speeds and what waits for translation, or one counter, of every scheme, by matplotlib."""
        from ._plots import plot

        return plot(self, counter)

    def chart(self, counter: Optional[str] = None) -> altair.TopLevelMixin:
        """The same by altair."""
        from ._plots import chart

        return chart(self, counter)


def write_whole(files: Mapping[Path, str]) -> None:
    """Writes files that belong together, each whole: all of them or none."""
    _native.write_texts([(str(path), text) for path, text in files.items()])


def read_results(path: Union[str, os.PathLike[str]]) -> Comparison:
    """The results in a file, or in a folder with a ``results.jsonl``, of the command line or of
    Python."""
    file = Path(path)
    file = file / "results.jsonl" if file.is_dir() else file
    try:
        lines = file.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{file}: {error.strerror}") from error
    found = Comparison(lines)
    found._summaries  # what is wrong with the file is said here
    return found
