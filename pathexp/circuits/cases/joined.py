"""Tables of many answers as one: rows joined by their key, values as mean and error, whatever is missing counted."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...answer import Column, Table, columns
from ...answer.parts import ColumnKind, Row, Value
from ...errors import PathexpError
from .moments import Moments

AVERAGED = ("number", "share", "count", "flag")
"""The kinds of columns that are averaged; the others are kept where all cases agree."""


@dataclass
class _Joined:
    """One row: the sums of its numbers, and its words as long as all cases have the same."""

    moments: list[Moments]
    words: dict[int, Value]
    undefined: list[int]
    """How often each number was there and undefined, such as the share of nothing."""
    values: list[array[float]] = field(default_factory=list)


@dataclass
class JoinedTable:
    """Tables of one name, one a case, added up row by row.

    `quantiles` asks for quantiles of the value as well: eight bytes a row and case.
    """

    shape: Table
    quantiles: tuple[float, ...] = ()
    cases: int = 0
    rows: dict[Row, _Joined] = field(default_factory=dict)

    def add(self, table: Table | None) -> None:
        """Add the table of one more case; None where it has none.

        Raises PathexpError for a table with other columns, or with two rows of one key.
        """
        self.cases += 1
        if table is None:
            return
        if (table.columns, table.key, table.value) != (self.shape.columns, self.shape.key, self.shape.value):
            raise PathexpError(f"its table {table.name!r} has other columns than those before")
        seen: set[Row] = set()
        for row in table.rows:
            key = tuple(row[at] for at in self._keys)
            if key in seen:
                raise PathexpError(f"its table {table.name!r} has two rows {key!r:.80}")
            seen.add(key)
            self._add(key, row)

    def _add(self, key: Row, row: Row) -> None:
        joined = self.rows.get(key)
        if joined is None:
            words = {at: row[at] for at in self._words}
            joined = _Joined([Moments() for _ in self._numbers], words, [0 for _ in self._numbers])
            self.rows[key] = joined
            joined.values = [array("d") for _ in self._numbers[:1] if self.quantiles]
        for number, at in enumerate(self._numbers):
            value = row[at]
            if not isinstance(value, int | float) or not math.isfinite(value):
                joined.undefined[number] += 1
                continue
            joined.moments[number].add(value)
            if joined.values and number == 0:
                joined.values[0].append(value)
        for at, word in joined.words.items():
            if row[at] != word:
                joined.words[at] = None

    # Columns -------------------------------------------------------------------------------------------

    def _at(self, name: str) -> int:
        return next(at for at, column in enumerate(self.shape.columns) if column.name == name)

    @property
    def _keys(self) -> list[int]:
        return [self._at(name) for name in self.shape.key]

    @property
    def _numbers(self) -> list[int]:
        """The columns that are averaged, the value first."""
        value = self.shape.value
        others = [
            at
            for at, column in enumerate(self.shape.columns)
            if column.kind in AVERAGED and at not in self._keys and column.name != value
        ]
        return others if value is None else [self._at(value), *others]

    @property
    def _words(self) -> list[int]:
        taken = {*self._keys, *self._numbers}
        return [at for at in range(len(self.shape.columns)) if at not in taken]

    def _head(self) -> Iterator[Column]:
        every = self.shape.columns
        yield from (every[at] for at in self._keys)
        for number, at in enumerate(self._numbers):
            column, named = every[at], number > 0 or self.shape.value is None
            if column.kind == "count":  # whose means are seldom whole, and have no direction
                column = replace(column, digits=2, signed=False)
            kind: ColumnKind = "share" if column.kind == "share" else "number"
            mean, error = (f"{column.name}_mean", f"{column.name}_error") if named else ("mean", "error")
            title = f"{column.heading}, mean" if named else "mean"
            yield replace(column, name=mean, title=title, kind=kind)
            yield replace(column, name=error, title="± error", kind=kind, signed=False)
            if not named:
                for share in self.quantiles:
                    yield replace(column, name=quantile_name(share), title=f"{share:.0%}", kind=kind)
        yield columns.count("cases")
        yield from (every[at] for at in self._words)

    # Rows ----------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Return one table of the means, the largest |mean| first; in the order of the question where all are shown."""
        rows = [self._row(key, joined) for key, joined in self.rows.items()]
        if self.shape.shown is not None and self.shape.value is not None:
            rows.sort(key=lambda row: self._rank(row))
        value = None if self.shape.value is None else "mean"
        return Table(
            tuple(self._head()), rows, self.shape.name, self.shape.title, self.shape.key, value, self.shape.shown,
            additive=self.shape.additive and self.shape.absent == "zero",
        )  # fmt: skip

    def _rank(self, row: Row) -> tuple[float, str]:
        mean = row[len(self.shape.key)]
        return (-abs(mean) if isinstance(mean, int | float) else math.inf, repr(row[: len(self.shape.key)]))

    def _row(self, key: Row, joined: _Joined) -> Row:
        found: list[Value] = list(key)
        for number, moments in enumerate(joined.moments):
            whole = moments.with_zeros(self._counted(joined, number))
            found += [whole.mean, whole.error]
            if number == 0 and self.shape.value is not None:
                found += self._quantiles(joined.values, whole.count - moments.count)
        return (*found, self._counted(joined, 0), *joined.words.values())

    def _counted(self, joined: _Joined, number: int) -> int:
        """How many cases a mean is over."""
        if self.shape.absent == "zero" or not joined.moments:
            return self.cases - (joined.undefined[number] if joined.undefined else 0)
        return joined.moments[number].count

    def _quantiles(self, values: Sequence[Sequence[float]], zeros: int) -> list[float | None]:
        if not self.quantiles:
            return []
        every = np.concatenate([np.array(values[0]), np.zeros(zeros)])
        return (
            [float(each) for each in np.quantile(every, self.quantiles)]
            if len(every)
            else [None for _ in self.quantiles]
        )

    @property
    def partial(self) -> int:
        """How many rows have a mean over fewer cases than there are."""
        return sum(self._counted(row, 0) < self.cases for row in self.rows.values())


def quantile_name(share: float) -> str:
    """Return the name of the column of a quantile.

    >>> quantile_name(0.5), quantile_name(0.025)
    ('q50', 'q2.5')
    """
    return f"q{100 * share:.6g}"
