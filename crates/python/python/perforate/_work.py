"""Calls on any executor. A call is repeated if its worker died."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any, NamedTuple, Optional, Union

from . import _arguments as arguments
from ._arrays import JobArrays, NotBegun, Submitter
from ._errors import Error, InternalError, UsageError
from ._local import LocalProcesses, WorkerDied

#: An executor like those of ``concurrent.futures``, or one of submitit.
AnyExecutor = Union[Executor, Submitter]


class Call(NamedTuple):
    """A function that workers can import, and its arguments."""

    function: Callable[..., str]
    arguments: tuple[Any, ...]


def _attempt(number: int, call: Call) -> str:
    """Runs a call on a worker. The number makes a repeated call different for Dask, which would otherwise
    return the old failure."""
    return call.function(*call.arguments)


class Work:
    """Runs calls, and repeats those whose worker died."""

    def __init__(self, executor: Optional[AnyExecutor], workers: Optional[int], attempts: int) -> None:
        self._workers = None if workers is None else arguments.whole("workers", workers, 1)
        self._attempts = arguments.whole("attempts", attempts, 1)
        self._own: Optional[Union[LocalProcesses, JobArrays]] = None
        if executor is None or isinstance(executor, Executor):
            self._executor = executor
        elif isinstance(executor, Submitter):
            self._executor = self._own = JobArrays(executor, workers)
        else:
            raise UsageError(
                f"executor: expected one of concurrent.futures or submitit, not {type(executor).__name__}"
            )

    def outcomes(self, calls: Sequence[Call]) -> Iterator[tuple[int, Union[str, BaseException]]]:
        """Index and result, or exception, of each call, in order of completion."""
        tried = [0] * len(calls)
        running: dict[Future[str], int] = {}
        over: queue.SimpleQueue[Future[str]] = queue.SimpleQueue()
        waiting = list(range(len(calls)))
        try:
            while waiting or running:
                for place in waiting:
                    future = self._submit(tried[place], calls[place])
                    running[future] = place
                    future.add_done_callback(over.put)
                waiting = []
                if isinstance(self._executor, JobArrays):
                    self._executor.flush()
                for future in _all_of(over):
                    place = running.pop(future)
                    error = WorkerDied("cancelled") if future.cancelled() else future.exception()
                    if error is None:
                        yield place, future.result()
                        continue
                    if isinstance(error, BrokenExecutor):
                        # All calls of a broken executor fail, and it does not say which one broke it.
                        self._replace()
                    elif not isinstance(error, NotBegun):
                        tried[place] += 1
                    if not _is_of_worker(error) or tried[place] >= self._attempts:
                        yield place, error
                    else:
                        waiting.append(place)
            if self._own is not None:
                self._own.shutdown()
        finally:
            # Calls are left over after Ctrl-C, or if the caller stops early.
            for future in running:
                future.cancel()
            if self._own is not None:
                self._own.kill()

    def _submit(self, number: int, call: Call) -> Future[str]:
        if self._executor is None:
            self._replace()
        assert self._executor is not None
        try:
            return self._executor.submit(_attempt, number, call)
        except BrokenExecutor:
            self._replace()
            return self._executor.submit(_attempt, number, call)

    def _replace(self) -> None:
        """Switches to local processes, which fail one by one."""
        if self._own is None:
            self._own = LocalProcesses(self._workers)
        self._executor = self._own


def _all_of(over: queue.SimpleQueue[Future[str]]) -> Iterable[Future[str]]:
    """The next completed future, and all others that are completed."""
    found = [over.get()]
    while not over.empty():
        found.append(over.get())
    return found


def _is_of_worker(error: BaseException) -> bool:
    """True if the worker failed, and not the call."""
    return isinstance(error, (WorkerDied, InternalError)) or not isinstance(error, Error)
