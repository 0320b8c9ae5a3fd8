"""What a page written as a file holds: the questions that its controls ask, answered beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from typing import Any

from ..errors import PathexpError
from ..expansion.search import interrupts, stopped_by
from ..workers import in_turn
from .panels.branch import LABEL
from .session import Session

BRANCHES = 60
"""How many branches, the largest, are told in full."""

CUTS = 16
"""How many branches, the largest, are cut."""

HEADS = 12
"""How many heads, those on the largest branches, are told in full."""

PERCENTS = (50, 60, 70, 80, 90, 95, 100)
"""The stops of the slider of the flow."""

Asked = tuple[str, dict[str, Any]]

Group = tuple[Asked, ...]
"""Questions that share what is computed for them, and are asked one after the other; groups are asked side by side."""


def computed(session: Session, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return what the page begins with and, by key, every answer that it holds. Ctrl-C leaves out what is left.

    Questions that are refused hold what refused them.
    """
    view = vars(session.start)
    answers: dict[str, Any] = {}
    with interrupts() as interrupted:
        answered = partial(_answered, session, view, interrupted)
        for stage in (first, general, following):
            if interrupted():
                break
            asked = _said(takewhile(lambda _: not interrupted(), stage(answers)), say)
            for _, found in in_turn(answered, asked):
                answers |= found
    return {"start": {"view": view, "name": session.name, "served": False}, "answers": answers}


def _said(groups: Iterable[Group], say: Callable[[str], None]) -> Iterator[Group]:
    """Say what is asked next."""
    for group in groups:
        name, asked = group[0]
        say(f"{name} {' '.join(map(str, asked.values()))}")
        yield group


def _answered(
    session: Session, view: Mapping[str, Any], interrupted: Callable[[], bool], group: Group
) -> dict[str, Any]:
    with stopped_by(interrupted):
        return {key(name, asked): _answer(session, name, {**view, **asked}) for name, asked in group}


def key(name: str, asked: Mapping[str, Any]) -> str:
    """Return the key of a question: its panel, and what it asks beyond the view. The page's ask.js makes the same.

    >>> key("tree", {"by": "endings"})
    'tree [["by","endings"]]'
    """
    listed = [[name, asked[name]] for name in sorted(asked)]
    return f"{name} {json.dumps(listed, separators=(',', ':'), ensure_ascii=False)}"


def first(_: Mapping[str, Any]) -> Iterator[Group]:
    """Yield the question that makes what all others need."""
    yield (("run", {}),)


def general(_: Mapping[str, Any]) -> Iterator[Group]:
    """Yield the questions about the run as a whole."""
    yield (("verify", {}),)
    yield (("paths", {}),)
    for by in ("endings", "beginnings"):
        yield (("tree", {"by": by}),)
    yield tuple(("flow", {"percent": percent}) for percent in PERCENTS)
    yield (("heads", {"by": "contribution"}),)
    yield (("lens", {}),)


def following(answers: Mapping[str, Any]) -> Iterator[Group]:
    """Yield the questions that follow from the trees that were answered."""
    trees = [answers[key("tree", {"by": by})] for by in ("endings", "beginnings")]
    for place, tree in enumerate(trees):
        yield from _of_branches(largest(tree), CUTS if not place else CUTS // 2)
    for label in heads_of(largest(trees[0])):
        yield tuple((name, {"head": label}) for name in ("head", "score"))


def _of_branches(queries: list[str], cuts: int) -> Iterator[Group]:
    for place, query in enumerate(queries):
        names = ("branch", "query", "cut")[: 3 if place < cuts else 2]
        yield tuple((name, {"query": query}) for name in names)


def largest(tree: Mapping[str, Any]) -> list[str]:
    """Return the queries of the largest branches of an answered tree, the root first."""
    found = sorted(_boxes(tree.get("root", {})), key=lambda box: -abs(box["value"]))
    return [box["query"] for box in found[:BRANCHES]]


def _boxes(box: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if box:
        yield box
    for child in box.get("children", ()):
        yield from _boxes(child)


def heads_of(queries: list[str]) -> list[str]:
    """Return the heads that branches name, in their order."""
    labels = (label.split(".")[0] for query in queries for label in LABEL.findall(query))
    return list(dict.fromkeys(label for label in labels if "H" in label))[:HEADS]


def _answer(session: Session, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return session.ask(name, given)
    except PathexpError as error:
        return {"refused": str(error).splitlines()}
