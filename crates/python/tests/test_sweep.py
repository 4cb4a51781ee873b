"""Sweeps: order, keeping, and workers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import perforate
from perforate import _sweep

GRID = {"workload": ["random:size=64M", "random:size=128M"], "tlb.l2.entries": [768, 1536, 3072]}
FIXED = {"schemes": "4k,thp", "instructions": "40k", "memory": "1G"}


class Counted(ThreadPoolExecutor):
    """Counts what is submitted."""

    submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(fn, *args, **kwargs)


def test_results_are_the_same_whatever_computes_them() -> None:
    alone = perforate.sweep(GRID, workers=1, **FIXED)
    assert alone == perforate.sweep(GRID, workers=3, **FIXED)
    with ThreadPoolExecutor(3) as threads:
        assert alone == perforate.sweep(GRID, threads, **FIXED)
    by_hand = [perforate.compare(point["workload"], set={"tlb.l2.entries": point["tlb.l2.entries"]}, **FIXED) for point in alone.points]
    assert alone.lines == "".join(found.lines for found in by_hand)


def test_points_are_every_value_with_every_other() -> None:
    found = perforate.sweep(GRID, workers=2, **FIXED)
    assert len(found) == 6 and found.varied == ["workload", "tlb.l2.entries"]
    assert [point["tlb.l2.entries"] for point in found.points] == [768, 1536, 3072] * 2
    frame = found.to_pandas()
    assert list(frame.columns[:3]) == ["workload", "tlb.l2.entries", "scheme"] and len(frame) == 18
    fewer, more = found[0]["4k"]["walks"], found[2]["4k"]["walks"]
    assert fewer >= more
    axis = found.plot("tlb.l2.entries", "walks").axes[0]
    assert len(axis.get_lines()) == 6
    assert "tlb.l2.entries" in str(found.chart(y="ipc").to_dict()) and "768" in found._repr_html_()


def test_a_repeated_sweep_computes_nothing() -> None:
    with Counted(2) as executor:
        first = perforate.sweep(GRID, executor, out="kept", **FIXED)
        assert executor.submitted == 6
        written = Path("kept/results.jsonl").read_bytes()
        assert first == perforate.sweep(GRID, executor, out="kept", **FIXED)
        assert executor.submitted == 6 and Path("kept/results.jsonl").read_bytes() == written
        # Other words for the same point, and the same point twice, are one.
        points = [{"memory": "1G"}, {"memory": "1024M"}, {"memory": "2G"}]
        fixed = {"workload": "random:size=64M", "schemes": "4k", "instructions": "40k"}
        perforate.sweep(points, executor, out="kept", **fixed)
        assert executor.submitted == 8
    assert written.decode() == first.lines


def test_a_kept_point_that_is_cut_off_is_computed_again() -> None:
    grid = {"workload": ["random:size=64M"]}
    first = perforate.sweep(grid, workers=1, out="kept", **FIXED)
    kept = Path("kept/points.jsonl")
    text = kept.read_text()
    kept.write_text(text[:-20])
    assert first == perforate.sweep(grid, workers=1, out="kept", **FIXED)
    assert kept.read_text() == text


def test_a_trace_is_known_by_its_content() -> None:
    rows = perforate.open_trace("meep").read(instructions=2000)
    asked = _sweep._asked({"workload": "a.trace", "schemes": "4k"})
    keys = []
    for length in (1000, 1000, 1500):
        perforate.write_trace("a.trace", {name: rows[name][:length] for name in rows.columns})
        os.utime("a.trace", ns=(len(keys) * 10**9, len(keys) * 10**9))
        keys.append(_sweep._native.point(asked))
    assert keys[0] == keys[1] != keys[2]


class Mortal(perforate.LocalProcesses):
    """Kills the process of some submissions."""

    def __init__(self, deaths: int) -> None:
        super().__init__(2)
        self.deaths = deaths
        self.submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        if self.deaths > 0:
            self.deaths -= 1
            return super().submit(os.kill, *_own_pid_and_kill())
        return super().submit(fn, *args, **kwargs)


def _own_pid_and_kill() -> tuple[int, int]:
    return (0, signal.SIGKILL)  # 0 is the process group of whoever calls it


def test_a_worker_that_dies_costs_only_its_point() -> None:
    expected = perforate.sweep(GRID, workers=2, **FIXED)
    with Mortal(2) as executor:
        assert perforate.sweep(GRID, executor, **FIXED) == expected
        assert executor.submitted == 6 + 2


def test_a_point_that_always_dies_is_given_up_and_the_others_are_kept() -> None:
    grid = {"workload": ["random:size=64M"]}
    with Mortal(99) as executor, pytest.raises(perforate.SweepError, match="killed by signal 9") as caught:
        perforate.sweep(grid, executor, attempts=4, **FIXED)
    assert executor.submitted == 4 and isinstance(caught.value.failures[0], perforate.WorkerDied)


def _die(*_: object) -> str:
    os._exit(7)


def test_an_executor_that_breaks_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = perforate.sweep(GRID, workers=2, **FIXED)

    class Breaking(ProcessPoolExecutor):
        submitted = 0

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.submitted += 1
            return super().submit(_die if self.submitted == 2 else fn, *args, **kwargs)

    with Breaking(2) as executor:
        assert perforate.sweep(GRID, executor, **FIXED) == expected


def test_wrong_points_are_refused_before_any_is_computed() -> None:
    with Counted(1) as executor:
        with pytest.raises(perforate.UsageError, match="did you mean memory"):
            perforate.sweep([{"memory": "1G"}, {"memori": "2G"}], executor, **FIXED)  # type: ignore[arg-type]
        with pytest.raises(perforate.UsageError, match="expected several values"):
            perforate.sweep({"workload": "random"}, executor, **FIXED)
        assert executor.submitted == 0


def test_a_point_that_fails_does_not_stop_the_others() -> None:
    fixed = {**FIXED, "memory": "64M"}
    with pytest.raises(perforate.SweepError, match="1 of 2 points failed") as caught:
        perforate.sweep({"workload": ["random:size=16M", "random:size=2G"]}, workers=2, out="kept", **fixed)
    assert list(caught.value.failures) == [1] and isinstance(caught.value.failures[1], perforate.RunError)
    assert len(Path("kept/points.jsonl").read_text().splitlines()) == 1


def test_workers_end_with_the_process_that_started_them() -> None:
    script = "import perforate, time\nwith perforate.LocalProcesses(1) as it:\n  print(it.submit(__import__('os').getpid).result(), flush=True)\n  it.submit(time.sleep, 60).result()\n"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    until = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists() and not _is_zombie(worker):
        assert time.monotonic() < until, "the worker lives on"
        time.sleep(0.05)


def _is_zombie(process: int) -> bool:
    try:
        return ") Z" in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return True
