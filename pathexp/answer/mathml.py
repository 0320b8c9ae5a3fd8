"""Formulas as MathML: the LaTeX that the library itself writes, read into elements; browsers show it without a library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from typing import TypeAlias

Element: TypeAlias = tuple[str, tuple["Element | str", ...]]
"""A name and what is inside: elements, or one text."""

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]|\d+(?:\.\d+)?|\s+|.", re.S)

_OPERATORS = {
    r"\otimes": "⊗", r"\cdot": "·", r"\top": "⊤", r"\cdots": "⋯", r"\times": "×", r"\lVert": "‖", r"\rVert": "‖",
    r"\pm": "±", r"\sum": "∑", r"\odot": "⊙",
}  # fmt: skip
_LETTERS = {
    r"\Lambda": "Λ", r"\kappa": "κ", r"\sigma": "σ", r"\Delta": "Δ", r"\lambda": "λ", r"\alpha": "α", r"\theta": "θ",
}  # fmt: skip
_SPACES = {r"\,": "0.17em", r"\;": "0.28em", r"\ ": "0.28em", r"\quad": "1em"}
_WORDS = (r"\mathrm", r"\mathbf", r"\text", r"\operatorname")


@lru_cache(maxsize=4096)
def elements(latex: str) -> Element:
    r"""Return LaTeX as nested MathML elements; what is no command known here is shown as text.

    >>> elements(r"W_{U}")
    ('math', (('msub', (('mi', ('W',)), ('mi', ('U',)))),))
    """
    return "math", tuple(_Reader(latex).row(""))


def mathml(latex: str) -> str:
    r"""Return LaTeX as MathML.

    >>> mathml(r"A^{1.0} \otimes W_{U}")
    '<math><msup><mi>A</mi><mn>1.0</mn></msup><mo>⊗</mo><msub><mi>W</mi><mi>U</mi></msub></math>'
    """
    return _written(elements(latex))


def _written(part: Element | str) -> str:
    if isinstance(part, str):
        return escape(part)
    name, inside = part
    if name == "mspace":
        return f'<mspace width="{escape(str(inside[0]))}"></mspace>'
    return f"<{name}>{''.join(map(_written, inside))}</{name}>"


class _Reader:
    """Reads tokens from the left, with one ahead."""

    def __init__(self, latex: str) -> None:
        self.tokens = [token for token in _TOKEN.findall(latex) if not token.isspace()]
        self.at = 0

    @property
    def ahead(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        found = self.ahead
        self.at += 1
        return found

    def row(self, end: str) -> Iterator[Element]:
        """Read elements up to the token `end`, or to the end of all."""
        while self.ahead and self.ahead != end:
            yield self.scripted()
        self.take()

    def scripted(self) -> Element:
        """Read one element with what is below and above it."""
        base, scripts = self.single(), {}
        while self.ahead in ("_", "^"):
            mark = self.take()
            scripts[mark] = self.single()
        match scripts:
            case {"_": below, "^": above}:
                return "msubsup", (base, below, above)
            case {"_": below}:
                return "msub", (base, below)
            case {"^": above}:
                return "msup", (base, above)
        return base

    def single(self) -> Element:
        """Read one element."""
        token = self.take()
        if token == "{":
            return self.group()
        if token in (r"\left", r"\right"):
            return "mo", (self.take().removeprefix("\\"),)
        if token in _WORDS:
            return self.word()
        if token == r"\bar":
            return "mover", (self.single(), ("mo", ("¯",)))
        if token in _SPACES:
            return "mspace", (_SPACES[token],)
        if token in _OPERATORS:
            return "mo", (_OPERATORS[token],)
        return _plain(token)

    def group(self) -> Element:
        """Read what is in braces: letters that stand together are one name, such as the OV of W_OV."""
        inside = tuple(self.row("}"))
        if len(inside) > 1 and all(name == "mi" for name, _ in inside):
            return "mi", ("".join(str(part[0]) for _, part in inside),)
        return inside[0] if len(inside) == 1 else ("mrow", inside)

    def word(self) -> Element:
        """Read an upright word in braces."""
        if self.ahead != "{":
            return self.single()
        self.take()
        letters = []
        while self.ahead not in ("}", ""):
            letters.append(self.take().removeprefix("\\"))
        self.take()
        return "mi", ("".join(letters),)


def _plain(token: str) -> Element:
    if token in _LETTERS or token.isalpha():
        return "mi", (_LETTERS.get(token, token),)
    if token[:1].isdigit():
        return "mn", (token,)
    return "mo", (token.removeprefix("\\") or token,)
