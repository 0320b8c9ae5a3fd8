"""What a page written as a file holds: the questions that its controls ask, answered beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import PathexpError
from ..expansion.search import interrupts
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


def computed(session: Session, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return what the page begins with and, by key, every answer that it holds. Ctrl-C leaves out what is left.

    Questions that are refused hold what refused them.
    """
    view = vars(session.start)
    answers: dict[str, Any] = {}
    with interrupts() as interrupted:
        for name, asked in questions(answers):
            if interrupted():
                break
            say(f"{name} {' '.join(map(str, asked.values()))}")
            answers[key(name, asked)] = _answered(session, name, {**view, **asked})
    return {"start": {"view": view, "name": session.name, "served": False}, "answers": answers}


def key(name: str, asked: Mapping[str, Any]) -> str:
    """Return the key of a question: its panel, and what it asks beyond the view. The page's ask.js makes the same.

    >>> key("tree", {"by": "endings"})
    'tree [["by","endings"]]'
    """
    listed = [[name, asked[name]] for name in sorted(asked)]
    return f"{name} {json.dumps(listed, separators=(',', ':'), ensure_ascii=False)}"


def questions(answers: Mapping[str, Any]) -> Iterator[Asked]:
    """Yield the questions, the general ones first; the later ones follow from the trees that were answered."""
    for name in ("run", "verify", "paths"):
        yield name, {}
    for by in ("endings", "beginnings"):
        yield "tree", {"by": by}
    for percent in PERCENTS:
        yield "flow", {"percent": percent}
    yield "heads", {"by": "contribution"}
    yield "lens", {}
    trees = [answers[key("tree", {"by": by})] for by in ("endings", "beginnings")]
    for place, tree in enumerate(trees):
        yield from _of_branches(largest(tree), CUTS if not place else CUTS // 2)
    for label in heads_of(largest(trees[0])):
        yield "head", {"head": label}
        yield "score", {"head": label}


def _of_branches(queries: list[str], cuts: int) -> Iterator[Asked]:
    for place, query in enumerate(queries):
        yield "branch", {"query": query}
        yield "query", {"query": query}
        if place < cuts:
            yield "cut", {"query": query}


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


def _answered(session: Session, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return session.ask(name, given)
    except PathexpError as error:
        return {"refused": str(error).splitlines()}
