"""Conversion of Python arguments to the texts of options.

The program defines the options and the meaning of their values.
"""

from __future__ import annotations

import functools
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional, Union

from . import _native
from ._errors import UsageError

#: Names, such as schemes: a list, or one text with commas.
Names = Union[str, Iterable[str]]
#: Argument of a command: a text, a path or a number.
Argument = Union[str, os.PathLike[str], int, float]


class DefaultWorkload(str):
    """Type of the default workload."""


#: Workload of a comparison without workload and program.
DEFAULT_WORKLOAD = DefaultWorkload(_native.DEFAULT_WORKLOAD)


class Keyword(NamedTuple):
    """Form and default of an option."""

    form: str
    default: str


@functools.lru_cache(maxsize=None)
def _keywords() -> dict[str, Keyword]:
    """Options of a run by keyword."""
    return {name: Keyword(form, default) for name, form, default, _ in _native.keywords()}


def text(key: str, value: object) -> str:
    """A value as on the command line."""
    value = _plain(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Mapping):
        return ",".join(_entry(str(name), inner) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(text(key, inner) for inner in value)
    kind = type(value).__name__
    raise UsageError(f"{key}: expected text, a number, True, False, a path or a dict, not {kind}")


def _plain(value: Any) -> Any:
    """Converts numbers and arrays of NumPy to Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _entry(name: str, value: object) -> str:
    word = name.replace("_", "-")
    return word if value is True else f"{word}={text(name, value)}"


def names(key: str, value: Optional[Names]) -> Optional[str]:
    """A list of names as on the command line."""
    if value is None:
        return None
    if not isinstance(value, (str, Iterable)) or isinstance(value, bytes):
        raise UsageError(f"{key}: expected names such as ['4k', 'thp'], not {value!r}")
    given = [value] if isinstance(value, str) else list(value)
    for name in given:
        if not isinstance(name, str):
            raise UsageError(f"{key}: expected names such as ['4k', 'thp'], not {name!r}")
    if not any(name.strip() for name in given):
        raise UsageError(f"{key}: is empty; expected names such as ['4k', 'thp']")
    return ",".join(given)


def command(key: str, value: Iterable[Argument]) -> list[str]:
    """A program and its arguments."""
    example = f"{key}=['ls', '-l']"
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise UsageError(f"{key}: expected a list of words such as {example}, not {type(value).__name__}")
    if isinstance(value, str):
        raise UsageError(f"{key}: expected a list of words such as {example}; shlex.split({value!r}) makes one")
    found = []
    for word in map(_plain, value):
        if isinstance(word, bool) or not isinstance(word, (str, os.PathLike, int, float)):
            raise UsageError(f"{key}: expected words such as {example}, not {word!r}")
        found.append(text(key, word))
    if not found or not found[0]:
        raise UsageError(f"{key}: is empty; expected a program and its arguments, such as {example}")
    return found


def whole(key: str, value: object, least: int, most: Optional[int] = None) -> int:
    """A whole number in a range."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
        if not isinstance(value, bool) and least <= number and (most is None or number <= most):
            return number
    except TypeError:
        pass
    expected = f"from {least} to {most}" if most is not None else f"of at least {least}"
    raise UsageError(f"{key}: expected a whole number {expected}, not {value!r}")


def check_progress(progress: object) -> None:
    """Checks that ``progress`` can be called."""
    if progress is not None and not callable(progress):
        raise UsageError(f"progress: expected a function of what is done and of how much, not {progress!r}")


class Compared(NamedTuple):
    """Arguments of a comparison, as texts."""

    workload: Optional[str]
    schemes: Optional[str]
    guest: Optional[str]
    host: Optional[str]
    seeds: int
    options: list[tuple[str, str]]
    set: list[tuple[str, str]]


#: Arguments of a comparison that are not options of a run.
OWN = ("workload", "schemes", "program", "counters", "guest", "host", "seeds", "set")


def options(given: Mapping[str, object], own: Iterable[str]) -> list[tuple[str, str]]:
    """Options of a run as pairs of texts. Unknown keywords are errors, which also suggest the caller's other
    arguments, ``own``."""
    known = _keywords()
    pairs = []
    for key, value in given.items():
        if key not in known:
            raise UsageError(unknown(key, [*own, *known]))
        form, default = known[key]
        if value is None:
            if default not in ("none", "") and key != "fragmentation":
                raise UsageError(f"{key}: None is no value; leave it out for the default, {default}")
            value = "none"
        pairs.append((key.replace("_", "-"), _option(key, form, _plain(value))))
    return pairs


def _option(key: str, form: str, value: object) -> str:
    """Text of an option's value."""
    if isinstance(value, (list, tuple)) and "," not in form and "+" not in form:
        raise UsageError(f"{key}: expected one value, not a list; perforate.sweep compares several values")
    if form == "SIZE" and isinstance(value, numbers.Real):
        raise UsageError(f"{key}: {value!r} has no unit; expected text with one, such as {key}=\"16G\"")
    return text(key, value)


def unknown(key: object, known: Iterable[str]) -> str:
    """Sentence about an unknown key."""
    return _native.unknown(str(key), list(known))


#: An example of keys of the machine.
_SETTINGS = '{"tlb.l2.entries": 3072}'


def settings(given: Optional[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Overrides of machine keys, which may be nested dicts."""
    return list(_settings("set", {} if given is None else given, "").items())


def _settings(name: str, given: Mapping[str, object], prefix: str) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{name}: expected a dict such as {_SETTINGS}, not {given!r}")
    found: dict[str, str] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise UsageError(f"{name}: expected keys such as those of {_SETTINGS}, not {key!r}")
        if isinstance(value, Mapping):
            found.update(_settings(name, value, f"{prefix}{key}."))
        elif value is None:
            found[prefix + key] = "none"
        else:
            found[prefix + key] = str(value).lower() if isinstance(value, bool) else text(key, value)
    return found


def machine(given: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Base and overrides of the machine that a dict describes."""
    base = given.get("base")
    if not isinstance(base, (str, os.PathLike)):
        example = '{"base": "ice-lake-sp", "tlb.l2.entries": 4096}'
        raise UsageError(f"machine: expected a name, a file, or a dict with the machine it changes, such as {example}")
    rest = {key: value for key, value in given.items() if key != "base"}
    return text("base", base), _settings("machine", rest, "")


def compared(
    workload: object = DEFAULT_WORKLOAD,
    schemes: Optional[Names] = None,
    guest: Optional[Names] = None,
    host: Optional[Names] = None,
    seeds: int = 1,
    set: Optional[Mapping[str, object]] = None,
    **given: Any,
) -> Compared:
    """Arguments of a comparison, as texts."""
    changed = dict(settings(set))
    if isinstance(given.get("machine"), Mapping):
        given["machine"], of_machine = machine(given["machine"])
        changed = {**of_machine, **changed}
    sides = (names("schemes", schemes), names("guest", guest), names("host", host))
    count = whole("seeds", seeds, 1, 1000)
    return Compared(workload_text(workload), *sides, count, options(given, OWN), list(changed.items()))


def workload_text(workload: object) -> str:
    """A workload by its name or path."""
    given = getattr(workload, "path", workload)
    if isinstance(given, (list, tuple)):
        raise UsageError(f"workload: expected one name or path, not a list; a program is program={list(given)!r}")
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        expected = 'expected a workload or trace such as "hpcc", a path, or a Trace'
        raise UsageError(f"workload: {expected}, not {given!r}; perforate.workloads() lists them")
    return text("workload", given)
