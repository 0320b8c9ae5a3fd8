"""What a page is looking at, as a value: the text, the position, the target, a rival, a second text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import PathexpError

MOST_TEXT = 20_000
"""How many characters a text may have on a page."""

MOST_QUERY = 2_000
"""How many characters a query may have on a page."""

MOST_OPEN = 200
"""How many branches one address may open."""

Word = str | int | None


@dataclass(frozen=True)
class View:
    """A question: why this token, here? `target` and `versus` are ids, or tokens as text; None is the predicted one.

    >>> View("To be").position, View("To be", versus=" not").versus
    (-1, ' not')
    """

    text: str = ""
    position: int = -1
    target: Word = None
    versus: Word = None
    other: str = ""


def view_of(given: Mapping[str, Any]) -> View:
    """Return the view that plain data describes.

    Raises PathexpError for what is of another kind or too long.

    >>> view_of({"text": "To be", "position": 1, "target": None})
    View(text='To be', position=1, target=None, versus=None, other='')
    """
    return View(
        words(given, "text", MOST_TEXT), number(given, "position", -1),
        _word(given, "target"), _word(given, "versus"), words(given, "other", MOST_TEXT),
    )  # fmt: skip


def words(given: Mapping[str, Any], name: str, most: int = MOST_QUERY) -> str:
    """Return a text of the request, "" where there is none. Raises PathexpError for another kind, or one too long."""
    found = given.get(name) or ""
    if not isinstance(found, str):
        raise PathexpError(f"{name}: expected a text, got {found!r:.60}")
    if len(found) > most:
        raise PathexpError(
            f"{name}: a page takes up to {most:,} characters, got {len(found):,}; use Python for more"
        )
    return found


def number(
    given: Mapping[str, Any], name: str, default: int, least: int = -(10**6), most: int = 10**6
) -> int:
    """Return an integer of the request. Raises PathexpError for another kind, or one outside its limits."""
    found = given.get(name)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
        raise PathexpError(f"{name}: expected an integer from {least} to {most}, got {found!r:.60}")
    return found


def queries(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a list of queries of the request. Raises PathexpError for another kind, or one too long."""
    found = given.get(name) or []
    if not isinstance(found, list) or len(found) > MOST_OPEN:
        raise PathexpError(f"{name}: expected a list of up to {MOST_OPEN} queries, got {found!r:.60}")
    return tuple(words({name: query}, name) for query in found)


def _word(given: Mapping[str, Any], name: str) -> Word:
    found = given.get(name)
    if found is None or found == "":
        return None
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    word = words(given, name, 200)
    return int(word[1:]) if word[:1] == "#" and word[1:].isdigit() else word
