"""JSON Lines."""

from __future__ import annotations

import json
from typing import Any


def lines_of(text: str) -> list[str]:
    """Lines that are not empty. Only line feeds end a line: texts in JSON may contain other separators."""
    return [line for line in text.split("\n") if line.strip()]


def objects_of(text: str) -> list[dict[str, Any]]:
    """The object of each line."""
    return [json.loads(line) for line in lines_of(text)]
