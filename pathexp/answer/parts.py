"""What an answer is made of: plain values that say what was found, never how wide or in which colors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import AnswerError
from ..visible import inert

Value: TypeAlias = str | int | float | bool | None
Row: TypeAlias = tuple[Value, ...]
ColumnKind = Literal["text", "token", "path", "formula", "count", "number", "share", "flag", "hidden"]
NUMERIC: tuple[ColumnKind, ...] = ("count", "number", "share")
Outcome = Literal["holds", "fails", "undecided"]


@dataclass(frozen=True)
class Column:
    """A column: its name in records, what its values are, and their unit.

    `title` heads it in print (the name with blanks, if empty). A "token" is untrusted text, shown in quotes; a
    "share" is a fraction of one; a "number" is shown with `digits` decimals, with its sign if `signed`, or with as
    many significant digits if `digits` is negative.
    """

    name: str
    kind: ColumnKind = "number"
    title: str = ""
    unit: str = ""
    digits: int = 4
    signed: bool = True

    @property
    def heading(self) -> str:
        """The title, or the name with blanks."""
        return inert(self.title or self.name.replace("_", " "))

    @property
    def numeric(self) -> bool:
        """Whether values are aligned to the right."""
        return self.kind in NUMERIC


@dataclass(frozen=True)
class Table:
    """Rows under typed columns, what matters first.

    Parameters
    ----------
    columns, rows: as many values a row as there are columns; numpy scalars become plain numbers, NaN becomes None.
    name: under which JSON and `records` find it. title: a line above it in print.
    key: the columns by which rows of several answers are joined. value: the column that is then averaged.
    shown: how many rows are printed unless more are asked for; None prints all, 0 none. Other forms
        hold every row.
    rest: rows printed after them, such as totals and remainders; they are no records.
    additive: whether rows that are not printed are summed up in a line ("… 281 more, -0.31").
    absent: what a row that is missing in one of several answers means: "zero" or "unknown".

    Raises AnswerError for rows of another length, or a key or value that is no column.

    >>> from pathexp.answer import columns
    >>> table = Table((columns.text("name"), columns.number("adds")), [("L0H1", 0.5), ("L0H0", -0.25)], key=("name",), value="adds")
    >>> table.records()[0]
    {'name': 'L0H1', 'adds': 0.5}
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    name: str = "rows"
    title: str = ""
    key: tuple[str, ...] = ()
    value: str | None = None
    shown: int | None = 12
    rest: tuple[Row, ...] = ()
    additive: bool = False
    absent: Literal["zero", "unknown"] = "unknown"

    def __init__(
        self,
        columns: Iterable[Column],
        rows: Iterable[Sequence[Any]],
        name: str = "rows",
        title: str = "",
        key: tuple[str, ...] = (),
        value: str | None = None,
        shown: int | None = 12,
        rest: Iterable[Sequence[Any]] = (),
        additive: bool = False,
        absent: Literal["zero", "unknown"] = "unknown",
    ) -> None:
        columns = tuple(columns)
        made: dict[str, Any] = {
            "columns": columns,
            "rows": _rows(rows, columns),
            "name": name,
            "title": title,
            "key": key,
        }
        made |= {
            "value": value,
            "shown": shown,
            "rest": _rows(rest, columns),
            "additive": additive,
            "absent": absent,
        }
        for each, found in made.items():
            object.__setattr__(self, each, found)
        self._check()

    def _check(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise AnswerError(f"columns of table {self.name!r} need names of their own, found {names}")
        for wanted in (*self.key, *filter(None, [self.value])):
            if wanted not in names:
                raise AnswerError(f"{wanted!r} is not a column of table {self.name!r}; columns are {names}")

    def printed(self) -> Table:
        """Return the table without its hidden columns; where all of a unit would round to zeros, in significant digits.

        >>> from pathexp.answer import columns
        >>> Table((columns.number("x"),), [(2e-9,), (0.0,)]).printed().columns[0].digits
        -4
        """
        shown = self._visible()
        fine = {column.unit for column in shown.columns if column.kind == "number" and column.digits >= 3}
        largest = {unit: _largest(shown, unit) for unit in fine}
        fitted = tuple(_fitted(column, largest.get(column.unit, 0.0)) for column in shown.columns)
        return shown if fitted == shown.columns else replace(shown, columns=fitted)

    def _visible(self) -> Table:
        kept = [at for at, column in enumerate(self.columns) if column.kind != "hidden"]
        if len(kept) == len(self.columns):
            return self
        rows, rest = ([tuple(row[at] for at in kept) for row in rows] for rows in (self.rows, self.rest))
        names = {self.columns[at].name for at in kept}
        key, value = (
            tuple(name for name in self.key if name in names),
            self.value if self.value in names else None,
        )
        return Table(
            [self.columns[at] for at in kept], rows, self.name, self.title, key, value, self.shown, rest,
            self.additive, self.absent,
        )  # fmt: skip

    def records(self) -> list[dict[str, Value]]:
        """Return the rows as one dict each, by column name."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def column(self, name: str) -> list[Value]:
        """Return the values of one column. Raises AnswerError if there is none of that name."""
        names = [column.name for column in self.columns]
        if name not in names:
            raise AnswerError(f"{name!r} is not a column of table {self.name!r}; columns are {names}")
        return [row[names.index(name)] for row in self.rows]


def _fitted(column: Column, largest: float) -> Column:
    """The column; with significant digits where decimals would show one digit at most of all numbers of its unit.

    Columns of fewer than three decimals are meant to be coarse, and beside large numbers small ones are noise.
    """
    if column.kind != "number" or column.digits < 3:
        return column
    return replace(column, digits=-column.digits) if 0 < largest < 10.0 ** (1 - column.digits) else column


def _largest(table: Table, unit: str) -> float:
    """The size of the largest finite number of a unit, in columns of numbers; 0 where there is none."""
    alike = [at for at, other in enumerate(table.columns) if (other.kind, other.unit) == ("number", unit)]
    rows = (*table.rows, *table.rest)
    sizes = (abs(value) for at in alike for row in rows if isinstance(value := row[at], float) and isfinite(value))  # fmt: skip
    return max(sizes, default=0.0)


def _rows(rows: Iterable[Sequence[Any]], columns: tuple[Column, ...]) -> tuple[Row, ...]:
    made = tuple(tuple([value if type(value) is str else plain(value) for value in row]) for row in rows)
    for row in made:
        if len(row) != len(columns):
            raise AnswerError(f"expected {len(columns)} values a row, got {len(row)}: {row!r:.80}")
    return made


def plain(value: Any) -> Value:
    """Return a value as a plain Python number, text, truth or None; NaN is None.

    Raises AnswerError for anything else.

    >>> plain(np.float64(0.5)), plain(float("nan")), plain(np.int64(3))
    (0.5, None, 3)
    """
    if type(value) is float:  # by far the most
        return value if value == value else None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value != value:
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise AnswerError(f"expected text, a number, a truth value or None in a table, got {value!r:.60}")


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix with labelled axes: `values` (rows, columns), read-only; values that are not numbers mean undefined."""

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]
    title: str = ""
    unit: str = ""
    row_axis: str = "row"
    column_axis: str = "column"
    digits: int = 3
    tokens: bool = False
    """Whether the labels are tokens: untrusted text, shown in quotes."""

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.shape != (len(self.rows), len(self.columns)):
            raise AnswerError(
                f"matrix {self.name!r} of shape {values.shape} does not fit "
                f"{len(self.rows)} row and {len(self.columns)} column labels"
            )
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def entries(self) -> Iterator[tuple[str, str, float]]:
        """Stream the entries, the largest in absolute value first; undefined ones last."""
        flat = np.where(np.isfinite(self.values), np.abs(self.values), -1.0).ravel()
        for place in np.argsort(-flat, kind="stable"):
            row, column = divmod(int(place), len(self.columns))
            yield self.rows[row], self.columns[column], float(self.values[row, column])


