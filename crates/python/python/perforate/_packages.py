"""Optional packages."""

from __future__ import annotations

import importlib
from typing import Any

from ._errors import MissingPackageError


def package(name: str, what: str) -> Any:
    """Imports a package, or raises an error that names it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        install = name.split(".")[0]
        raise MissingPackageError(f"{what} needs {install}: pip install {install}", name=install) from error
