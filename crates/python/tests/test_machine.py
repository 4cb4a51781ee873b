"""The real machine: snapshots, recordings, measurements."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import perforate


def test_the_memory_of_this_process() -> None:
    found = perforate.snapshot(os.getpid(), output="own.json")
    assert found.data["pid"] == os.getpid()
    again = perforate.snapshot(file="own.json")
    assert again.data == found.data
    with pytest.raises(perforate.UsageError, match="did you mean contents"):
        perforate.snapshot(os.getpid(), content=True)
    with pytest.raises(perforate.Error):
        perforate.snapshot(file="nowhere")


def test_the_memory_of_this_machine() -> None:
    found = perforate.snapshot(request="none")
    assert "<pre>" in found._repr_html_() and found.data


def test_a_program_is_recorded() -> None:
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed")
    seen: list[int] = []
    found = perforate.record(["/bin/true"], "true.trace", progress=lambda done, total: seen.append(done))
    assert found.trace.instructions == found.data["instructions"] > 1000
    assert "the program ended with exit code 0" in repr(found)


def test_options_of_a_recording_are_the_command_lines() -> None:
    for options, text in [
        ({"smaple": "1M/2M"}, "did you mean sample"),
        ({"sample": "1M"}, "expected auto or N/M"),
        ({"level": 99}, "level"),
    ]:
        with pytest.raises(perforate.UsageError, match=text):
            perforate.record(["/bin/true"], "x.trace", **options)
    with pytest.raises(perforate.UsageError, match="program: is empty"):
        perforate.record([], "x.trace")
    assert not Path("x.trace").exists()


def test_wrong_use_of_measurements() -> None:
    with pytest.raises(perforate.UsageError, match="did you mean rounds"):
        perforate.calibrate(round=3)
    with pytest.raises(perforate.UsageError, match="needs a program"):
        perforate.validate(program_only=True)


def test_advice_is_an_object_and_a_text() -> None:
    advice = perforate.advise("random:size=32M", instructions="600k", memory="1G", fragmentation="none", now="never")
    assert advice["verdict"] in ("worth", "unclear", "not-worth")
    assert advice["evidence"]["kind"] == "trace"
    assert advice["runs"][0]["name"] == "as it is"
    assert [size["page_bytes"] for size in advice["areas"][0]["sizes"]] == [2 << 20]
    assert "Evidence A" in str(advice)
    with pytest.raises(perforate.UsageError, match="expected always, madvise or never"):
        perforate.advise("random", now="perhaps")
    with pytest.raises(perforate.UsageError, match="not both"):
        perforate.advise("random", program=["/bin/true"])


def test_a_failed_measurement_keeps_the_prediction() -> None:
    """The program fails when it runs for the third time: it is recorded, and runs once before the runs that count."""
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if shutil.which("qemu-x86_64") is None or not enabled.exists() or "[never]" in enabled.read_text():
        pytest.skip("needs qemu-x86_64, and large pages of Linux")
    Path("runs").write_text("0\n")
    program = """read n < runs; n=$((n + 1)); echo $n > runs
        case $n in 1) while [ $n -lt 1000 ]; do n=$((n + 1)); done; exit 0;; 3) exit 5;; esac
        i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done"""
    advice = perforate.advise(
        program=["sh", "-c", program], verify=True, rounds=1, machine="ice-lake-sp", memory="1G", fragmentation="none"
    )
    assert "exited with code 5" in advice["verification_failure"]
    assert "verification" not in advice.data and advice["gain"]["speed"] > 0


def test_workers_of_benchmarks_are_this_package() -> None:
    """A validation starts `python -m perforate native-worker`, as the command starts itself."""
    job = {"benchmark": "chase", "bytes": 1 << 21, "paging": "small", "processor": None, "recorded_operations": None}
    words = [sys.executable, "-m", "perforate", "native-worker", json.dumps(job)]
    found = subprocess.run(words, input="1000\n", capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    state, measured = map(json.loads, found.stdout.splitlines())
    assert state["large_share"] == 0.0 and measured["wall_nanoseconds"] > 0
