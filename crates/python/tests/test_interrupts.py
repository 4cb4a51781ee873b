"""Ctrl-C, panics, the interpreter's lock, and what an import costs."""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import perforate
from conftest import slowness

WAITING = """
import os, signal, sys, threading, time
import perforate
{slowness}
pid = os.getpid()
sent = []
def interrupt():
    time.sleep({after})
    sent.append(time.monotonic())
    os.kill(pid, signal.SIGINT)
before = slowness()
threading.Thread(target=interrupt).start()
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - sent[0], max(before, slowness()))
"""

#: None of them would end within minutes.
CALLS = {
    "compare": "perforate.compare('random:size=1G', instructions='10G', out='out')",
    "memory that ages": "perforate.compare('random', age='weeks', memory='1T', instructions='10G', schemes='thp')",
    "sweep": "perforate.sweep({'seed': [1, 2, 3]}, workload='random', instructions='10G', out='out', workers=2)",
    "sweep of an experiment": "perforate.sweep('long.toml', out='out', workers=2)",
    "trace": "[None for _ in range(1000) for _ in perforate.open_trace('hpcc')]",
    "program": "perforate.compare(program=['python3', '-c', 'while True: pass'], instructions='100G')",
    "calibrate": "perforate.calibrate(rounds=50, out='machine.toml')",
}

LONG = """
name = "mine/long"
title = "It never ends"
source = "a test"
settings = { workload = "random", instructions = "10G" }
curve = [{ name = "4k", value = "ipc(4k)" }]
"""


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_within_a_second_and_leaves_nothing_half_written(name: str, tmp_path: Path) -> None:
    """Within a second where nothing else runs; what else runs on this computer takes its share."""
    if name == "program" and shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed")
    Path("long.toml").write_text(LONG)
    script = WAITING.format(after=1.5, call=CALLS[name], slowness=inspect.getsource(slowness))
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert found.stdout.startswith("interrupted "), found.stderr
    seconds, slow = map(float, found.stdout.split()[1:])
    assert seconds < 1.0 + 3.0 * (slow - 1.0), f"processors are {slow:.1f} times as slow as alone"
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "long.toml"]
    assert all(path.name == "points.jsonl" and path.stat().st_size == 0 for path in files), files


def test_an_exception_of_the_progress_callback_ends_the_run() -> None:
    class Enough(Exception):
        pass

    seen = []

    def hear(done: int, total: int | None) -> None:
        seen.append((done, total))
        if done > 0:
            raise Enough

    with pytest.raises(Enough):
        perforate.compare("random:size=1G", schemes="4k", instructions="10G", progress=hear)
    assert seen[-1][1] == 10_000_000_000


def test_other_threads_run_meanwhile() -> None:
    ticks = 0
    over = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.wait(0.002):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    perforate.compare("random:size=256M", schemes="4k,thp", instructions="2M")
    seconds = time.monotonic() - start
    over.set()
    thread.join()
    assert ticks * slowness() > 20 * seconds


def test_an_import_is_quick_and_takes_no_frames_along() -> None:
    script = (
        "import sys, time; start = time.process_time(); import perforate; "
        "print(time.process_time() - start, *(name for name in "
        "('numpy', 'pandas', 'polars', 'matplotlib', 'altair') if name in sys.modules))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(5)
    ]
    assert all(len(words) == 1 for words in runs), runs
    assert min(float(words[0]) for words in runs) < 0.2


def test_exit_codes_of_the_command() -> None:
    def code(*words: str) -> int:
        return subprocess.run([sys.executable, "-m", "perforate", *words], capture_output=True).returncode

    assert code("list", "schemes") == 0
    assert code("trace", "info", "nowhere") == 1
    assert code("compare", "--memory", "64") == 2
    script = Path(sys.executable).with_name("perforate")
    listed = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert listed.stdout.startswith("perforate ")


def test_ctrl_c_ends_the_command_at_once() -> None:
    words = [sys.executable, "-m", "perforate", "compare", "random", "--instructions", "10G", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # It simulates once it has threads of its own.
    until = time.monotonic() + 60
    while len(os.listdir(f"/proc/{process.pid}/task")) == 1:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=5 * slowness()) == -signal.SIGINT
    assert os.listdir() == []
