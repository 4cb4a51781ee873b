"""Sweeps of experiment files on executors: the same bytes everywhere, whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

import perforate

distributed = pytest.importorskip("distributed", reason="Dask is not installed")
submitit = pytest.importorskip("submitit", reason="submitit is not installed")

#: So many places, each a run of two schemes.
PLACES = 40
EXPERIMENT = f"""
name = "mine/sizes"
title = "Walks, and the size of the data"
source = "a test"
[settings]
workload = "random:size={{x}}M"
memory = "1G"
instructions = "40k"
[axis]
label = "size of the data in MB"
plain = true
from = 4
to = {4 * PLACES}
step = 4
[[curve]]
name = "4k"
value = "walks(4k)"
show = "number"
[[curve]]
name = "thp"
value = "walks(thp)"
show = "number"
[[claim]]
id = "M-1"
statement = "Large pages walk less often"
source = "by hand"
kind = "sign"
curve = "4k"
lead_over = "thp"
at_least = 0.0
"""


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment as the command line runs it in one piece."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "mine.toml").write_text(EXPERIMENT)
    _run("experiment", "run", "mine.toml", "--out", "out", folder=folder)
    return folder / "out"


@pytest.fixture(autouse=True)
def experiment(in_a_folder_of_its_own: None) -> None:
    Path("mine.toml").write_text(EXPERIMENT)


def _run(*words: str, folder: Path | str = ".") -> str:
    command = [sys.executable, "-m", "perforate", *words]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


FILES = ("results.jsonl", "report.html", "verdicts.txt")


def _same(one: Path | str, other: Path | str) -> None:
    for name in FILES:
        assert (Path(one) / name).read_bytes() == (Path(other) / name).read_bytes(), name


def test_what_a_sweep_measured_the_command_line_has(whole: Path) -> None:
    found = perforate.sweep("mine.toml", out="out", workers=2)
    _same("out", whole)
    assert found.lines == Path("out/results.jsonl").read_text()
    points = Path("out/points.jsonl").read_bytes()
    assert "80, of which 80 were measured before" in _run("experiment", "run", "mine.toml", "--out", "out")
    _same("out", whole)
    assert Path("out/points.jsonl").read_bytes() == points
    # And the other way round.
    shutil.copytree(whole, "copy")
    heard: list[int] = []
    assert perforate.sweep("mine.toml", out="copy", progress=lambda *seen: heard.extend(seen)) == found
    assert heard == []
    # Without a folder nothing is written.
    before = sorted(os.listdir())
    assert perforate.sweep(Path("mine.toml"), workers=2) == found and sorted(os.listdir()) == before


def test_records_of_an_experiment() -> None:
    found = perforate.sweep("gtsm/fig3", quick=True, samples=None, workers=1)
    assert found.claims[0]["verdict"] == "reproduced" and "reproduced" in repr(found)
    frame = found.to_pandas()
    assert len(frame) == len(found.points) > 100 and list(frame["curve"].unique()) == ["2M", "128K", "64K", "32K"]
    assert found.to_polars().shape == frame.shape


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"quik": True}, "did you mean quick"),
        ({"jobs": 3}, "jobs: use workers"),
        ({"shard": "1/2"}, "use perforate experiment run --shard"),
        ({"quick": "maybe"}, "expected yes or no"),
        ({"seeds": 0}, "seeds"),
        ({"executor": 7}, "expected one of concurrent.futures or submitit"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(perforate.UsageError, match=text):
        perforate.sweep("mine.toml", **options)
    with pytest.raises(perforate.UsageError, match="did you mean gtsm/fig3"):
        perforate.sweep("gtsm/fgi3")


def test_a_worker_that_would_measure_something_else_refuses() -> None:
    """As if its file had changed between planning and measuring."""
    rows = perforate.open_trace("hpcc").read(instructions=20_000)
    columns = {name: rows[name] for name in rows.columns}
    perforate.write_trace("a.trace", columns)
    Path("mine.toml").write_text(EXPERIMENT.replace("random:size={x}M", "a.trace").replace("to = 160", "to = 4"))

    class Late(perforate.LocalProcesses):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            perforate.write_trace("a.trace", {name: column[:9000] for name, column in columns.items()})
            return super().submit(fn, *args, **kwargs)

    with Late(1) as executor, pytest.raises(perforate.SweepError, match="other files under the names") as caught:
        perforate.sweep("mine.toml", executor, out="out")
    assert len(caught.value.failures) == 1 and Path("out/points.jsonl").read_text() == ""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two processes with a thread each."""
    from dask import config

    config.set({"distributed.worker.daemon": True})
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster, distributed.Client(cluster) as client:
        yield client


def _kill_one(client: Any, lines: Path, after: int) -> tuple[threading.Thread, list[int]]:
    """Kills a worker once so many points are there."""
    killed: list[int] = []

    def kill() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if lines.exists() and lines.read_bytes().count(b"\n") >= after:
                pids = list(client.run(os.getpid).values())
                os.kill(pids[0], signal.SIGKILL)
                killed.append(pids[0])
                return
            time.sleep(0.005)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread, killed


