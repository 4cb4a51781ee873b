"""Traces as columns, and columns as traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest

import perforate
from perforate._traces import TYPES


def test_rows_are_accesses_and_instructions_without_any() -> None:
    perforate.write_trace(
        "a.trace",
        instruction=[0, 0, 1, 2],
        ip=[0x1000, 0x1000, 0x1004, 0x1008],
        address=[0x7F0000000000, 0x7F0000000040, 0, 0x7F0000001000],
        size=[8, 16, 0, 4],
        kind=[1, 2, 0, 1],
    )
    trace = perforate.open_trace("a.trace")
    assert trace.instructions == 3
    (batch,) = trace.batches(["instruction", "ip", "address", "size", "kind"])
    assert len(batch) == 4
    assert batch.instruction.tolist() == [0, 0, 1, 2]
    assert batch.ip.tolist() == [0x1000, 0x1000, 0x1004, 0x1008]
    assert batch["address"].tolist() == [0x7F0000000000, 0x7F0000000040, 0, 0x7F0000001000]
    assert batch.kind.tolist() == [perforate.Kind.READ, perforate.Kind.WRITE, perforate.Kind.NONE, perforate.Kind.READ]
    assert batch.size.tolist() == [8, 16, 0, 4]


def test_a_trace_goes_through_arrays_and_back() -> None:
    trace = perforate.open_trace("redis")
    rows = trace.read(list(TYPES), instructions="200k")
    assert {name: column.dtype.str for name, column in rows.columns.items()} == {
        name: form for name, (form, _) in TYPES.items()
    }
    events = [event for event in trace.events() if event["instruction"] <= 200_000]
    written = perforate.write_trace("part.trace", rows, events=events)
    assert written["instructions"] == 200_000 and written["events"] == len(events) > 0
    again = perforate.open_trace("part.trace")
    copy = again.read(list(TYPES))
    for name, column in rows.columns.items():
        assert (copy[name] == column).all(), name
    assert again.events() == events
    options = {"schemes": "4k,thp", "functional": True, "instructions": "200k"}
    part, whole = perforate.compare(again, **options), perforate.compare("redis", **options)  # type: ignore[arg-type]
    assert part["4k"].counters == whole["4k"].counters


def test_threads_change_nothing() -> None:
    trace = perforate.open_trace("hpcc")
    options = {"skip": "1500k", "instructions": "2600k", "rows": 100_000}
    columns = ["instruction", "ip", "address", "process"]
    one = list(trace.batches(columns, threads=1, **options))  # type: ignore[arg-type]
    four = list(trace.batches(columns, threads=4, **options))  # type: ignore[arg-type]
    assert list(map(len, one)) == list(map(len, four))
    for name in columns:
        assert (np.concatenate([batch[name] for batch in one]) == np.concatenate([batch[name] for batch in four])).all()
    numbers = np.concatenate([batch.instruction for batch in one])
    assert numbers[0] == 1_500_000 and numbers[-1] == 4_099_999
    assert len(np.unique(numbers)) == 2_600_000


def test_frames_and_structured_arrays() -> None:
    rows = perforate.open_trace("meep").read(["ip", "sources", "taken"], instructions=1000)
    structured = rows.to_structured()
    assert structured.dtype["sources"].shape == (4,) and (structured["ip"] == rows.ip).all()
    frame = rows.to_pandas()
    assert list(frame.columns) == ["ip", "sources0", "sources1", "sources2", "sources3", "taken"]
    assert rows.to_polars()["ip"].to_list() == frame.ip.tolist()


def test_frames_are_written(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"ip": [4, 8], "address": [1 << 40, (1 << 40) + 64]})
    assert perforate.write_trace("frame.trace", frame)["accesses"] == 2
    parts = [{"ip": np.arange(10), "address": np.arange(10) + 4096} for _ in range(3)]
    assert perforate.write_trace("parts.trace", iter(parts))["instructions"] == 30
    assert perforate.write_trace("none.trace", [])["instructions"] == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".trace"] * 3


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ({"address": [1]}, perforate.UsageError, "ip is missing"),
        ({"ip": [1.5]}, perforate.UsageError, "ip: expected whole numbers"),
        ({"ip": [-1]}, perforate.UsageError, "ip: expected numbers from 0"),
        ({"ip": [1, 2], "address": [1]}, perforate.UsageError, "address: 1 rows; expected 2"),
        ({"ip": [1], "adress": [1]}, perforate.UsageError, "did you mean address"),
        ({"ip": [1], "address": [9], "kind": [5]}, perforate.UsageError, "kind 5; expected 0"),
        ({"ip": [1], "address": [9], "size": [0]}, perforate.TraceError, "at least 1 byte"),
    ],
)
def test_impossible_rows_leave_no_file(
    columns: dict[str, object], error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text):
        perforate.write_trace("bad.trace", **columns)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_trace_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n" * 100)
    with pytest.raises(perforate.TraceError, match="expected a trace of Perforate"):
        perforate.open_trace("text")
    with pytest.raises(perforate.UsageError, match='no workload or file "nowhere"; traces that come with'):
        perforate.open_trace("nowhere")
    with pytest.raises(perforate.UsageError, match="did you mean address"):
        perforate.open_trace("meep").batches(["adress"])


def test_damage_is_told() -> None:
    source = Path(perforate.open_trace("meep").path).read_bytes()
    damaged = bytearray(source)
    damaged[len(damaged) // 2] ^= 0xFF
    Path("damaged.trace").write_bytes(damaged)
    with pytest.raises(perforate.TraceError, match="damaged.trace"):
        for _ in perforate.open_trace("damaged.trace"):
            pass
