"""What the documents show runs, and types are sound."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import perforate
from perforate import _stubs

HERE = Path(__file__).parents[1]
EXAMPLES = sorted((HERE / "examples").glob("*.py"))
PAGE = HERE.parents[1] / "docs" / "python.md"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package in re.findall(r"^(?:import|from) (distributed|submitit)\b", path.read_text(), re.MULTILINE):
        pytest.importorskip(package)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks of the page, one after the other."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        if "program=" in block and shutil.which("qemu-x86_64") is None:
            continue
        exec(compile(block, str(PAGE), "exec"), names)


def test_keywords_of_type_checkers_are_those_there_are() -> None:
    """`python -m perforate._stubs > …/_options.pyi` brings it up to date."""
    assert (HERE / "python" / "perforate" / "_options.pyi").read_text() == _stubs.text()


def test_the_stub_of_the_native_half_names_all_of_it() -> None:
    stub = (HERE / "python" / "perforate" / "_native.pyi").read_text()
    stated = set(re.findall(r"^(?:(?:def|class) )?([A-Za-z_]\w*)[:(]", stub, re.MULTILINE)) - {"Compared"}
    there = {name for name in dir(perforate._native) if not name.startswith("_")}
    assert there <= stated and stated - there <= {"Column"}


def test_types_are_sound(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    lines = [
        "import perforate",
        "perforate.compare('hpcc', memori='1G')",
        "perforate.compare(1.5)",
        "speed = perforate.Estimate(1.3, 0.1)",
        "speed / speed",
        "mean, half = speed",
        "print(speed * 2 > 1, 1 - speed, perforate.compare(program=['ls', '-l'], machine={'base': 'host'}))",
    ]
    wrong.write_text("\n".join(lines) + "\n")
    files = map(str, [*EXAMPLES, wrong])
    # What was read before need not be read again.
    cache = os.environ.get("MYPY_CACHE_DIR", str(tmp_path))
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(HERE / "pyproject.toml"), "--cache-dir", cache, *files]
    lines = subprocess.run(mypy, capture_output=True, text=True).stdout.splitlines()
    errors = [line for line in lines if ": error: " in line]
    assert len(errors) == 4 and all(line.startswith(wrong.name) for line in errors), lines
    assert 'Unexpected keyword argument "memori"' in errors[0] and "incompatible type" in errors[1]
    assert 'Unsupported operand types for /' in errors[2] and "not iterable" in errors[3]


def test_the_notebook_has_ten_lines() -> None:
    notebook = json.loads((PAGE.parent / "notebooks" / "first.ipynb").read_text())
    lines = [line for cell in notebook["cells"] if cell["cell_type"] == "code" for line in cell["source"]]
    assert 5 <= len([line for line in lines if line.strip()]) <= 10
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "outputs are not checked in"
