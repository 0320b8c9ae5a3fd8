"""The base of every result: a frozen value that says what it found as a document of plain parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import AnswerError
from . import data, frame, html, latex, picture, text
from .document import Document
from .parts import Check, Figure, Part, Table, Value

if TYPE_CHECKING:
    import pandas as pd


class Answer:
    """What a question found; every form of it comes from its headline and its parts.

    A new kind of answer is a frozen dataclass that extends this class and writes `headline` (one line) and `parts`
    (tables, matrices, checks, notes, facts, formulas, figures; the main table first). Fields named in `live` refer to
    runs or graphs: they are left out of pickles and copies, which keep labels, paths and numbers and print the same.

    >>> from pathexp.answer import Report, Table, columns
    >>> answer = Report("heads", (Table((columns.text("name"), columns.number("adds")), [("L0H1", 0.5)]),))
    >>> isinstance(answer, Answer), answer.records()
    (True, [{'name': 'L0H1', 'adds': 0.5}])
    """

    live: ClassVar[frozenset[str]] = frozenset()

    def headline(self) -> str:
        """Return one line that says what this is about."""
        raise NotImplementedError(f"{type(self).__name__} needs a headline")

    def parts(self) -> Iterable[Part]:
        """Return what was found, as plain parts in reading order."""
        raise NotImplementedError(f"{type(self).__name__} needs parts")

    @property
    def ok(self) -> bool:
        """Whether every check holds; True where there is nothing to check."""
        return all(check.ok for check in self.document.of(Check))

    @property
    def complete(self) -> bool:
        """Whether nothing was cut short."""
        return True

    @property
    def document(self) -> Document:
        """The headline and the parts as values."""
        saved = self.__dict__.get("_document")
        return (
            saved
            if isinstance(saved, Document)
            else Document(kind_of(self), self.headline(), tuple(self.parts()))
        )

    # Forms ---------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        saved = self.__dict__.get("_document")
        headline = saved.headline if isinstance(saved, Document) else self.headline()
        return text.shortened(f"<{type(self).__name__}: {headline}>", 240)

    def __str__(self) -> str:
        return self.text()

    def text(self, *, width: int | None = None, top: int | None = None) -> str:
        """Return the answer for a terminal: `width` columns (the terminal's), at most `top` rows a table."""
        return text.render(self.document, width=width, top=top)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, *, top: int | None = None) -> str:
        """Return the answer as HTML without scripts; tokens and names are text, whatever they hold."""
        return html.render(self.document, top=top)

    def to_latex(self, *, top: int | None = None) -> str:
        """Return the answer as LaTeX: booktabs tables, formulas as mathematics."""
        return latex.render(self.document, top=top)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data: kind, schema, headline, facts, tables, matrices, checks, formulas."""
        return data.to_dict(self.document)

    def to_json(self, *, indent: int | None = 1) -> str:
        """Return the answer as strict JSON; what is not finite is null."""
        return data.to_json(self.document, indent)

    def records(self, table: str | None = None) -> list[dict[str, Value]]:
        """Return the rows of the main table, or of the one of a name, as one dict each.

        Raises AnswerError if there is no table of that name.
        """
        return data.records(self.document, table)

    def to_csv(self, table: str | None = None) -> str:
        """Return the rows of the main table, or of the one of a name, as CSV with a header.

        Raises AnswerError if there is no table of that name.
        """
        return data.to_csv(self.document, table)

    def to_dataframe(self, table: str | None = None) -> pd.DataFrame:
        """Return the rows as a pandas frame. Raises MissingExtraError without pandas (extra `[pandas]`)."""
        return frame.to_dataframe(self.document, table)

    def tables(self) -> dict[str, Table]:
        """Return the tables by name."""
        return {table.name: table for table in self.document.of(Table)}

    def figures(self) -> dict[str, Figure]:
        """Return the data of the pictures by name."""
        return {figure.name: figure for figure in self.document.of(Figure)}

    def plot(self, figure: str | None = None, *, dark: bool = False) -> Any:
        """Return the first picture, or the one of a name, as an Altair chart.

        Raises AnswerError if this answer has none, MissingExtraError without altair (extra `[viz]`).
        """
        return picture.chart(self.document, figure, dark=dark)

    def save(self, file: str, figure: str | None = None, *, dark: bool = False) -> None:
        """Write a picture as .svg, .png, .pdf, .html or .tex (TikZ of trees, flows and paths); see `plot`."""
        picture.save(self.document, file, figure, dark=dark)

    # Copies --------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        document = self.document  # first: what it computes and keeps is copied too
        kept = {name: value for name, value in self.__dict__.items() if name not in self.live}
        return {name: _plain_mapping(value) for name, value in kept.items()} | {"_document": document}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            self.__dict__[name] = _read_only(value)

    def __getattr__(self, name: str) -> Any:
        if name in type(self).live or hasattr(type(self), name):
            raise AttributeError(
                f"a copied {type(self).__name__} keeps labels and numbers, not {name!r}: ask again"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def kind_of(answer: object) -> str:
    """Return the name of a kind of answer in snake case.

    >>> class PositionFlow: pass
    >>> kind_of(PositionFlow())
    'position_flow'
    """
    name = type(answer).__name__
    return "".join(
        f"_{letter.lower()}" if letter.isupper() and at else letter.lower() for at, letter in enumerate(name)
    )


def _plain_mapping(value: Any) -> Any:
    """Return read-only mappings as dicts, which can be pickled."""
    return dict(value) if type(value).__name__ == "mappingproxy" else value


def _read_only(value: Any) -> Any:
    """Return a value with every array in it read-only, however deep."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    for each in _members(value):
        _read_only(each)
    return value


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, Mapping):
        return value.values()
    return vars(value).values() if is_dataclass(value) and hasattr(value, "__dict__") else ()


@dataclass(frozen=True)
class Report(Answer):
    """An answer made of parts that are given; what questions of one's own can return.

    >>> from pathexp.answer import Note, Report
    >>> print(Report("two words", (Note("said here"),)))
    two words
    <BLANKLINE>
    said here
    """

    title: str
    given: tuple[Part, ...]

    def headline(self) -> str:
        """Return the title."""
        return self.title

    def parts(self) -> tuple[Part, ...]:
        """Return the parts that were given."""
        return self.given

    def __repr__(self) -> str:
        return Answer.__repr__(self)

    def __post_init__(self) -> None:
        if not isinstance(self.title, str):
            raise AnswerError(f"expected a title, got {self.title!r:.60}")
