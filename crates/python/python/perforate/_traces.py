"""Reading and writing traces as columns of NumPy."""

from __future__ import annotations

import enum
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from . import _arguments as arguments
from . import _native
from ._errors import UsageError
from ._packages import package

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars

    Array = numpy.ndarray[Any, Any]

#: Default columns of a batch.
COLUMNS = ("ip", "address", "size", "kind")
#: All columns, with their types and the number of values in a row.
TYPES = {
    "instruction": ("<u8", 1),
    "ip": ("<u8", 1),
    "address": ("<u8", 1),
    "size": ("<u2", 1),
    "kind": ("|u1", 1),
    "length": ("|u1", 1),
    "branch": ("|u1", 1),
    "taken": ("|b1", 1),
    "operation": ("|u1", 1),
    "sources": ("|u1", 4),
    "data_sources": ("|u1", 1),
    "destinations": ("|u1", 2),
    "process": ("<u2", 1),
    "thread": ("<u2", 1),
}


class Kind(enum.IntEnum):
    """Kind of a row: no access, a load or a store."""

    #: An instruction that accesses no memory.
    NONE = 0
    #: A load.
    READ = 1
    #: A store.
    WRITE = 2


class Batch:
    """Rows of a trace: one for each memory access, and one for each instruction without any. Columns are
    arrays of NumPy, as items and as attributes."""

    def __init__(self, columns: Mapping[str, Array], rows: int) -> None:
        #: The columns by name.
        self.columns = columns
        self._rows = rows

    def __getitem__(self, column: str) -> Array:
        try:
            return self.columns[column]
        except KeyError:
            raise KeyError(arguments.unknown(column, self.columns)) from None

    def __getattr__(self, column: str) -> Array:
        try:
            return self.__dict__["columns"][column]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"the batch has no column {column!r}; see Trace.batches(columns=…)") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.columns})

    def __len__(self) -> int:
        return self._rows

    def to_structured(self) -> Array:
        """The rows as one structured array."""
        numpy = package("numpy", "to_structured")
        types = [(name, *TYPES[name][:1], *_shape(name)) for name in self.columns]
        rows: Array = numpy.empty(len(self), dtype=types)
        for name, column in self.columns.items():
            rows[name] = column
        return rows

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame; registers are numbered columns."""
        frame: pandas.DataFrame = package("pandas", "to_pandas").DataFrame(self._flat())
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The rows as a data frame; registers are numbered columns."""
        frame: polars.DataFrame = package("polars", "to_polars").DataFrame(self._flat())
        return frame

    def _flat(self) -> dict[str, Array]:
        flat: dict[str, Array] = {}
        for name, column in self.columns.items():
            if column.ndim == 1:
                flat[name] = column
            else:
                flat.update({f"{name}{index}": column[:, index] for index in range(column.shape[1])})
        return flat

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} rows: {', '.join(self.columns)}>"


def _shape(name: str) -> tuple[tuple[int], ...]:
    width = TYPES[name][1]
    return () if width == 1 else ((width,),)


