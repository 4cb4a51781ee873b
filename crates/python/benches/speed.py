"""How fast traces come as columns, and what a comparison takes here and on the command line.

    python crates/python/benches/speed.py [COMMAND]

COMMAND is the `perforate` to compare with, by default that of this package.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import perforate

WORDS = ["compare", "hpcc", "--instructions", "20M", "--json"]


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def rate(trace: perforate.Trace, threads: int, columns: Sequence[str]) -> float:
    """Rows in a second, in millions."""
    rows = 0

    def read() -> None:
        nonlocal rows
        rows = sum(len(batch) for batch in trace.batches(columns, threads=threads))

    taken = min(seconds(read) for _ in range(3))
    return rows / taken / 1e6


def main() -> None:
    """Prints all of it."""
    command = sys.argv[1:] or [sys.executable, "-m", "perforate"]
    for name in ("hpcc", "redis"):
        trace = perforate.open_trace(name)
        for threads in (1, 2):
            million = rate(trace, threads, ("ip", "address", "size", "kind"))
            print(f"{name}: {million:.1f} M rows/s into four columns, {threads} thread(s)")
    # Taken in turn, so that what else this computer does falls on both.
    pairs = [
        (
            seconds(lambda: subprocess.run([*command, *WORDS], stdout=subprocess.DEVNULL, check=True)),
            seconds(lambda: perforate.compare("hpcc", instructions="20M")),
        )
        for _ in range(5)
    ]
    alone, here = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    print(f"compare hpcc, 20 M instructions: command {alone:.2f} s, Python {here:.2f} s ({here / alone - 1:+.1%})")


if __name__ == "__main__":
    main()
