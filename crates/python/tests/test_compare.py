"""Comparisons, their results, and what is refused."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import perforate
from conftest import SHORT


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "perforate", *words], capture_output=True, text=True)


def test_results_are_those_of_the_command_line(short: perforate.Comparison) -> None:
    words = ["compare", "hpcc", "--scheme", "4k,thp", "--memory", "4G", "--instructions", "300k", "--json"]
    assert command(*words).stdout == short.lines
    assert short == perforate.compare(**SHORT)  # type: ignore[arg-type]


def test_figures_by_scheme_and_counter(short: perforate.Comparison) -> None:
    assert list(short.schemes) == ["4k", "thp", "free"]
    first = json.loads(short.lines.splitlines()[0])
    base = short["4k"]
    assert base["walks"] == first["counters"]["walks"] > 0
    assert base.ipc == first["ipc"]
    assert base.speed is not None and base.speed.value == 1.0
    thp = short["thp"]
    assert thp.speed is not None and thp.ipc is not None and base.ipc is not None
    assert thp.speed.value == pytest.approx(thp.ipc / base.ipc)
    assert thp.translation_share is not None
    assert thp.translation_share.value == pytest.approx(thp["translation_stall_cycles"] / thp.runs[0].cycles)
    with pytest.raises(KeyError, match='there is no "walk"; did you mean walks'):
        base["walk"]
    with pytest.raises(KeyError, match="did you mean thp"):
        short["tph"]


def test_every_counter_is_registered(short: perforate.Comparison) -> None:
    known = perforate.counters()
    for run in short.runs:
        assert not [name for name in run.counters if name not in known]


def test_frames_have_a_row_for_each_run(short: perforate.Comparison) -> None:
    pandas = short.to_pandas()
    assert list(pandas.scheme) == ["4k", "thp", "free"]
    assert pandas.walks.tolist() == [scheme["walks"] for scheme in short]
    polars = short.to_polars()
    assert polars["scheme"].to_list() == ["4k", "thp", "free"]
    assert polars["ipc"].to_list() == pandas.ipc.tolist()
    assert short.to_dict()["runs"][1]["scheme"] == "thp"


def test_the_answer_comes_first(short: perforate.Comparison) -> None:
    assert short.answer.startswith("With 4KB pages, free address translation would save hpcc.trace ")
    assert short._repr_html_().startswith("<div><p>With 4KB pages, free address translation would save ")
    assert "<table>" in short._repr_html_() and "IPC ÷ 4KB" in short._repr_html_()
    assert "IPC ÷ 4KB" in repr(short)


def test_seeds_are_runs_of_one_scheme() -> None:
    found = perforate.compare("random:size=64M", schemes="4k", seeds=3, instructions="50k", functional=True)
    runs = found["4k"].runs
    assert [run.seed for run in runs] == [1, 2, 3]
    assert found["4k"]["walks"] == sorted(run["walks"] for run in runs)[1]
    assert found["4k"].speed is None and found["4k"].ipc is None


def test_pairs_in_a_virtual_machine() -> None:
    found = perforate.compare(
        "random:size=64M", guest=["4k"], host=["4k", "thp"], instructions="50k", functional=True, host_memory="24G"
    )
    assert list(found.schemes) == ["4k+4k", "4k+thp"]
    assert found.runs[0].config["host_memory"]["memory_bytes"] == 24 << 30


def test_values_are_written_as_python_has_them() -> None:
    words = dict(portion="50%", holes="25%", clustered=True)
    one = perforate.compare("random:size=64M", "4k,perforated", fragmentation=words, instructions=50_000)
    other = perforate.compare(
        "random:size=64M", "4k,perforated", fragmentation="portion=50%,holes=25%,clustered", instructions="50k"
    )
    assert one == other
    whole = perforate.compare("random:size=64M", "4k", fragmentation=None, instructions=5e4, functional=True)
    assert whole.runs[0].config["memory"]["fragmentation"] is None


def test_keys_of_the_machine_are_set() -> None:
    found = perforate.compare(
        "random:size=64M", "4k", set={"tlb.l2.entries": 3072}, instructions="50k", functional=True
    )
    assert found.runs[0].config["machine"]["tlb"]["l2"]["entries"] == 3072


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"memori": "1G"}, 'there is no "memori"; did you mean memory?'),
        ({"scheme": "4k"}, 'there is no "scheme"; did you mean schemes?'),
        ({"host_memori": "1G"}, 'there is no "host_memori"; did you mean host_memory?'),
        ({"memory": "64"}, "memory: 64 has no unit: 64M or 64G?"),
        ({"io_gap": "x"}, 'io_gap: expected pc or reclaimed, not "x"'),
        ({"machine": "ice-lake"}, 'no machine "ice-lake"; did you mean ice-lake-sp?; or give the path'),
        ({"schemes": "tph"}, 'no scheme "tph"; did you mean thp?'),
        ({"workload": "hpc"}, 'no workload or file "hpc"; did you mean hpcc?'),
        ({"machine": None}, "machine: None is no value; leave it out"),
        ({"seeds": 0}, "seeds: expected a whole number from 1 to 1000, not 0"),
        ({"set": {"tlb.l2.entris": 3}}, 'there is no key "tlb.l2.entris"; did you mean tlb.l2.entries?'),
        ({"perforation": "max-hole-share=50%"}, "perforation: has no effect"),
        ({"functional": True, "timing": "sampled"}, "timing: functional runs have no clock"),
        ({"memory": object()}, "memory: expected text, a number, True, False, a path or a dict, not object"),
    ],
)
def test_wrong_use_says_what_would_be_right(given: dict[str, object], text: str) -> None:
    with pytest.raises(perforate.UsageError) as caught:
        perforate.compare(**{**SHORT, **given})  # type: ignore[arg-type]
    assert str(caught.value).startswith(text) or text in str(caught.value)
    assert isinstance(caught.value, perforate.Error) and isinstance(caught.value, ValueError)


def test_texts_are_those_of_the_command_line() -> None:
    found = command("compare", "hpcc", "--memory", "64")
    assert found.returncode == 2
    with pytest.raises(perforate.UsageError) as caught:
        perforate.compare("hpcc", memory="64")
    assert found.stderr.strip() == f"perforate: --{caught.value}"


def test_runs_and_explanations() -> None:
    found = perforate.run("hpcc", "thp", instructions="100k", functional=True)
    assert found.scheme == "thp" and found["walks"] > 0 and "walks" in found._repr_html_()
    with pytest.raises(perforate.UsageError, match="scheme: expected one name such as '4k', not '4k,thp'"):
        perforate.run("hpcc", "4k,thp", instructions="100k")
    told = perforate.explain(scheme="perforated", instructions="50k")
    first = told["addresses"][0]["translations"][0]
    assert first["cold_cycles"] == sum(step["cold_cycles"] for step in first["steps"]) > 0
    assert "L1 TLB: nothing found" in repr(told)
    with pytest.raises(perforate.UsageError, match="not a user address"):
        perforate.explain(1 << 47)


def test_results_are_kept_and_read_again(short: perforate.Comparison, tmp_path: Path) -> None:
    short.save("kept")
    assert perforate.read_results("kept") == short
    assert (tmp_path / "kept" / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["report.html", "results.jsonl"]
    assert pickle.loads(pickle.dumps(short)) == short
    (tmp_path / "odd.jsonl").write_text("no result\n")
    with pytest.raises(perforate.RunError, match="line 1"):
        perforate.read_results("odd.jsonl")


def test_options_are_those_of_the_command_line() -> None:
    listed = command("compare", "--help").stdout
    for name in perforate.options():
        assert f"--{name.replace('_', '-')}" in listed
    assert perforate.options()["fragmentation"].default == "portion=50%,holes=25%,clustered"
    assert {"4k", "thp", "perforated"} <= perforate.schemes().keys()
    texts = [*perforate.schemes().values(), *perforate.workloads().values()]
    texts += [option.meaning for option in perforate.options().values()]
    texts += [counter.meaning for counter in perforate.counters().values()]
    assert not [text for text in texts if " --" in text], "flags of the command line"
    assert "policy=" in perforate.schemes()["scripted"]
    assert "hpcc" in perforate.workloads() and "ice-lake-sp" in perforate.machines()
