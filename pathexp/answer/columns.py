"""Columns of tables, by what their values are: `columns.number("adds")`, `columns.token("output")`."""

from __future__ import annotations

from .parts import Column


def text(name: str, title: str = "") -> Column:
    """Return a column of text that the product wrote."""
    return Column(name, "text", title)


def token(name: str, title: str = "") -> Column:
    """Return a column of tokens: untrusted text, shown in quotes."""
    return Column(name, "token", title)


def path(name: str = "path", title: str = "") -> Column:
    """Return a column of paths or path queries."""
    return Column(name, "path", title)


def count(name: str, title: str = "") -> Column:
    """Return a column of whole numbers."""
    return Column(name, "count", title)


def number(name: str, title: str = "", unit: str = "", digits: int = 4, signed: bool = True) -> Column:
    """Return a column of numbers; a negative `digits` asks for so many significant digits."""
    return Column(name, "number", title, unit, digits, signed)


def share(name: str, title: str = "", digits: int = 3, signed: bool = False) -> Column:
    """Return a column of fractions of one."""
    return Column(name, "share", title, "", digits, signed)


def flag(name: str, title: str = "") -> Column:
    """Return a column of yes and no."""
    return Column(name, "flag", title)


def formula(name: str, title: str = "") -> Column:
    """Return a column of formulas: shortened where a terminal is narrow, whole in every other form."""
    return Column(name, "formula", title)


def hidden(name: str) -> Column:
    """Return a column for machines: in records, JSON and CSV, not in print."""
    return Column(name, "hidden")
