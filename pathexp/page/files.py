"""The files of the page, which ship with the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def static(name: str) -> str | None:
    """Return a file of the page as text; None where there is none of that name.

    >>> (static("main.js") or "")[:12], static("../server.py")
    ('// The page:', None)
    """
    known = {entry.name: entry for entry in files("pathexp.page").joinpath("static").iterdir()}
    return known[name].read_text(encoding="utf-8") if name in known else None
