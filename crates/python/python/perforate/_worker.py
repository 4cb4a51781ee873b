"""A process of :class:`perforate.LocalProcesses`: calls what it is sent, one thing after the other."""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import IO, Any

from ._local import receive, send


def _listen(stream: IO[bytes], calls: queue.SimpleQueue[Any]) -> None:
    """Takes calls; once nobody sends any more, the process ends, even in the middle of its work."""
    try:
        while True:
            calls.put(receive(stream))
    except EOFError:
        os._exit(0)


def main() -> None:
    """Serves until the other end has gone."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What is printed is no answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, calls), daemon=True).start()
    while True:
        function, arguments, keywords = calls.get()
        try:
            answer = (True, function(*arguments, **keywords))
        except Exception as error:
            answer = (False, error)
        send(answers, answer)


if __name__ == "__main__":
    main()
