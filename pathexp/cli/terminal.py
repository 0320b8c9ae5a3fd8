"""Output for any terminal: what its encoding does not have is written with what it has."""

from __future__ import annotations

import codecs
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..visible import inert

_PLAIN = str.maketrans(
    {
        "×": "x", "⊗": "(x)", "≤": "<=", "≥": ">=", "─": "-", "│": "|", "…": "...", "·": "*", "±": "+-",
        "→": "->", "Σ": "sum", "σ": "sigma", "λ": "lambda", "ᵀ": "^T", "∥": "|", "‖": "||", "√": "sqrt",
        "–": "-", "—": "-", "’": "'", "“": '"', "”": '"', "²": "^2", "∞": "inf", "█": "#", "▏": "|", "∘": "o",
    }
)  # fmt: skip


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def speak_any_encoding() -> None:
    """Let standard output write any character, whatever the terminal's encoding."""
    codecs.register_error("pathexp.plain", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="pathexp.plain")


def calm(message: str) -> str:
    """Return a message with everything that could act on a terminal written out, its lines kept.

    >>> print(calm("no \x1b[31m here"))
    no \\x1b[31m here
    """
    return "\n".join(map(inert, message.split("\n")))


@contextmanager
def warned_in_one_line() -> Iterator[None]:
    """Show warnings as errors are shown, by kind and message, without the line of code that gave them."""
    before = warnings.formatwarning
    warnings.formatwarning = _one_line
    try:
        yield
    finally:
        warnings.formatwarning = before


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return f"{category.__name__}: {calm(str(message))}\n"


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end the work as Ctrl-C does: what there is is printed and saved."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
