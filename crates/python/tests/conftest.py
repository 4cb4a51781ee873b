"""Comparisons that several tests look at."""

from __future__ import annotations

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
