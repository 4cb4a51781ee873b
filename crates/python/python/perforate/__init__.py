"""What does address translation cost a program, on a memory, under a scheme, and what would another
scheme cost?

>>> import perforate
>>> perforate.compare("hpcc", schemes=["4k", "thp", "perforated"], memory="16G")  # doctest: +SKIP

Options are the keywords of the command line; ``perforate.options()`` lists them. NumPy, pandas, polars,
matplotlib and altair are imported when something needs them.
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _native
from ._errors import (
    Error,
    InternalError,
    MissingPackageError,
    RunError,
    SweepError,
    TraceError,
    UsageError,
)
from ._estimate import Estimate
from ._lists import Counter, Option, counters, machines, options, schemes, workloads
from ._results import Comparison, Results, Run, Scheme, read_results
from ._runs import (
    CommandOutput,
    Recording,
    advise,
    calibrate,
    compare,
    curves,
    explain,
    record,
    run,
    snapshot,
    validate,
)
from ._traces import Batch, Kind, Trace, open_trace, write_trace

if _TYPE_CHECKING:
    from ._experiments import ExperimentResults
    from ._local import LocalProcesses, WorkerDied
    from ._sweep import Sweep, sweep

#: Version of the program.
__version__ = _native.VERSION

#: Modules that are imported on first use, as they need half of the standard library.
_LATER = {
    "ExperimentResults": "_experiments",
    "LocalProcesses": "_local",
    "Sweep": "_sweep",
    "WorkerDied": "_local",
    "sweep": "_sweep",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'perforate' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# The program is this module: its file identifies the build, its folder has the bundled traces, and this
# command starts the processes of benchmarks.
_native.set_program(_native.__file__, [_sys.executable, "-m", "perforate"])

__all__ = [
    "Batch",
    "CommandOutput",
    "Comparison",
    "Counter",
    "Error",
    "Estimate",
    "ExperimentResults",
    "InternalError",
    "Kind",
    "LocalProcesses",
    "MissingPackageError",
    "Option",
    "Recording",
    "Results",
    "Run",
    "RunError",
    "Scheme",
    "Sweep",
    "SweepError",
    "Trace",
    "TraceError",
    "UsageError",
    "WorkerDied",
    "advise",
    "calibrate",
    "compare",
    "curves",
    "counters",
    "explain",
    "machines",
    "open_trace",
    "options",
    "read_results",
    "record",
    "run",
    "schemes",
    "snapshot",
    "sweep",
    "validate",
    "workloads",
    "write_trace",
]
