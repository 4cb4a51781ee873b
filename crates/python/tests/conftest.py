"""Comparisons that several tests look at."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import perforate

#: A short comparison of a recorded program.
SHORT = {"workload": "hpcc", "schemes": ["4k", "thp"], "memory": "4G", "instructions": "300k"}


@pytest.fixture(scope="session")
def short() -> perforate.Comparison:
    return perforate.compare(**SHORT)  # type: ignore[arg-type]


@pytest.fixture
def repository() -> Path:
    return Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def slowness() -> float:
    """How many times as long as alone work takes here, as other programs run besides; 1 where none do."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < 0.1:
        pass
    return max(1.0, (time.monotonic() - wall) / (time.process_time() - cpu))
