"""What there is: options, schemes, workloads, machines, counters, as the program registers them."""

from __future__ import annotations

from typing import NamedTuple

from . import _native


class Option(NamedTuple):
    """A keyword of :func:`perforate.compare`."""

    #: The keyword.
    name: str
    #: The form of its values.
    form: str
    #: The value where none is given.
    default: str
    #: Its meaning.
    meaning: str


class Counter(NamedTuple):
    """A figure in results."""

    #: Its id.
    name: str
    #: What it counts.
    unit: str
    #: The heading that it stands under.
    group: str
    #: What it is.
    meaning: str


def options() -> dict[str, Option]:
    """All options of a run by keyword."""
    return {found[0]: Option(*found) for found in _native.keywords()}


def counters() -> dict[str, Counter]:
    """All counters by id."""
    return {found[0]: Counter(*found) for found in _native.counters()}


def schemes() -> dict[str, str]:
    """All schemes by name, with a line on each."""
    return dict(_native.schemes())


def workloads() -> dict[str, str]:
    """All workloads by name, with a line on each, and the bundled traces with their paths."""
    return dict(_native.workloads())


def machines() -> dict[str, str]:
    """The bundled machines by name, with a line on each."""
    return dict(_native.machines())
