"""A process of :class:`perforate.LocalProcesses`, which runs the calls that it receives."""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import IO, Any

from ._local import receive, send


def _listen(stream: IO[bytes], calls: queue.SimpleQueue[Any]) -> None:
    """Receives calls. When the sender is gone, the process ends, even during a call."""
    try:
        while True:
            calls.put(receive(stream))
    except EOFError:
        os._exit(0)


def main() -> None:
    """Runs calls until the other end is closed."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Printed text must not mix with the answers.
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
