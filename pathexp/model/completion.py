"""Completion of `px.load("` by the names of bundled models."""

from __future__ import annotations

import re

from .bundled import models

_INSIDE = re.compile(r"""\bload\(\s*(?P<quote>["'])(?P<begun>[^"']*)$""")


def completions(before: str) -> list[str]:
    """Return the names of models that complete a line, up to its end; what was typed of a name is part of them.

    >>> completions('model = px.load("attn-1'), completions("px.load(")
    (['attn-1l'], [])
    """
    inside = _INSIDE.search(before)
    if inside is None:
        return []
    return [card.name for card in models() if card.name.startswith(inside["begun"])]
