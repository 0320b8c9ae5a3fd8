"""Completion in notebooks: `%load_ext pathexp` completes names of models, and labels of models, runs, graphs and expansions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..model import Model, Trace
from ..model.completion import completions as names_of_models
from .graph import ResidualGraph

OFFERED = 1_000
"""How many labels are offered at most."""

_WORDS = r"""(?P<quote>["'])(?P<begun>[^"']*)$"""
_ARGUMENT = re.compile(r"\b(?P<call>\w+)\(\s*(?P<of>[A-Za-z_]\w*)\s*,[^()]*" + _WORDS)
_METHOD = re.compile(r"(?<![\w.])(?P<of>[A-Za-z_]\w*)\.(?P<call>\w+)\([^()]*" + _WORDS)
_LAST = re.compile(r"[^\s()|~*?]*$")
_HEAD = re.compile(r"L\d+H\d+")
_OF_HEADS = frozenset({"head", "score", "attention"})
"""Functions that take heads and no other label."""


def load_ipython_extension(shell: Any) -> None:
    """Let a shell of IPython complete names of models and labels; called by `%load_ext pathexp`."""

    def names(text: str) -> list[str]:
        before = getattr(shell.Completer, "text_until_cursor", "")
        return names_of_models(before) or labels(before, shell.user_ns)

    shell.Completer.custom_matchers.append(names)


def labels(before: str, variables: Mapping[str, object]) -> list[str]:
    """Return the labels that complete a line, up to its end, in `px.head(model, "`, `terms.where("E .* ` and their like.

    The model, run, graph or expansion is one that a variable holds; nothing is evaluated.

    >>> import pathexp as px
    >>> names = {"model": px.load("attn-1l")}
    >>> labels('px.head(model, "L0H', names)[:3], labels('px.head(other, "L0H', names)
    (['L0H0', 'L0H1', 'L0H2'], [])
    """
    inside = _ARGUMENT.search(before) or _METHOD.search(before)
    if inside is None or _quoted_before(before[: inside.start("quote")]):
        return []
    value = variables.get(inside["of"])
    if inside.re is _METHOD and isinstance(value, Model | Trace):
        return []  # their methods take texts and tokens
    graph = _graph(value)
    begun = _LAST.search(inside["begun"])
    if graph is None or begun is None:
        return []
    heads_alone = (
        inside.re is _ARGUMENT and inside["call"] in _OF_HEADS and "=" not in before[inside.start("of") :]
    )
    fitting = (
        label
        for label in graph.alphabet.labels
        if label.startswith(begun[0]) and (not heads_alone or _HEAD.fullmatch(label))
    )
    return [label for label, _ in zip(fitting, range(OFFERED), strict=False)]


def _quoted_before(words: str) -> bool:
    """Whether the quote that follows some words ends a string instead of beginning one."""
    return bool(words.count('"') % 2 or words.count("'") % 2)


def _graph(value: object) -> ResidualGraph | None:
    """The graph whose labels are those of a value; None where it has none."""
    if isinstance(value, Trace):
        value = value.model
    if isinstance(value, Model):
        return ResidualGraph.from_config(value.config)
    if isinstance(value, ResidualGraph):
        return value
    found = getattr(value, "graph", None) if type(value).__module__.startswith("pathexp.") else None
    return found if isinstance(found, ResidualGraph) else None
