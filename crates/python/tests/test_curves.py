"""Miss-ratio curves."""

from __future__ import annotations

import pytest

import perforate


def test_curves_of_all_page_sizes() -> None:
    found = perforate.curves("random:size=64M", instructions="200k", machine="ice-lake-sp")
    sizes = found.data["page_sizes"]
    assert [size["page_bytes"] for size in sizes] == [4096, 1 << 14, 1 << 16, 1 << 21, 1 << 30]
    for size in sizes:
        misses = [point["misses"] for point in size["points"]]
        assert misses == sorted(misses, reverse=True)
    # 32 entries of 2MB hold 64MB; first touches are no misses.
    of_32_entries = [point["misses"] for size in sizes for point in size["points"] if point["entries"] == 32]
    assert of_32_entries[0] > 30_000 and of_32_entries[3] == 0
    assert "4KB pages need" in str(found)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(perforate.UsageError, match="did you mean sample"):
        perforate.curves("random", sampel="1/4")
    with pytest.raises(perforate.UsageError, match="expected auto or 1/N"):
        perforate.curves("random", sample="1/3")
