"""Results as tables, texts and objects."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from pathlib import Path

import pytest

import perforate
from conftest import SHORT
from test_compare import command

NOTE = "4GB of memory, fragmented: portion=50%,holes=25%,clustered"


def test_notes_are_printed_and_listed(short: perforate.Comparison) -> None:
    assert short.remarks[0] == NOTE and isinstance(short.remarks, list)
    assert len(short.remarks) == len(set(short.remarks)) > 2
    printed = str(short).splitlines()
    assert f"note: {NOTE}" in printed and printed[-1]
    assert f"note: {NOTE}" in short._repr_html_()
    assert short.to_dict()["remarks"] == short.to_pandas().attrs["remarks"] == short.remarks
    assert short.to_pandas().attrs["answer"] == short.answer
    assert pickle.loads(pickle.dumps(short)).remarks == short.remarks


def test_notes_name_keywords() -> None:
    found = perforate.compare("hpcc", schemes="4k,thp", instructions="100k", memory="4G")
    (note,) = [note for note in found.remarks if "too little translation work" in note]
    assert "skip= passes over it, instructions= runs more" in note
    assert "perforate record --sample N/M" in note, "that is a command"


def test_pairs_that_cannot_be_are_remarks() -> None:
    found = perforate.compare(
        "random:size=64M", guest="4k,segment", host="4k,segment", instructions="20k", functional=True
    )
    assert any("segment" in remark for remark in found.remarks) and "note: " in repr(found)


def test_notes_of_a_sweep_say_how_many_points_they_are_of() -> None:
    found = perforate.sweep(
        {"memory": ["4G", "8G"]}, workload="random:size=64M", schemes="4k", instructions="20k", functional=True
    )
    assert f"{NOTE} (at 1 of 2 points)" in found.remarks
    assert f"note: {NOTE} (at 1 of 2 points)" in str(found).splitlines()
    assert f"note: {NOTE}" in found._repr_html_()
    assert any(not remark.endswith("points)") for remark in found.remarks)


def test_rows_begin_with_what_answers_the_question() -> None:
    found = perforate.compare(**{**SHORT, "schemes": "4k,thp,free"})  # type: ignore[arg-type]
    frame = found.to_pandas()
    ends = ["", "_low", "_high"]
    figures = [name + end for name in ("speed", "saving", "translation_share") for end in ends]
    assert list(frame.columns[:11]) == ["scheme", *figures, "ipc"] == found.to_polars().columns[:11]
    thp, row = found["thp"], frame.set_index("scheme").loc["thp"]
    assert thp.speed is not None and thp.translation_share is not None
    assert [row[f"speed{end}"] for end in ends] == [thp.speed.value, thp.speed.low, thp.speed.high]
    assert row["translation_share"] == thp.translation_share.value and row["ipc"] == thp.ipc
    # Free translation saves the time that the scheme without it does not take.
    free, saving = found["free"], thp.saving
    cycles = [run.cycles for run in (free.runs[0], thp.runs[0]) if run.cycles is not None]
    assert saving is not None and saving.value == pytest.approx(1 - cycles[0] / cycles[1])
    assert row["saving"] == saving.value and row["saving_low"] == saving.low
    assert free.saving is None


def test_rows_of_several_seeds_are_paired_by_seed() -> None:
    found = perforate.compare("random:size=64M", "4k,thp", seeds=2, instructions="50k")
    frame = found.to_pandas()
    thp = frame[frame.scheme == "thp"].set_index("seed")
    base = frame[frame.scheme == "4k"].set_index("seed")
    assert thp.speed.tolist() == pytest.approx((thp.ipc / base.ipc).tolist())
    assert len(frame) == len(found.runs) == 2 * len(found) == 2 * len(list(found))


def test_functional_runs_have_no_speeds() -> None:
    found = perforate.compare("random:size=64M", "4k", instructions="20k", functional=True)
    (row,) = found.rows()
    assert row["speed"] is row["speed_low"] is row["saving"] is row["ipc"] is None and row["walks"] > 0


def test_a_file_of_several_comparisons_has_them_apart() -> None:
    words = ["compare", "random:size=64M", "--scheme", "4k,thp", "--instructions", "20k", "--functional", "--json"]
    Path("varied.jsonl").write_text(command(*words, "--vary", "tlb.l2.entries=768,3072").stdout)
    found = perforate.read_results("varied.jsonl")
    one, other = found.comparisons
    assert [run.config["machine"]["tlb"]["l2"]["entries"] for run in found.runs] == [768, 768, 3072, 3072]
    assert one["4k"]["walks"] > other["4k"]["walks"] and len(one.runs) == 2
    assert [row["difference"] for row in found.rows()][::2] == ["tlb.l2.entries 768", "tlb.l2.entries 3072"]
    with pytest.raises(perforate.UsageError, match=r"2 comparisons: use found\.comparisons"):
        found["4k"]


def test_a_line_needs_a_scheme_and_a_workload_only() -> None:
    Path("short.jsonl").write_text('{"scheme":"4k","workload":"w"}\n\n{"scheme":"thp","workload":"w"}\n')
    found = perforate.read_results("short.jsonl")
    assert list(found.schemes) == ["4k", "thp"] and found["thp"].runs[0].notes == found.remarks == []
    assert len(found.rows()) == 2 and found.rows()[1]["seed"] is None and str(found.runs[0])


def test_separators_in_names_end_no_line() -> None:
    Path("odd.jsonl").write_text('{"scheme":"4k","workload":"a\u2028b\x85c"}\n', encoding="utf-8")
    assert perforate.read_results("odd.jsonl").runs[0].workload == "a\u2028b\x85c"


def test_results_are_values(short: perforate.Comparison) -> None:
    assert copy.deepcopy(short) == short and copy.copy(short["thp"]) == short["thp"] != short["4k"]
    run = short.runs[0]
    assert pickle.loads(pickle.dumps(run)) == run and hash(copy.deepcopy(run)) == hash(run)
    for changed in [lambda: run.counters.update(walks=0), lambda: short["thp"].counters.update(walks=0)]:  # type: ignore[attr-defined]
        with pytest.raises(AttributeError):
            changed()
    run.to_dict()["counters"].clear()
    run.notes  # a list of its own
    assert run["walks"] > 0
    assert "thp" in short and short["thp"] in short and "tph" not in short
    with pytest.raises(KeyError, match='there is no "0"'):
        short[0]  # type: ignore[index]


def test_a_run_prints_its_main_figures_and_notes() -> None:
    found = perforate.run("hpcc", "thp", instructions="100k", functional=True, memory="4G")
    assert repr(found).startswith("<Run of hpcc.trace under thp ") and "\n" not in repr(found)
    assert "walks PKI" in str(found) and f"note: {NOTE}" in str(found)
    assert f"note: {NOTE}" in found._repr_html_()


def test_a_dict_is_a_machine_that_is_based_on_another() -> None:
    def compare(machine: object, **options: object) -> perforate.Comparison:
        words = {"instructions": "20k", "functional": True, "machine": machine, **options}
        return perforate.compare("random:size=64M", "4k", **words)  # type: ignore[arg-type]

    flat = compare({"base": "ice-lake-sp", "tlb.l2.entries": 4096})
    nested = compare({"base": "ice-lake-sp", "tlb": {"l2": {"entries": 4096}}})
    assert flat == nested == compare("ice-lake-sp", set={"tlb.l2.entries": 4096})
    assert flat.runs[0].config["machine"]["tlb"]["l2"]["entries"] == 4096
    both = compare({"base": "ice-lake-sp", "tlb.l2.entries": 4096}, set={"tlb.l2.entries": 1024})
    assert both == compare("ice-lake-sp", set={"tlb.l2.entries": 1024})


def test_programs_are_recorded_as_the_command_line_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    seen: list[int] = []
    found = perforate.compare(
        program=["/bin/ls", Path("/")],
        schemes=["4k", "thp"],
        memory="4G",
        skip="50k",
        instructions="100k",
        progress=lambda done, total: seen.append(done),
    )
    assert found.runs[0].workload == "ls.trace" and found.runs[0].config["workload"]["instructions_skipped"] >= 50_000
    assert any("cut off after" in remark for remark in found.remarks)
    assert list((tmp_path / "temporary").iterdir()) == [], "the recording is deleted"
    counted = perforate.compare(program=["/bin/ls"], counters=True, schemes="4k", memory="4G", instructions="100k")
    assert any(remark.removeprefix("note: ").startswith("hardware counters ") for remark in counted.remarks)
    with pytest.raises(perforate.RunError, match="nonesuch: not found"):
        perforate.compare(program=["nonesuch"])
    with pytest.raises(perforate.UsageError, match="memory: expected a size"):
        perforate.compare(program=["/bin/ls"], memory="x")
    words = ["compare", "--scheme", "4k,thp", "--memory", "4G", "--skip", "50k", "--instructions", "100k", "--json"]
    (first, *_) = command(*words, "--", "/bin/ls", "/").stdout.splitlines()
    assert json.loads(first)["notes"] == found.runs[0].notes


def test_the_version_is_that_of_the_command_line() -> None:
    assert command("--version").stdout == f"perforate {perforate.__version__}\n"
    assert {"sweep", "compare", "Estimate", "__version__"} <= set(dir(perforate))
