"""One value of a table as text: numbers with their decimals, tokens in quotes, nothing that acts."""

from __future__ import annotations

import math

from ..visible import inert, visible
from .parts import Column, Value


def cell(value: Value, column: Column) -> str:
    """Return a value as its column shows it.

    >>> from pathexp.answer import columns
    >>> cell(-0.00001, columns.number("x")), cell(0.97, columns.share("x")), cell(" the", columns.token("x"))
    ('0.0000', '97.0 %', '" the"')
    >>> cell(None, columns.number("x"))
    '–'
    """
    if value is None:
        return "" if column.kind in ("text", "path", "formula") else "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return visible(value) if column.kind == "token" else inert(value)
    return _number(value, column)


def _number(value: float, column: Column) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    if column.kind == "count" or isinstance(value, int):
        return amount(int(value)) if column.kind in ("count", "number", "share") else str(value)
    if column.kind == "share":
        return _signed(100 * value, max(column.digits - 2, 0), column.signed) + " %"
    if column.digits < 0:
        return f"{value + 0.0:{'+' if column.signed and value else ''}.{-column.digits}g}"
    return _signed(value, column.digits, column.signed)


def _signed(value: float, digits: int, signed: bool) -> str:
    shown = round(value, digits) + 0.0
    if shown and abs(shown) >= 1e7:
        return f"{shown:{'+' if signed else ''}.{max(digits, 1)}e}"
    return f"{shown:{'+' if signed and shown else ''}.{digits}f}"


def amount(count: int) -> str:
    """Return a count in full, or from 10¹⁵ on by its first digits and its power of ten.

    >>> amount(13_947_137_604), amount(68_719_476_736 * 10**39)
    ('13,947,137,604', '6.87e49')
    """
    digits = str(abs(count))
    return (
        f"{count:,}"
        if len(digits) <= 15
        else f"{'-' * (count < 0)}{digits[0]}.{digits[1:3]}e{len(digits) - 1}"
    )
