"""Executor with processes on this computer. The death of a process affects only its current call.

``ProcessPoolExecutor`` gives up all of its work when one of its processes dies, and has scripts protect
their main module; this has neither.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import IO, Any, Optional

from ._errors import RunError

#: Length of a message in bytes.
_LENGTH = struct.Struct("<Q")


class WorkerDied(RunError):
    """A process ended in the middle of its work."""


def send(stream: IO[bytes], value: object) -> None:
    """Sends a value to the other end."""
    data = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Receives a value; ``EOFError`` if the other end is closed."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


class _Task:
    """A call, and the future of its result."""

    def __init__(self, future: Future[Any], call: tuple[Any, ...]) -> None:
        self.future = future
        self.call = call


class LocalProcesses(Executor):
    """A number of processes on this computer, by default one for each processor."""

    def __init__(self, workers: Optional[int] = None) -> None:
        self._tasks: queue.SimpleQueue[Optional[_Task]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_over = False
        count = workers if workers is not None else os.cpu_count() or 1
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(max(count, 1))]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls a function in the next free process, which must be able to import it."""
        with self._lock:
            if self._is_over:
                raise RuntimeError("the executor was shut down")
            future: Future[Any] = Future()
            self._tasks.put(_Task(future, (fn, args, kwargs)))
            return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes after all submitted calls, or with ``cancel_futures`` after the current ones."""
        with self._lock:
            is_first, self._is_over = not self._is_over, True
        if cancel_futures:
            while True:
                try:
                    task = self._tasks.get_nowait()
                except queue.Empty:
                    break
                if task is not None:
                    task.future.cancel()
            is_first = True
        if is_first:
            for _ in self._threads:
                self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def kill(self) -> None:
        """Kills the processes."""
        self.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for process in self._processes:
                process.kill()

    def _serve(self) -> None:
        """Runs tasks in a process, which is replaced if it dies."""
        process: Optional[subprocess.Popen[bytes]] = None
        while (task := self._tasks.get()) is not None:
            if not task.future.set_running_or_notify_cancel():
                continue
            try:
                process = process if process is not None and process.poll() is None else self._start()
                is_result, value = self._ask(process, task)
            except BaseException as error:
                self._end(process)
                process = None
                is_result, value = False, error
            if is_result:
                task.future.set_result(value)
            else:
                task.future.set_exception(value)
        self._end(process)

    @staticmethod
    def _ask(process: subprocess.Popen[bytes], task: _Task) -> tuple[bool, Any]:
        assert process.stdin is not None and process.stdout is not None
        try:
            send(process.stdin, task.call)
            found: tuple[bool, Any] = receive(process.stdout)
            return found
        except (EOFError, OSError) as error:
            code = process.wait()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise WorkerDied(f"a process {how} in the middle of its work") from error

    def _start(self) -> subprocess.Popen[bytes]:
        # The process has the same import path, and does not get Ctrl-C of this terminal.
        paths = os.pathsep.join(path for path in sys.path if path)
        process = subprocess.Popen(
            [sys.executable, "-m", "perforate._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
        with self._lock:
            self._processes.add(process)
        return process

    def _end(self, process: Optional[subprocess.Popen[bytes]]) -> None:
        if process is None:
            return
        with self._lock:
            self._processes.discard(process)
        # The process ends when its input is closed.
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass  # it has gone before
        process.wait()
