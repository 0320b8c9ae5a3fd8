"""A headline and parts: what every renderer reads, and what a copied answer keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..errors import AnswerError
from . import columns
from .parts import Check, Facts, Matrix, Part, Table

P = TypeVar("P", bound=Part)


class Sayable(Protocol):
    """What has a headline and parts."""

    def headline(self) -> str:
        """Return one line."""
        ...

    def parts(self) -> Iterable[Part]:
        """Return or stream the parts."""
        ...


@dataclass(frozen=True)
class Document:
    """The kind of an answer, its headline, and its parts in reading order."""

    kind: str
    headline: str
    parts: tuple[Part, ...]

    def of(self, kind: type[P]) -> tuple[P, ...]:
        """Return the parts of a kind."""
        return tuple(part for part in self.parts if isinstance(part, kind))

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks."""
        return self.of(Check)

    def table(self, name: str | None = None) -> Table:
        """Return the main table (the first), or the one of a name.

        Without tables the checks, the first matrix's entries, or the facts stand in. Raises AnswerError if there is
        no table of that name.
        """
        tables = {table.name: table for table in self.of(Table)}
        if name is None:
            return next(iter(tables.values()), None) or self._stand_in()
        if name not in tables:
            raise AnswerError(
                f"no table {name!r} in this {self.kind}; choose from: {', '.join(tables) or 'none'}"
            )
        return tables[name]

    def _stand_in(self) -> Table:
        if checks := self.of(Check):
            return checks_table(checks)
        if matrices := self.of(Matrix):
            return entries_table(matrices[0])
        facts = {name: value for part in self.of(Facts) for name, value in part.values.items()}
        return Table(tuple(columns.text(name) for name in facts), [tuple(facts.values())] if facts else [])


def checks_table(checks: tuple[Check, ...]) -> Table:
    """Return checks as a table."""
    head = (
        columns.text("what"),
        columns.flag("ok"),
        columns.text("outcome"),
        columns.number("error", digits=-3, signed=False),
        columns.number("tolerance", digits=-3, signed=False),
        columns.text("source"),
    )
    rows = [(c.what, c.ok, c.outcome, c.error, c.tolerance, c.source or c.reason) for c in checks]
    return Table(head, rows, "checks", key=("what",), value="error")


def entries_table(matrix: Matrix) -> Table:
    """Return the entries of a matrix as a table, the largest first."""
    head = (
        columns.text("row", matrix.row_axis),
        columns.text("column", matrix.column_axis),
        columns.number("value", unit=matrix.unit),
    )
    return Table(head, list(matrix.entries()), matrix.name, key=("row", "column"), value="value")
