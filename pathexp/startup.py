"""What the command line says when it is interrupted (Ctrl-C) while Python still imports it: one line, no traceback.

It is imported before anything else, and changes nothing in a program that is not the command line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

INTERRUPTED = "interrupted before there was an answer"


def is_command(name: str) -> bool:
    """Return whether a program of this name is the command line: `pathexp`, or `python -m pathexp` at its beginning.

    >>> is_command("/usr/bin/pathexp"), is_command("-m"), is_command("/usr/bin/pytest")
    (True, True, False)
    """
    return name == "-m" or Path(name).stem == "pathexp"


def hush_interrupts() -> None:
    """Let an interrupt that nothing else takes up end the command with one line; other programs stay as they are."""
    if is_command(sys.argv[0] if sys.argv else ""):
        sys.excepthook = _said


def _said(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print(INTERRUPTED, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


hush_interrupts()
