"""A sweep of 1,000 points on everything that computes sweeps: time, overhead of each point, and whether the
bytes are the same. On Dask a worker is killed in the middle.

    python crates/python/benches/executors.py [POINTS]

Needs `distributed` and `submitit`. Overhead is the time in which workers did not simulate, start and end
included: (elapsed time × workers − time within the simulations) / points. Against the command line: (elapsed
time − that of `perforate experiment run --jobs 2`) × workers / points.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import distributed
import submitit

import perforate

WORKERS = 2
EXPERIMENT = """
name = "bench/sizes"
title = "Walks, and the size of the data"
source = "a benchmark"
[settings]
workload = "random:size={{x}}K"
memory = "1G"
instructions = "150k"
[axis]
label = "size of the data in KB"
plain = true
from = 8192
to = {last}
step = 16
[[curve]]
name = "4k"
value = "walks(4k)"
show = "number"
"""


def clocked(function: Callable[..., str], *arguments: Any) -> tuple[float, str]:
    """What workers are handed: the call, and how long it takes."""
    start = time.perf_counter()
    found = function(*arguments)
    return time.perf_counter() - start, found


class Clocked(Executor):
    """Another executor, with a clock on what it computes."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.seconds = 0.0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def hear(clocked: Future[tuple[float, str]]) -> None:
            error = clocked.exception()
            if error is not None:
                future.set_exception(error)
                return
            seconds, found = clocked.result()
            self.seconds += seconds
            future.set_result(found)

        self.inner.submit(clocked, fn, *args, **kwargs).add_done_callback(hear)
        return future


class Report:
    """What is known of the run in one piece, to compare others with."""

    def __init__(self, points: int) -> None:
        self.points = points
        self.whole = 0.0

    def tell(self, name: str, out: str, elapsed: float, simulated: float | None, note: str = "") -> None:
        """A line about a run."""
        against = (elapsed - self.whole) * WORKERS / self.points * 1e3
        line = f"{name:<28} {elapsed:6.1f} s"
        if simulated is not None:
            own = (elapsed * WORKERS - simulated) / self.points * 1e3
            line += f"  {simulated / self.points * 1e3:5.1f} ms simulating, {own:5.1f} ms besides"
        line += f"  {against:+6.1f} ms against the command line"
        same = all(Path(out, name).read_bytes() == Path("whole", name).read_bytes() for name in ("results.jsonl", "verdicts.txt"))
        print(f"{line}  {'same bytes' if same else 'OTHER BYTES'}{note}", flush=True)


def command(*words: str) -> float:
    """Runs the command line, and returns how long it took."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "perforate", *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def kill_in_the_middle(client: distributed.Client, points: int) -> threading.Thread:
    """Kills a worker once half of the points are there."""

    def kill() -> None:
        kept = Path("killed/points.jsonl")
        while not kept.exists() or kept.read_bytes().count(b"\n") < points // 2:
            time.sleep(0.05)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def dask(report: Report) -> None:
    """On two processes of Dask's, with a kill and without."""
    with distributed.LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster, distributed.Client(cluster) as client:
        # Imports are not the sweep's.
        client.run(clocked, str)
        for name, out in (("Dask", "dask"), ("Dask, a worker killed", "killed")):
            before = set(client.run(os.getpid).values())
            killer = kill_in_the_middle(client, report.points) if out == "killed" else None
            executor = Clocked(client.get_executor())
            start = time.perf_counter()
            perforate.sweep("sizes.toml", executor, out=out)
            elapsed = time.perf_counter() - start
            if killer is not None:
                killer.join()
            client.wait_for_workers(WORKERS)
            restarts = len(set(client.run(os.getpid).values()) - before)
            report.tell(name, out, elapsed, executor.seconds, f"  {restarts} restart(s)")


def shards(report: Report) -> None:
    """Two shards at the same time, on a processor each, and what joins them."""
    start = time.perf_counter()
    run = [sys.executable, "-m", "perforate", "experiment", "run", "sizes.toml", "--jobs", "1"]
    parts = [
        subprocess.Popen([*run, "--shard", f"{part}/{WORKERS}", "--out", f"part-{part}"], stdout=subprocess.DEVNULL)
        for part in range(1, WORKERS + 1)
    ]
    assert all(part.wait() == 0 for part in parts)
    command("experiment", "merge", *(f"part-{part}" for part in range(1, WORKERS + 1)), "--out", "shards")
    report.tell("two shards, and merge", "shards", time.perf_counter() - start, None)


def main() -> None:
    """Prints all of it."""
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("sizes.toml").write_text(EXPERIMENT.format(last=8192 + 16 * (points - 1)))
        report = Report(points)
        report.whole = command("experiment", "run", "sizes.toml", "--jobs", str(WORKERS), "--out", "whole")
        print(f"{points} points, {WORKERS} workers on {os.cpu_count()} processors")
        report.tell("the command line", "whole", report.whole, None)
        dask(report)
        start = time.perf_counter()
        perforate.sweep("sizes.toml", out="local", workers=WORKERS)
        report.tell("processes of our own", "local", time.perf_counter() - start, None)
        start = time.perf_counter()
        executor = submitit.AutoExecutor(folder="jobs", cluster="local")
        executor.update_parameters(timeout_min=60)
        perforate.sweep("sizes.toml", executor, out="submitit", workers=WORKERS)
        report.tell("submitit, an array of two", "submitit", time.perf_counter() - start, None)
        shards(report)
        report.tell("Dask's, run again", "dask", command("experiment", "run", "sizes.toml", "--out", "dask"), None)


if __name__ == "__main__":
    main()
