"""Pictures, and packages that are not there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

import perforate
from perforate._plots import plot_sweep


def test_pictures_by_matplotlib(short: perforate.Comparison) -> None:
    figure = short.plot()
    speeds, savings = figure.axes
    assert [label.get_text() for label in speeds.get_yticklabels()] == ["4k", "thp", "free"]
    thp = short["thp"]
    assert thp.speed is not None and thp.saving is not None
    assert speeds.patches[1].get_width() == thp.speed.value  # type: ignore[attr-defined]
    assert savings.patches[1].get_width() == pytest.approx(100 * thp.saving.value)  # type: ignore[attr-defined]
    (walks,) = short.plot("walks").axes
    assert walks.patches[0].get_width() == short["4k"]["walks"]  # type: ignore[attr-defined]


class Swept:
    """As much of a sweep as a picture of it needs: an IPC for each scheme and value."""

    def __init__(self, key: str, values: Sequence[object], curves: dict[str, Sequence[float]]) -> None:
        self.varied = [key]
        self.points = [{key: value} for value in values]
        schemes = list(enumerate(curves.items()))
        self.comparisons = [
            [SimpleNamespace(name=name, colour=f"C{number}", ipc=own[place]) for number, (name, own) in schemes]
            for place in range(len(values))
        ]

    def plot(self) -> Any:
        return plot_sweep(cast(perforate.Sweep, self), None, "ipc").axes[0]


def _labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_xticklabels() if label.get_visible()]


def test_powers_of_two_are_ticks_and_written_as_such() -> None:
    axis = Swept("tlb.l2.entries", [64, 1024, 131072], {"4k": [0.1, 0.2, 0.3]}).plot()
    assert axis.get_xscale() == "log" and _labels(axis) == ["64", "1k", "128k"]
    assert _labels(Swept("n", [1000, 2000, 3000], {"4k": [1, 2, 3]}).plot()) == ["1,000", "2,000", "3,000"]


@pytest.mark.parametrize("values", [[2**power for power in range(24)], [1000, 1001, 1002, 5000, 10**6]])
def test_labels_do_not_touch(values: list[int]) -> None:
    axis = Swept("x", values, {"4k": [1.0] * len(values)}).plot()
    boxes = [label.get_window_extent() for label in axis.get_xticklabels() if label.get_visible()]
    assert len(boxes) > 2 and all(one.x1 < other.x0 for one, other in zip(boxes, boxes[1:]))


def test_curves_are_whole_and_those_that_coincide_are_said_to() -> None:
    axis = Swept("x", [1, 2], {"4k": [0.0, 1.0], "thp": [0.0, 1.0], "ideal": [1.0, 1.0]}).plot()
    solid, dashed, other = axis.get_lines()
    assert axis.get_title(loc="left") == "The curves of 4k and thp coincide."
    assert [line.is_dashed() for line in (solid, dashed, other)] == [False, True, False]
    assert not any(line.get_clip_on() for line in (solid, dashed, other))
    below = Swept("x", [1, 2], {"4k": [-1.0, 1.0]}).plot()
    assert below.get_ylim()[0] < -1.0 and below.get_title(loc="left") == ""


def test_charts_by_altair(short: perforate.Comparison) -> None:
    speeds, savings = short.chart().to_dict()["hconcat"]
    thp = short["thp"]
    assert thp.speed is not None and thp.saving is not None
    assert speeds["data"]["values"][1]["value"] == thp.speed.value
    assert savings["data"]["values"][1]["value"] == pytest.approx(100 * thp.saving.value)
    bars = speeds["layer"][0]["encoding"]
    assert bars["x"]["title"] == "speed ÷ 4KB" and bars["color"]["scale"]["range"][1] == thp.colour
    with pytest.raises(KeyError):
        short.chart("no such counter")


def test_a_package_that_is_missing_is_named(short: perforate.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, call in [
        ("altair", short.chart),
        ("matplotlib.pyplot", short.plot),
        ("pandas", short.to_pandas),
        ("polars", short.to_polars),
    ]:
        monkeypatch.setitem(sys.modules, module, None)
        name = module.split(".")[0]
        with pytest.raises(perforate.MissingPackageError, match=f"needs {name}: pip install {name}"):
            call()
