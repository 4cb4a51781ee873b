"""Arguments as they come by mistake: an error in Python's words, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perforate
from conftest import SHORT


def refused(text: str, function: Any, *words: Any, **options: Any) -> None:
    with pytest.raises(perforate.UsageError) as caught:
        function(*words, **options)
    assert text in str(caught.value) and "\n" not in str(caught.value), caught.value
    assert "--" not in str(caught.value), f"a flag of the command line: {caught.value}"
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("workload", [None, "", b"hpcc", 3, float("nan"), True, {"random": {"size": "8M"}}])
def test_what_is_no_workload(workload: object) -> None:
    """Nothing is not the default."""
    text = 'workload: expected a workload or trace such as "hpcc", a path, or a Trace, not '
    refused(text, perforate.compare, workload)
    refused(text, perforate.run, workload)
    refused(text, perforate.explain, workload=workload)
    refused(text, perforate.sweep, {"workload": [workload]})


@pytest.mark.parametrize("scheme", [None, "", 4, ["4k"], "4k,thp", "all"])
def test_what_is_not_one_scheme(scheme: object) -> None:
    text = "scheme: expected one name such as '4k', not "
    refused(text, perforate.run, "hpcc", scheme)
    refused(text, perforate.explain, scheme=scheme)


def test_programs() -> None:
    refused("a program is program=['ls', '-l']", perforate.compare, ["ls", "-l"])
    for program, text in [
        ([], "program: is empty; expected a program and its arguments, such as program=['ls', '-l']"),
        ([""], "program: is empty"),
        ("ls -l", "expected a list of words such as program=['ls', '-l']; shlex.split('ls -l') makes one"),
        (5, "expected a list of words such as program=['ls', '-l'], not int"),
        (["ls", None], "expected words such as program=['ls', '-l'], not None"),
    ]:
        refused(text, perforate.compare, program=program)
        refused(text, perforate.validate, program)
        refused(text, perforate.record, program, "x.trace")
    refused("a workload or a program, not both: hpcc and ls", perforate.compare, "hpcc", program=["ls"])
    refused("counters: needs a program, such as program=['ls', '-l']", perforate.compare, counters=True)
    refused("counters: expected True or False, not 'no'", perforate.compare, program=["ls"], counters="no")
    refused("perforate.record(program, 'my.trace')", perforate.sweep, {"memory": ["4G"]}, program=["ls"])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"schemes": []}, "schemes: is empty; expected names such as ['4k', 'thp']"),
        ({"schemes": ""}, "schemes: is empty"),
        ({"guest": []}, "guest: is empty"),
        ({"schemes": 4}, "schemes: expected names such as ['4k', 'thp'], not 4"),
        ({"schemes": ["4k", None]}, "schemes: expected names such as ['4k', 'thp'], not None"),
        ({"memory": 1 << 30}, 'memory: 1073741824 has no unit; expected text with one, such as memory="16G"'),
        ({"memory": np.int64(64)}, 'such as memory="16G"'),
        ({"memory": float("nan")}, 'such as memory="16G"'),
        ({"host_memory": 64}, 'such as host_memory="16G"'),
        ({"memory": ["1G", "2G"]}, "memory: expected one value, not a list; perforate.sweep compares several values"),
        ({"instructions": np.array([1, 2])}, "instructions: expected one value, not a list"),
        ({"instructions": -5}, "instructions: expected a whole number"),
        ({"instructions": float("inf")}, "instructions: expected a whole number"),
        ({"seeds": True}, "seeds: expected a whole number from 1 to 1000, not True"),
        ({"seeds": "3"}, "seeds: expected a whole number from 1 to 1000, not '3'"),
        ({"machine": {}}, 'such as {"base": "ice-lake-sp", "tlb.l2.entries": 4096}'),
        ({"machine": {"tlb.l2.entries": 4096}}, 'such as {"base": "ice-lake-sp", "tlb.l2.entries": 4096}'),
        ({"machine": {"base": "ice-lake-sp", 3: 4}}, "machine: expected keys such as those of"),
        ({"set": ["tlb.l2.entries"]}, 'set: expected a dict such as {"tlb.l2.entries": 3072}'),
        ({"set": {3: 3}}, 'set: expected keys such as those of {"tlb.l2.entries": 3072}, not 3'),
        ({"set": {"tlb.l2.entries": "abc"}}, 'set={"tlb.l2.entries": "abc"}: '),
        ({"machine": {"base": "ice-lake-sp", "tlb": {"l2": {"entries": 5}}}}, 'set={"tlb.l2.entries": "5"}: '),
        ({"progress": 3}, "progress: expected a function"),
        ({"out": 3}, "out: expected the path of a folder, not 3"),
        ({"precision": "1%"}, 'precision: is for timing="sampled"'),
        ({"workload": "random:size=64M", "timing": "sampled", "cores": 2, "threads": 2}, 'leave timing="sampled" out'),
    ],
)
def test_values_of_a_comparison(given: dict[str, object], text: str) -> None:
    refused(text, perforate.compare, **{**SHORT, **given})


def test_folders_that_are_files(short: perforate.Comparison) -> None:
    Path("file").write_text("precious")
    for act in [
        lambda: perforate.compare(**SHORT, out="file"),  # type: ignore[arg-type]
        lambda: perforate.sweep({"memory": ["4G"]}, out="file"),
        lambda: short.save("file"),
    ]:
        with pytest.raises(perforate.UsageError, match="file: a file of that name exists; expected a folder"):
            act()
    assert Path("file").read_text() == "precious"
    with pytest.raises(perforate.RunError, match="is a folder; expected the path of a file"):
        short.report(".")
    Path("odd.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(perforate.RunError, match="byte 0: expected JSON lines in UTF-8"):
        perforate.read_results("odd.jsonl")


@pytest.mark.parametrize(
    ("grid", "fixed", "text"),
    [
        ({}, {}, "grid: is empty; expected values by key such as"),
        ([], {}, "grid: is empty; expected values by key such as"),
        ({"memory": []}, {}, "memory: has no values"),
        (None, {}, "grid: expected values by key such as"),
        ({"memory": "4G"}, {}, "memory: expected several values, such as ['4G']"),
        ({"fragmentation": {"portion": "50%"}}, {}, "fragmentation: expected several values, such as [{"),
        ({"memory": {"4G", "8G"}}, {}, "memory: expected a list of values, as a set has no order"),
        ({"memory": ["4G"]}, {"memory": "8G"}, "memory: has values in the grid and one beside it"),
        (["4G"], {}, "grid: expected points such as {'memory': '4G'}, not '4G'"),
        ({1: [2]}, {}, "grid: expected keys such as those of"),
        ({"memory": ["4G"]}, {"workers": 0}, "workers: expected a whole number of at least 1, not 0"),
        ({"memory": ["4G"]}, {"workers": 1.5}, "workers: expected a whole number of at least 1, not 1.5"),
        ({"memory": ["4G"]}, {"attempts": 0}, "attempts: expected a whole number of at least 1, not 0"),
        ({"memory": ["4G"]}, {"executor": "x"}, "executor: expected one of concurrent.futures or submitit, not str"),
    ],
)
def test_grids(grid: Any, fixed: dict[str, Any], text: str) -> None:
    refused(text, perforate.sweep, grid, **fixed)


def test_addresses_processes_and_parts_of_traces() -> None:
    for addresses in ["x", 1.5, [1, None]]:
        refused("addresses: expected whole numbers such as 0x7eff80070000", perforate.explain, addresses)
    for process in ["x", 0, -1, 1.5]:
        refused("process: expected a whole number of at least 1", perforate.snapshot, process)
    trace = perforate.open_trace("hpcc")
    refused('columns: there is no "ipp"; did you mean ip?', trace.read, ["ipp"], instructions=1)
    for name in ["rows", "threads"]:
        refused(f"{name}: expected a whole number of at least 1, not -1", lambda: next(trace.batches(**{name: -1})))
    refused("rows: expected a batch, a dict of arrays", perforate.write_trace, "x.trace", "rows")
    refused("notes: expected a list of texts, such as ['one']", perforate.write_trace, "x.trace", ip=[1], notes="one")
    with pytest.raises(KeyError, match='there is no "x"; there are ip'):
        trace.read(instructions=1)["x"]


def test_numbers_and_lists_of_numpy_are_taken() -> None:
    found = perforate.compare(
        "random:size=64M",
        np.array(["4k", "thp"]),  # type: ignore[arg-type]
        instructions=np.int64(50_000),  # type: ignore[arg-type]
        seeds=np.int32(2),  # type: ignore[arg-type]
        functional=np.bool_(True),  # type: ignore[arg-type]
        set={"tlb.l2.entries": np.int64(3072)},
    )
    assert list(found.schemes) == ["4k", "thp"] and len(found["4k"].runs) == 2
    assert perforate.explain(np.uint64(0x7EFF80070000), instructions="20k")["addresses"]  # type: ignore[arg-type]
