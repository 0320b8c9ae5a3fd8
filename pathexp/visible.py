"""Untrusted text made inert: tokens and names may hold anything, and no form lets them act."""

from __future__ import annotations

import unicodedata


def visible(token: str) -> str:
    """Return a token in quotes with everything invisible or active written out.

    Control characters, direction marks and newlines become escapes, so that no token can move the cursor,
    color the screen or reorder a line.

    >>> print(visible(" the"), visible("\\n"), visible("\\x1b[31m"), visible('a"b'))
    " the" "\\n" "\\x1b[31m" "a\\"b"
    """
    return '"' + "".join("\\" + c if c in '"\\' else _inert(c) for c in token) + '"'


def inert(text: str) -> str:
    """Return text with everything invisible or active written out, without quotes.

    >>> print(inert("a\\x1b[31mb c"))
    a\\x1b[31mb c
    """
    return "".join(map(_inert, text))


def _inert(character: str) -> str:
    if unicodedata.category(character)[0] in "CZ" and character != " ":
        return character.encode("unicode_escape").decode("ascii")
    return character
