"""The command line, as the script ``perforate`` and as ``python -m perforate``."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Runs the command in ``sys.argv``."""
    from . import _native

    # Ctrl-C ends the program at once, as it does outside an interpreter.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["perforate", *sys.argv[1:]])