def test_a_worker_of_dask_that_is_killed_costs_only_its_point(cluster: Any, whole: Path) -> None:
    before = set(cluster.run(os.getpid).values())
    thread, killed = _kill_one(cluster, Path("out/points.jsonl"), after=10)
    counted: list[tuple[int, int]] = []
    found = perforate.sweep(
        "mine.toml", cluster.get_executor(), out="out", progress=lambda *seen: counted.append(seen)
    )
    thread.join()
    assert len(killed) == 1 and killed[0] in before
    _same("out", whole)
    assert counted == [(done, PLACES) for done in range(1, PLACES + 1)]
    # Each was measured and kept once.
    assert Path("out/points.jsonl").read_text().count("\n") == 2 * PLACES
    assert perforate.sweep("mine.toml", cluster.get_executor(), out="out") == found


def test_a_grid_on_dask(cluster: Any) -> None:
    grid = {"workload": ["random:size=64M", "random:size=128M"], "tlb.l2.entries": [768, 1536, 3072]}
    fixed = {"schemes": "4k,thp", "instructions": "40k", "memory": "1G"}
    assert perforate.sweep(grid, cluster.get_executor(), **fixed) == perforate.sweep(grid, workers=1, **fixed)


def _die_once(marker: str, then: Callable[..., str], *arguments: Any) -> str:
    """The first call that comes to it dies with its process."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return then(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Deadly(distributed.cfexecutor.ClientExecutor):  # type: ignore[misc, name-defined]
    """Its first call dies with its worker."""

    marker = ""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return super().submit(_die_once, self.marker, fn, *args, **kwargs)


def test_a_point_that_dask_gave_up_is_submitted_again(cluster: Any, whole: Path, tmp_path: Path) -> None:
    """Dask gives a task up (KilledWorker) whose workers died more than `allowed-failures` times."""
    cluster.run_on_scheduler(_allow_failures, 0)
    try:
        executor = Deadly(cluster)
        executor.marker = str(tmp_path / "died")
        perforate.sweep("mine.toml", executor, out="out")
    finally:
        cluster.run_on_scheduler(_allow_failures, 3)
    assert Path(executor.marker).exists()
    _same("out", whole)


def _allow_failures(number: int, dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = number


def _local(folder: str = "jobs") -> Any:
    return submitit.AutoExecutor(folder=folder, cluster="local")


def test_submitit_packs_points_into_jobs(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    submitted: list[int] = []

    class Counting(submitit.AutoExecutor):  # type: ignore[misc, name-defined]
        def _internal_process_submissions(self, submissions: list[Any]) -> Any:
            submitted.append(len(submissions))
            return super()._internal_process_submissions(submissions)

    perforate.sweep("mine.toml", Counting(folder="jobs", cluster="local"), out="out", workers=3)
    _same("out", whole)
    assert submitted == [3], "one array of three jobs"
    assert "Traceback" not in capfd.readouterr().err, "jobs end by themselves"
    assert not list(Path("jobs").glob("*.answers"))
    grid = [{"memory": "1G"}, {"memory": "2G"}]
    fixed = {"workload": "random:size=64M", "schemes": "4k", "instructions": "40k"}
    assert perforate.sweep(grid, _local(), **fixed) == perforate.sweep(grid, workers=1, **fixed)


def test_a_job_of_submitit_that_is_killed_costs_only_its_point(whole: Path) -> None:
    executor = _local()
    submitted: list[Any] = []
    submit = executor.submit
    marker = os.path.abspath("died")

    def die() -> None:
        open(marker, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)

    def keeping(*args: Any) -> Any:
        # The first job kills itself at its third call.
        if not submitted:
            function, file, calls = args
            args = (function, file, [*calls[:2], (calls[2][0], (die, (), {})), *calls[3:]])
        submitted.append(submit(*args))
        return submitted[-1]

    executor.submit = keeping
    perforate.sweep("mine.toml", executor, out="out", workers=2)
    assert Path(marker).exists()
    # Two jobs; then what the first had not done is packed into two again.
    assert len(submitted) == 4
    _same("out", whole)
    assert Path("out/points.jsonl").read_text().count("\n") == 2 * PLACES


def test_ctrl_c_cancels_jobs() -> None:
    script = """
import os, signal, submitit, threading, time, perforate
class Telling(submitit.AutoExecutor):
    def _internal_process_submissions(self, submissions):
        jobs = super()._internal_process_submissions(submissions)
        print(*(job.job_id for job in jobs), flush=True)
        return jobs
threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
perforate.sweep({"seed": [1, 2]}, Telling("jobs", cluster="local"), workload="random", instructions="10G", workers=2)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "KeyboardInterrupt" in found.stderr
    jobs = [int(job) for job in found.stdout.split()]
    until = time.monotonic() + 60
    while any(Path(f"/proc/{job}").exists() for job in jobs):
        assert len(jobs) == 2 and time.monotonic() < until, "jobs live on"
        time.sleep(0.1)


def test_jobs_that_die_at_once_are_given_up() -> None:
    executor = _local()
    executor.update_parameters(local_setup=["exit 3"])
    with pytest.raises(perforate.SweepError, match="ended in the middle of its work") as caught:
        perforate.sweep("mine.toml", executor, workers=2, attempts=2)
    assert len(caught.value.failures) == PLACES


def test_the_same_by_shards(whole: Path) -> None:
    for index in ("1", "2"):
        _run("experiment", "run", "mine.toml", "--shard", f"{index}/2", "--out", f"part-{index}")
    _run("experiment", "merge", "part-1", "part-2", "--out", "out")
    assert Path("out/results.jsonl").read_bytes() == (whole / "results.jsonl").read_bytes()
