"""Sweeps over experiment files. Points are stored where the command line stores them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _arguments as arguments
from . import _native
from ._errors import SweepError, UsageError
from ._json_lines import objects_of
from ._packages import package
from ._runs import CommandOutput
from ._work import Call, Work

if TYPE_CHECKING:
    import pandas
    import polars

#: Options of the command line, and what replaces them in a sweep.
_OTHERS = {"shard": "perforate experiment run --shard", "jobs": "workers"}


class ExperimentResults(CommandOutput):
    """Records of an experiment: description, values of its curves, and verdicts on its claims."""

    def __init__(self, lines: str, text: str) -> None:
        super().__init__(objects_of(lines), text)
        #: The records as lines of results.jsonl.
        self.lines = lines

    @property
    def points(self) -> Sequence[Mapping[str, Any]]:
        """Values of the curves at each place."""
        return [record for record in self.data if record["record"] == "point"]

    @property
    def claims(self) -> Sequence[Mapping[str, Any]]:
        """Claims, our numbers for them, and verdicts."""
        return [record for record in self.data if record["record"] == "claim"]

    @property
    def joint(self) -> Sequence[Mapping[str, Any]]:
        """Each paper's claims in the same readings of what the paper leaves open (``unstated="joint"``)."""
        return [record for record in self.data if record["record"] == "joint"]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each value of a curve."""
        frame: pandas.DataFrame = package("pandas", "to_pandas").DataFrame(self.points)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """A row for each value of a curve."""
        make = package("polars", "to_polars").DataFrame
        frame: polars.DataFrame = make(self.points, infer_schema_length=None)
        return frame

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExperimentResults) and self.lines == other.lines

    def __hash__(self) -> int:
        return hash(self.lines)


def sweep_experiment(
    experiment: Union[str, os.PathLike[str]],
    work: Work,
    out: Optional[Union[str, os.PathLike[str]]],
    progress: Optional[Callable[[int, int], object]],
    options: Mapping[str, object],
) -> ExperimentResults:
    """Measures the missing points of an experiment, and writes the files of ``perforate experiment run``."""
    folder = None if out is None else os.fspath(out)
    planned = _native.PlannedExperiment(os.fspath(experiment), _pairs(options), folder)
    missing = planned.missing()
    failures: dict[int, BaseException] = {}
    calls = [Call(_native.measure, (job,)) for _, job in missing]
    for done, (place, outcome) in enumerate(work.outcomes(calls), 1):
        if isinstance(outcome, BaseException):
            failures[place] = outcome
        else:
            planned.keep(place, outcome)
        if progress is not None:
            progress(done, len(missing))
    if failures:
        place, error = next(iter(sorted(failures.items())))
        text = f"{len(failures)} of {len(missing)} runs failed; the first, {missing[place][0]}: {error}"
        raise SweepError(text, failures) from error
    return ExperimentResults(*planned.finish())


def _pairs(options: Mapping[str, object]) -> list[tuple[str, str]]:
    for key in options:
        if key in _OTHERS:
            raise UsageError(f"{key}: use {_OTHERS[key]}")
    return [(key, arguments.text(key, value)) for key, value in options.items() if value is not None]
