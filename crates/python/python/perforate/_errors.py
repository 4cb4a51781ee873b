"""Exceptions."""

from __future__ import annotations


class Error(Exception):
    """Base class. The text is that of the command line."""


class UsageError(Error, ValueError):
    """An argument is wrong; the text says what would be right."""


class RunError(Error, RuntimeError):
    """A run, a recording or a measurement failed."""


class TraceError(RunError):
    """A trace cannot be read or written."""


class SweepError(RunError):
    """Points of a sweep failed. All others are done, and are kept if the sweep has a folder."""

    def __init__(self, text: str, failures: dict[int, BaseException]) -> None:
        super().__init__(text)
        #: The exception of each failed point, by its index.
        self.failures = failures


class MissingPackageError(Error, ImportError):
    """An optional package is not installed."""


class InternalError(Error, RuntimeError):
    """A mistake in Perforate itself; please report it."""
