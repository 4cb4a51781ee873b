"""Arguments of Python as the texts that options are read from.

Which options there are, and what their values mean, the program says; here is only how Python's values
are written.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional, Union

from . import _native
from ._errors import UsageError

#: What stands for a list of names, such as schemes.
Names = Union[str, Iterable[str]]


@functools.lru_cache(maxsize=None)
def _defaults() -> dict[str, str]:
    """Options of a run, with the default of each."""
    return {name: default for name, _, default, _ in _native.keywords()}


def text(key: str, value: object) -> str:
    """A value as the command line has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Mapping):
        return ",".join(_entry(name, inner) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(text(key, inner) for inner in value)
    if hasattr(value, "item"):  # a number of NumPy
        return text(key, value.item())
    raise UsageError(f"{key}: {type(value).__name__} is no value; expected text, a number, True, False or a dict")


def _entry(name: str, value: object) -> str:
    word = name.replace("_", "-")
    return word if value is True else f"{word}={text(name, value)}"


def names(key: str, value: Optional[Names]) -> Optional[str]:
    """A list of names as the command line has it."""
    if value is None or isinstance(value, str):
        return value
    return ",".join(text(key, name) for name in value)


def path(value: Union[str, os.PathLike[str]]) -> str:
    """A path as text."""
    return os.fspath(value)


class Compared(NamedTuple):
    """What is compared: everything as text."""

    workload: Optional[str]
    schemes: Optional[str]
    guest: Optional[str]
    host: Optional[str]
    seeds: int
    options: list[tuple[str, str]]
    set: list[tuple[str, str]]


#: Arguments of a comparison that are no options of a run.
OWN = ("workload", "schemes", "guest", "host", "seeds", "set")


def options(given: Mapping[str, object], own: Iterable[str]) -> list[tuple[str, str]]:
    """Options of a run as pairs of texts. Whatever is called otherwise is refused; ``own`` are other
    arguments that the caller has."""
    defaults = _defaults()
    pairs = []
    for key, value in given.items():
        if key not in defaults:
            raise UsageError(unknown(key, [*own, *defaults]))
        if value is None:
            if defaults[key] not in ("none", "") and key != "fragmentation":
                raise UsageError(f"{key}: None is no value; leave it out for the default, {defaults[key]}")
            value = "none"
        pairs.append((key.replace("_", "-"), text(key, value)))
    return pairs


def unknown(key: str, known: Iterable[str]) -> str:
    """A sentence about a key that there is not."""
    return _native.unknown(key, list(known))


def settings(given: Optional[Mapping[str, object]]) -> list[tuple[str, str]]:
    """Other values for keys of the machine."""
    pairs = (given or {}).items()
    return [(key, "true" if value is True else "false" if value is False else text(key, value)) for key, value in pairs]


def compared(
    workload: object = None,
    schemes: Optional[Names] = None,
    guest: Optional[Names] = None,
    host: Optional[Names] = None,
    seeds: int = 1,
    set: Optional[Mapping[str, object]] = None,
    **given: Any,
) -> Compared:
    """What is compared, as texts."""
    if not isinstance(seeds, int) or not 1 <= seeds <= 1000:
        raise UsageError(f"seeds: is 1 to 1000, not {seeds!r}")
    workload_text = None if workload is None else text("workload", getattr(workload, "path", workload))
    sides = (names("schemes", schemes), names("guest", guest), names("host", host))
    return Compared(workload_text, *sides, seeds, options(given, OWN), settings(set))
