"""Comparisons, runs, explanations, and measurements of the real machine."""

from __future__ import annotations

import html
import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _arguments as arguments
from . import _native
from ._errors import UsageError
from ._json_lines import objects_of
from ._results import Comparison, Run, check_folder
from ._traces import Trace, open_trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Options

#: A trace, or the name of a workload with its parameters, a bundled trace or a file.
Workload = Union[str, os.PathLike[str], Trace]
#: Called with the amount done, and the total or None.
Progress = Callable[[int, Optional[int]], object]
Path = Union[str, os.PathLike[str]]


def compare(
    workload: Workload = arguments.DEFAULT_WORKLOAD,
    schemes: Optional[arguments.Names] = None,
    *,
    program: Optional[Sequence[arguments.Argument]] = None,
    counters: bool = False,
    guest: Optional[arguments.Names] = None,
    host: Optional[arguments.Names] = None,
    seeds: int = 1,
    set: Optional[Mapping[str, object]] = None,
    out: Optional[Path] = None,
    progress: Optional[Progress] = None,
    **options: Unpack[Options],
) -> Comparison:
    """Compares schemes on one workload and one memory, as ``perforate compare`` does.

    Without arguments, 4KB pages, transparent huge pages, perforated pages, ideal ones and free translation
    are compared on a bundled trace. ``program`` is a program and its arguments in place of a workload
    (``["python3", "train.py"]``): windows of all of it, or the part that ``skip`` and ``instructions``
    choose, are recorded under the emulator first, as ``perforate compare -- PROG`` does, and what it prints
    goes to standard error. ``counters=True`` also runs the program once natively and counts its cycles and
    TLB misses; a remark has them beside the prediction, or says why this machine has no hardware counters.
    ``schemes`` are names, ``guest`` and ``host`` those of pairs in a virtual machine; ``free``, 4KB pages
    whose translation takes no time, is added to them: ``saving`` is measured by it (pairs have it over the
    host of the pair that others are measured against). ``seeds`` is the number of
    repetitions, ``set`` has other values for keys of the machine (``{"tlb.l2.entries": 3072}``), and
    ``machine`` may be a dict of them with the machine's name (``{"base": "ice-lake-sp", "tlb.l2.entries":
    4096}``). With ``out``, results.jsonl and report.html are written into that folder. All other keywords
    are the command line's options, with underscores.
    """
    asked = arguments.compared(workload, schemes, guest, host, seeds, set, **options)
    command = None if program is None else arguments.command("program", program)
    if command is not None and not isinstance(workload, arguments.DefaultWorkload):
        raise UsageError(f"compare takes a workload or a program, not both: {asked.workload} and {command[0]}")
    if not isinstance(counters, bool):
        raise UsageError(f"counters: expected True or False, not {counters!r}")
    if counters and command is None:
        raise UsageError("counters: needs a program, such as program=['ls', '-l']")
    arguments.check_progress(progress)
    if out is not None:
        check_folder("out", out)
    found = Comparison(*_native.compare(asked, command, counters, progress))
    if out is not None:
        found.save(out)
    return found


def run(
    workload: Workload = arguments.DEFAULT_WORKLOAD,
    scheme: str = "perforated",
    *,
    set: Optional[Mapping[str, object]] = None,
    progress: Optional[Progress] = None,
    **options: Unpack[Options],
) -> Run:
    """Runs one scheme, as ``perforate run`` does; keywords are those of :func:`compare`."""
    asked = arguments.compared(workload, _one_scheme(scheme), set=set, **options)
    arguments.check_progress(progress)
    return Comparison(_native.run(asked, progress)).runs[0]


def _one_scheme(scheme: object) -> str:
    """Checks the name of one scheme."""
    if not isinstance(scheme, str) or not scheme or "," in scheme or scheme == "all":
        raise UsageError(f"scheme: expected one name such as '4k', not {scheme!r}; compare takes several")
    return scheme


class CommandOutput:
    """Output of a command: data, and the text that the command line prints."""

    def __init__(self, data: Any, text: str) -> None:
        #: Everything as plain data.
        self.data = data
        #: Text that the command line prints.
        self.text = text

    def to_dict(self) -> Any:
        """Everything as plain data."""
        return self.data

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def explain(
    addresses: Union[int, Iterable[int]] = (),
    *,
    workload: Workload = "random",
    scheme: str = "perforated",
    set: Optional[Mapping[str, object]] = None,
    **options: Unpack[Options],
) -> CommandOutput:
    """Shows the translations of virtual addresses step by step, as ``perforate explain`` does; without
    addresses, some are chosen that show different cases."""
    numbers = list(_addresses(addresses))
    name = _one_scheme(scheme)
    asked = arguments.compared(workload, name, set=set, **options)
    found, text = _native.explain(numbers, asked.workload or "", name, asked.options, asked.set)
    return CommandOutput(json.loads(found), text)