@dataclass(frozen=True)
class Check:
    """A balance that was measured: what should hold, the error found, the tolerance and where it comes from.

    The outcome is "undecided" where a `reason` says why nothing can be told: the tolerance is not small beside what
    is compared, or a number is not finite.

    >>> str(Check("paths add up to the forward pass", 2e-14, 3e-12))
    'paths add up to the forward pass: error 2.00e-14 ≤ tolerance 3.00e-12'
    """

    what: str
    error: float
    tolerance: float
    source: str = ""
    detail: str = ""
    reason: str = ""
    name: str = "check"

    @property
    def outcome(self) -> Outcome:
        """Whether it holds, fails, or cannot be told."""
        if self.reason or not (np.isfinite(self.error) and np.isfinite(self.tolerance)):
            return "undecided"
        return "holds" if self.error <= self.tolerance else "fails"

    @property
    def ok(self) -> bool:
        """Whether it holds."""
        return self.outcome == "holds"

    def __str__(self) -> str:
        match self.outcome:
            case "holds":
                return f"{self.what}: error {self.error:.2e} ≤ tolerance {self.tolerance:.2e}"
            case "fails":
                return f"does not hold: {self.what}: error {self.error:.2e} > tolerance {self.tolerance:.2e}"
            case _:
                return f"cannot tell whether {self.what}: {self.reason or 'a number is not finite'}"