class Trace:
    """A trace of any format that can be read. Iterating over it gives batches of rows."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        #: Metadata of the trace.
        self.metadata = metadata

    @property
    def path(self) -> str:
        """Path of the file."""
        return str(self.metadata["path"])

    @property
    def instructions(self) -> Optional[int]:
        """Number of instructions; None if a foreign trace does not have it."""
        instructions: Optional[int] = self.metadata["instructions"]
        return instructions

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def batches(
        self,
        columns: Sequence[str] = COLUMNS,
        *,
        rows: int = 1 << 16,
        skip: Union[int, str] = 0,
        instructions: Union[int, str, None] = None,
        threads: Optional[int] = None,
    ) -> Iterator[Batch]:
        """Batches of about ``rows`` rows with these columns, decoded ahead by threads.

        ``instruction`` numbers the instructions; ``ip`` is the instruction's address, ``address``,
        ``size`` and ``kind`` (:class:`Kind`) are of the access. ``length``, ``branch``, ``taken``,
        ``operation``, ``sources``, ``data_sources``, ``destinations``, ``process`` and ``thread`` are
        there, too. ``skip`` passes over instructions first, ``instructions`` is how many come at most.
        """
        numpy = package("numpy", "iterating over a trace")
        if isinstance(columns, str):
            raise UsageError("columns: expected several names, such as ['ip', 'address']")
        names = list(columns)
        size = arguments.whole("rows", rows, 1)
        limit = None if instructions is None else arguments.text("instructions", instructions)
        count = min(os.cpu_count() or 1, 8) if threads is None else arguments.whole("threads", threads, 1)
        start = arguments.text("skip", skip)
        found = _native.TraceBatches(self.path, names, size, start, limit, count)
        return self._arrays(numpy, names, found)

    @staticmethod
    def _arrays(numpy: Any, names: Sequence[str], found: _native.TraceBatches) -> Iterator[Batch]:
        for rows, columns in found:
            yield Batch(dict(zip(names, map(numpy.asarray, columns))), rows)

    def read(
        self,
        columns: Sequence[str] = COLUMNS,
        *,
        skip: Union[int, str] = 0,
        instructions: Union[int, str, None] = None,
    ) -> Batch:
        """All rows at once, or the rows of a number of instructions."""
        numpy = package("numpy", "reading a trace")
        parts = list(self.batches(columns, skip=skip, instructions=instructions))
        joined = {name: _joined(numpy, name, [part[name] for part in parts]) for name in columns}
        return Batch(joined, sum(map(len, parts)))

    def events(self) -> list[dict[str, Any]]:
        """Requests of the program to the operating system (mmap, fork, …), each with the number of the
        instruction after it."""
        found: list[dict[str, Any]] = json.loads(_native.trace_events(self.path))
        return found

    def __repr__(self) -> str:
        count = "" if self.instructions is None else f", {self.instructions} instructions"
        return f"<Trace {self.metadata['name']}, {self.metadata['format']} format{count}>"


def _joined(numpy: Any, name: str, parts: Sequence[Array]) -> Array:
    form, width = TYPES[name]
    empty: Array = numpy.empty((0, width) if width > 1 else 0, dtype=form)
    joined: Array = numpy.concatenate(parts) if parts else empty
    return joined


def open_trace(path: Union[str, os.PathLike[str]]) -> Trace:
    """Opens a trace by its path, or a bundled one by its name."""
    return Trace(json.loads(_native.trace_metadata(os.fspath(path))))


#: Rows as columns: a batch, a dict of arrays, a data frame.
Rows = Union[Batch, Mapping[str, Any]]


def write_trace(
    path: Union[str, os.PathLike[str]],
    rows: Union[Rows, Iterable[Rows], None] = None,
    *,
    events: Sequence[Mapping[str, Any]] = (),
    program: Sequence[str] = (),
    notes: Sequence[str] = (),
    level: int = 3,
    **columns: Any,
) -> dict[str, Any]:
    """Writes a trace from columns, and returns its path and counts.

    ``rows`` are a batch, a dict of arrays, a data frame or several of these one after the other; or
    columns are keywords. ``ip`` is needed; ``address``, ``size`` and ``kind`` are those of a read of 8
    bytes, or of nothing, where they are not given. Rows with the same ``instruction`` one after the
    other are one instruction; without that column each is one of its own. ``events`` are as
    :meth:`Trace.events` has them; without any, memory is mapped as it is touched. A file is written
    whole or not at all.
    """
    if (rows is None) == (not columns):
        raise UsageError("write_trace takes rows, or columns as keywords")
    for key, value in (("program", program), ("notes", notes)):
        if isinstance(value, str):
            raise UsageError(f"{key}: expected a list of texts, such as [{value!r}]")
    several: Any = [columns] if rows is None else [rows] if _is_rows(rows) else rows
    parts = iter(several)
    first: Mapping[str, Any] = _columns(next(parts, {"ip": ()}))
    metadata = {
        "program": list(program),
        "notes": list(notes),
        "recorder": "columns",
        "architecture": "x86_64",
        "created_by": "perforate (Python)",
        "has_dependencies": "sources" in first,
        "has_branches": "branch" in first,
    }
    numpy = package("numpy", "write_trace")
    writer = _native.TraceWriter(os.fspath(path), json.dumps(metadata), json.dumps(list(events)), level)
    try:
        for part in itertools.chain([first], map(_columns, parts)):
            _push(numpy, writer, part)
        found: dict[str, Any] = json.loads(writer.finish())
        return found
    finally:
        writer.discard()  # nothing is left to discard of what was finished


def _is_rows(rows: object) -> bool:
    return isinstance(rows, (Batch, Mapping)) or hasattr(rows, "columns")


def _columns(rows: Any) -> Mapping[str, Any]:
    """Columns by name, of a batch, a dict or a data frame."""
    if isinstance(rows, Mapping):
        columns = rows
    elif not hasattr(rows, "columns"):
        kind = type(rows).__name__
        raise UsageError(f"rows: expected a batch, a dict of arrays, a data frame or several of these, not {kind}")
    else:
        columns = {str(name): rows[name] for name in rows.columns}
    known = [name for name in TYPES if name not in ("process", "thread")]
    for name in columns:
        if name not in TYPES:
            raise UsageError(arguments.unknown(name, known))
    if "ip" not in columns:
        raise UsageError("ip is missing: the address of the instruction of each row")
    return columns


#: Number of rows that are written at a time.
_ROWS = 1 << 18


def _push(numpy: Any, writer: _native.TraceWriter, columns: Mapping[str, Any]) -> None:
    arrays = {name: _array(numpy, name, column) for name, column in columns.items()}
    rows = len(arrays["ip"])
    if "address" in arrays:
        arrays.setdefault("kind", numpy.full(rows, Kind.READ, dtype="|u1"))
        arrays.setdefault("size", numpy.full(rows, 8, dtype="<u2"))
    for name in ("address", "size", "kind"):
        arrays.setdefault(name, numpy.zeros(rows, dtype=TYPES[name][0]))
    start = 0
    while start < rows:
        end = _end_of_part(numpy, arrays, start, rows)
        writer.push(RowBytes(**{name: column[start:end].tobytes() for name, column in arrays.items()}))
        start = end


def _end_of_part(numpy: Any, arrays: Mapping[str, Array], start: int, rows: int) -> int:
    """End of the next part, which has all rows of its instructions."""
    end = min(start + _ROWS, rows)
    if "instruction" in arrays and end < rows:
        others = numpy.flatnonzero(arrays["instruction"][end:] != arrays["instruction"][end - 1])
        end = end + int(others[0]) if len(others) else rows
    return end


def _array(numpy: Any, name: str, column: Any) -> Array:
    form, width = TYPES[name]
    given = numpy.asarray(column)
    if given.ndim != (1 if width == 1 else 2) or (width > 1 and given.shape[1] != width):
        raise UsageError(f"{name}: expected {'one number' if width == 1 else f'{width} numbers'} in each row")
    if len(given) and given.dtype.kind not in "iub":
        raise UsageError(f"{name}: expected whole numbers, not {given.dtype}")
    array: Array = given.astype(form)
    if (array != given).any():
        most = (1 << 8 * array.dtype.itemsize) - 1
        raise UsageError(f"{name}: expected numbers from 0 to {most}")
    return array


class RowBytes(NamedTuple):
    """Columns as bytes; missing columns are empty."""

    ip: bytes
    address: bytes
    size: bytes
    kind: bytes
    instruction: bytes = b""
    length: bytes = b""
    branch: bytes = b""
    taken: bytes = b""
    operation: bytes = b""
    sources: bytes = b""
    data_sources: bytes = b""
    destinations: bytes = b""
    process: bytes = b""
    thread: bytes = b""
