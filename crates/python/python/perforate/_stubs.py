"""Writes ``_options.pyi``: the options of a run with their types, for editors and type checkers.

``python -m perforate._stubs > _options.pyi`` brings it up to date; a test compares the two.
"""

from __future__ import annotations

from . import _lists

HEAD = '''"""Keywords of comparisons and runs. Written by `python -m perforate._stubs`; do not change it."""

import os
from collections.abc import Mapping
from typing import Optional, TypedDict, Union

Text = Optional[Union[str, int, float, os.PathLike[str], Mapping[str, object]]]

class Options(TypedDict, total=False):
    """Options of a run. Values are written as on the command line."""

'''


def text() -> str:
    """Text of the file."""
    lines = [f"    {option.name}: {_type(option.form)}" for option in _lists.options().values()]
    return HEAD + "\n".join(lines) + "\n"


def _type(form: str) -> str:
    return "bool" if form == "yes|no" else "Text"


if __name__ == "__main__":
    print(text(), end="")
