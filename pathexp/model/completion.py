"""Completion in notebooks: `%load_ext pathexp` lets `px.load("` complete the names of bundled models."""

from __future__ import annotations

import re
from typing import Any

from .bundled import models

_INSIDE = re.compile(r"""\bload\(\s*(?P<quote>["'])(?P<begun>[^"']*)$""")


def load_ipython_extension(shell: Any) -> None:
    """Let a shell of IPython complete names of models; called by `%load_ext pathexp`."""

    def names(text: str) -> list[str]:
        return completions(getattr(shell.Completer, "text_until_cursor", ""))

    shell.Completer.custom_matchers.append(names)


def completions(before: str) -> list[str]:
    """Return the names of models that complete a line, up to its end; what was typed of a name is part of them.

    >>> completions('model = px.load("attn-1'), completions("px.load(")
    (['attn-1l'], [])
    """
    inside = _INSIDE.search(before)
    if inside is None:
        return []
    return [card.name for card in models() if card.name.startswith(inside["begun"])]
