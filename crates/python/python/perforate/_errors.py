"""What can go wrong."""

from __future__ import annotations


class Error(Exception):
    """Any failure of Perforate. Its text is that of the command line."""


class UsageError(Error, ValueError):
    """An argument is wrong; the text says what would be right."""


class RunError(Error, RuntimeError):
    """A run, a recording or a measurement failed."""


class TraceError(RunError):
    """A trace cannot be read or written."""


class SweepError(RunError):
    """Points of a sweep failed. All others are done, and kept where the sweep has a folder."""

    def __init__(self, text: str, failures: dict[int, BaseException]) -> None:
        super().__init__(text)
        #: The exception of each point that failed, by the point's place.
        self.failures = failures


class MissingPackageError(Error, ImportError):
    """A package that only this needs is not installed."""


class InternalError(Error, RuntimeError):
    """A mistake in Perforate itself; please report it."""