def _addresses(given: Union[int, Iterable[int]]) -> Iterator[int]:
    """Virtual addresses of a program."""
    several: Iterable[Any] = given if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    for address in several:
        try:
            number = operator.index(address)
        except TypeError:
            raise UsageError(f"addresses: expected whole numbers such as 0x7eff80070000, not {address!r}") from None
        if not 0 <= number < 1 << 47:
            raise UsageError(f"{number:#x}: not a user address of x86-64 (47 bits)")
        yield number


class Recording(CommandOutput):
    """A recorded program."""

    @property
    def path(self) -> str:
        """Path of the file."""
        return str(self.data["path"])

    @property
    def trace(self) -> Trace:
        """The trace."""
        return open_trace(self.path)


def record(
    program: Sequence[arguments.Argument],
    output: Path,
    *,
    progress: Optional[Progress] = None,
    **options: Any,
) -> Recording:
    """Records a program and its arguments into a trace, as ``perforate record`` does; its options are
    keywords (``sample="10M/1G"``). Ctrl-C ends the program, and no trace is kept."""
    command = arguments.command("program", program)
    arguments.check_progress(progress)
    found, text = _native.record(command, _pairs({"output": output, **options}), progress)
    return Recording(json.loads(found), text)


def curves(
    workload: Workload = arguments.DEFAULT_WORKLOAD,
    *,
    progress: Optional[Progress] = None,
    **options: Any,
) -> CommandOutput:
    """TLB misses against entries for each page size, of a trace or workload, as ``perforate curves`` makes
    them: ``curves("redis").data["page_sizes"]``."""
    name = arguments.workload_text(workload)
    arguments.check_progress(progress)
    found, text = _native.curves(name, _pairs(options), progress)
    return CommandOutput(json.loads(found), text)


def snapshot(
    process: Optional[int] = None,
    *,
    file: Optional[Path] = None,
    progress: Optional[Progress] = None,
    **options: Any,
) -> CommandOutput:
    """The memory of this machine, or of a process, or of a stored snapshot, as ``perforate snapshot``
    shows it. ``output`` keeps a snapshot for ``compare(memory_from=…)``."""
    if process is not None and file is not None:
        raise UsageError("snapshot takes a process or a file, not both")
    pid = None if process is None else str(arguments.whole("process", process, 1))
    path = None if file is None else os.fspath(file)
    arguments.check_progress(progress)
    found, text = _native.snapshot(pid, path, _pairs(options), progress)
    return CommandOutput(json.loads(found), text)


def calibrate(*, progress: Optional[Progress] = None, **options: Any) -> CommandOutput:
    """Measures this machine, and writes a machine file to predict with, as ``perforate calibrate`` does;
    a record for each quantity and each check."""
    arguments.check_progress(progress)
    found, text = _native.calibrate(_pairs(options), progress)
    return CommandOutput(objects_of(found), text)


def validate(
    program: Optional[Sequence[arguments.Argument]] = None,
    *,
    progress: Optional[Progress] = None,
    **options: Any,
) -> CommandOutput:
    """Measures this machine with and without large pages, and compares with what is predicted, as
    ``perforate validate`` does; a record for each row and one for all."""
    command = [] if program is None else arguments.command("program", program)
    arguments.check_progress(progress)
    found, text = _native.validate(command, _pairs(options), progress)
    return CommandOutput(objects_of(found), text)


def advise(
    workload: Optional[Path] = None,
    *,
    program: Optional[Sequence[arguments.Argument]] = None,
    progress: Optional[Progress] = None,
    **options: Any,
) -> CommandOutput:
    """Advises on large pages for a trace or workload, or for a program that is recorded first, as
    ``perforate advise`` does. The records are one object: its verdict, gain, areas, curve, ranges and
    steps. If a measurement fails, ``verification_failure`` has the reason."""
    command = [] if program is None else arguments.command("program", program)
    name = None if workload is None else os.fspath(workload)
    arguments.check_progress(progress)
    found, text = _native.advise(name, command, _pairs(options), progress)
    return CommandOutput(json.loads(found), text)


def _pairs(options: Mapping[str, object]) -> list[tuple[str, str]]:
    """Options of a command as texts."""
    pairs = []
    for key, value in options.items():
        # Options that can be repeated have a list.
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None:
                pairs.append((key, arguments.text(key, one)))
    return pairs