@dataclass(frozen=True)
class Note:
    """A sentence or a few lines, with a title if they need one."""

    text: str
    title: str = ""


@dataclass(frozen=True)
class Facts:
    """Single numbers and words by name; `shown` says whether they are printed, or only found in JSON."""

    values: Mapping[str, Value]
    title: str = ""
    shown: bool = False

    def __post_init__(self) -> None:
        made = {str(name): plain(value) for name, value in self.values.items()}
        object.__setattr__(self, "values", MappingProxyType(made))

    def __reduce__(self) -> tuple[Any, ...]:
        return Facts, (dict(self.values), self.title, self.shown)


@dataclass(frozen=True)
class Formula:
    """A formula, as text that reads as code and as LaTeX."""

    name: str
    text: str
    latex: str


FigureKind = Literal["bars", "scatter", "heatmap", "lines", "flow", "flame", "spectra", "arcs", "attention"]


@dataclass(frozen=True)
class Figure:
    """The data of a picture.

    kind and what `data` holds:
        "bars": `rows` (labels), `values` (rows, series), `series` (names), optional `errors`.
        "heatmap": `rows`, `columns`, `values`. "attention": the same, labels are tokens.
        "lines": `x`, `series` (name -> values), optional `errors` (name -> values), `x_title`, `log`.
        "scatter": `x`, `y`, `labels`, optional `sizes`, `x_title`, `y_title`.
        "flow": `nodes` (label, column, value), `edges` (source, target, flow). "arcs": `tokens`, `edges`.
        "flame": `nodes` (id, parent, label, query, value, count, depth).
        "spectra": `series` (name -> complex eigenvalues as pairs).
    """

    kind: FigureKind
    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "data", MappingProxyType({name: _listed(value) for name, value in self.data.items()})
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Figure, (self.kind, self.name, dict(self.data), self.title, self.unit)


def _listed(value: Any) -> Any:
    """Return arrays as lists, complex numbers as pairs, numbers that are not finite as None, all the way down."""
    if isinstance(value, np.ndarray):
        finite = value.dtype.kind == "f" and np.isfinite(value).all()
        return value.tolist() if finite else _listed(value.tolist())
    if type(value) is float:  # by far the most
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _listed(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value if not isinstance(value, float) or np.isfinite(value) else None


Part: TypeAlias = Table | Matrix | Check | Note | Facts | Formula | Figure
