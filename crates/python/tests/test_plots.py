"""Pictures, and packages that are not there."""

from __future__ import annotations

import sys

import pytest

import perforate


def test_pictures_by_matplotlib(short: perforate.Comparison) -> None:
    figure = short.plot()
    speeds, savings = figure.axes
    assert [label.get_text() for label in speeds.get_yticklabels()] == ["4k", "thp", "ideal"]
    thp = short["thp"]
    assert thp.speed is not None and thp.saving is not None
    assert speeds.patches[1].get_width() == thp.speed.value  # type: ignore[attr-defined]
    assert savings.patches[1].get_width() == pytest.approx(100 * thp.saving.value)  # type: ignore[attr-defined]
    (walks,) = short.plot("walks").axes
    assert walks.patches[0].get_width() == short["4k"]["walks"]  # type: ignore[attr-defined]


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
