"""Lists of options, schemes, workloads, machines and counters."""

from __future__ import annotations

from typing import NamedTuple

from . import _native


class Option(NamedTuple):
    """A keyword of :func:`perforate.compare`."""

    #: The keyword.
    name: str
    #: Form of the values.
    form: str
    #: Default value.
    default: str
    #: Meaning.
    meaning: str


class Counter(NamedTuple):
    """A figure in results."""

    #: Id.
    name: str
    #: Unit.
    unit: str
    #: Heading in lists.
    group: str
    #: Meaning.
    meaning: str


def options() -> dict[str, Option]:
    """All options of a run by keyword."""
    return {found[0]: Option(*found) for found in _native.keywords()}


def counters() -> dict[str, Counter]:
    """All counters by id."""
    return {found[0]: Counter(*found) for found in _native.counters()}


def schemes() -> dict[str, str]:
    """Descriptions of all schemes, by name."""
    return dict(_native.schemes())


def workloads() -> dict[str, str]:
    """Descriptions of all workloads, and paths of the bundled traces, by name."""
    return dict(_native.workloads())


def machines() -> dict[str, str]:
    """Descriptions of the bundled machines, by name."""
    return dict(_native.machines())
