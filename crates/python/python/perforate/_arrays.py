"""submitit's jobs as an executor. What is submitted together becomes one job array, in which several calls
are packed into a job.

A job tells of each call in a file as soon as it is done, so that one that dies costs only what it was doing.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Optional, Protocol, runtime_checkable

from ._local import WorkerDied, receive, send

#: Seconds between two checks of the jobs' output.
_CHECK_PERIOD = 0.5
#: Default maximum of jobs in an array; Slurm's default limit is a thousand.
_JOBS = 100


@runtime_checkable
class Submitter(Protocol):
    """An executor of submitit's."""

    folder: Path

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Submits a job."""

    def batch(self) -> AbstractContextManager[None]:
        """Context in which submitted jobs become one array."""


class NotBegun(WorkerDied):
    """A job ended before this call, but after others of its calls."""


class _Task:
    """A call, and the future of its result."""

    def __init__(self, call: tuple[Any, ...]) -> None:
        self.call = call
        self.future: Future[Any] = Future()


class JobArrays(Executor):
    """Packs submitted calls into a limited number of jobs when :meth:`flush` is called."""

    def __init__(self, submitter: Submitter, jobs: Optional[int] = None) -> None:
        self._submitter = submitter
        # Jobs that submitit starts on this computer all start at once.
        cluster = getattr(submitter, "cluster", type(submitter).__name__)
        is_here = cluster in ("local", "debug", "LocalExecutor", "DebugExecutor")
        self._jobs = max(jobs or (os.cpu_count() or 1 if is_here else _JOBS), 1)
        self._waiting: list[_Task] = []
        self._packs: list[_Pack] = []
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Adds a call to the next array."""
        task = _Task((fn, args, kwargs))
        self._waiting.append(task)
        return task.future

    def flush(self) -> None:
        """Submits the array."""
        waiting, self._waiting = self._waiting, []
        tasks = dict(enumerate(task for task in waiting if task.future.set_running_or_notify_cancel()))
        if not tasks:
            return
        count = min(self._jobs, len(tasks))
        # Round robin, as the longest calls come first.
        packs = [_Pack(self._submitter, dict(list(tasks.items())[number::count])) for number in range(count)]
        with self._submitter.batch():
            for pack in packs:
                pack.submit()
        with self._lock:
            self._packs += packs

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stops waiting for results. Running jobs continue."""
        self._is_over.set()

    def kill(self) -> None:
        """Cancels all jobs."""
        self._is_over.set()
        with self._lock:
            for pack in self._packs:
                pack.cancel()
            self._packs = []

    def _listen(self) -> None:
        while not self._is_over.wait(_CHECK_PERIOD):
            with self._lock:
                packs = list(self._packs)
            running = [pack for pack in packs if not pack.listen()]
            with self._lock:
                self._packs = [pack for pack in self._packs if pack in running or pack not in packs]


class _Pack:
    """Calls in one job."""

    def __init__(self, submitter: Submitter, tasks: dict[int, _Task]) -> None:
        self._submitter = submitter
        self._tasks = tasks
        # submitit replaces %j in names of folders by the number of the job.
        folder = Path(str(submitter.folder).split("%", 1)[0])
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"perforate-{uuid.uuid4().hex}.answers"
        self._read_to = 0
        self._begun: set[int] = set()
        self._has_ended = False
        self._job: Any = None

    def submit(self) -> None:
        """Submits the job."""
        calls = [(place, task.call) for place, task in self._tasks.items()]
        self._job = self._submitter.submit(work_off, str(self._file), calls)

    def listen(self) -> bool:
        """Passes on new output of the job, and returns True if the job has ended."""
        # Output that a job wrote before its end is complete at the next check.
        ended, self._has_ended = self._has_ended, self._job.done()
        found, self._read_to = _read(self._file, self._read_to)
        for place, answer in found:
            self._begun.add(place)
            if answer is None or place not in self._tasks:
                continue
            future = self._tasks.pop(place).future
            is_result, value = answer
            (future.set_result if is_result else future.set_exception)(value)
        if self._tasks and ended:
            self._give_up()
        if not self._tasks:
            self._file.unlink(missing_ok=True)
        return not self._tasks

    def _give_up(self) -> None:
        """Handles the end of a job that has unfinished calls."""
        log = (self._job.stderr() or "").strip().splitlines()
        text = f"job {self._job.job_id} ended in the middle of its work" + (f": {log[-1]}" if log else "")
        for place, task in self._tasks.items():
            # The running call failed; if none is known to run, any may be to blame.
            is_spared = self._begun and place not in self._begun
            task.future.set_exception(NotBegun(text) if is_spared else WorkerDied(text))
        self._tasks = {}

    def cancel(self) -> None:
        """Cancels the job if it has unfinished calls."""
        if self._tasks:
            self._job.cancel(check=False)
            self._file.unlink(missing_ok=True)


def _read(file: Path, start: int) -> tuple[list[tuple[int, Optional[tuple[bool, Any]]]], int]:
    """Complete records of a file from an offset, and the offset after them."""
    found = []
    try:
        with file.open("rb") as stream:
            stream.seek(start)
            while True:
                try:
                    found.append(receive(stream))
                except EOFError:
                    return found, start
                start = stream.tell()
    except FileNotFoundError:
        return found, start


def work_off(file: str, calls: Sequence[tuple[int, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]]) -> None:
    """Runs the calls of a job in order. A restarted job continues where it stopped."""
    found, end = _read(Path(file), 0)
    done = {place for place, answer in found if answer is not None}
    with open(file, "ab") as stream:
        stream.truncate(end)
        for place, (function, arguments, keywords) in calls:
            if place not in done:
                send(stream, (place, None))
                send(stream, (place, _answer(function, arguments, keywords)))


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments, **keywords)
    except Exception as error:
        return False, error
