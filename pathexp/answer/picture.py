"""Answers as pictures: Altair charts, written as SVG, PNG, PDF or HTML; altair is imported when one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import AnswerError
from .charts import draw
from .document import Document
from .extras import extra
from .parts import Figure

ENDINGS = (".svg", ".png", ".pdf", ".html")


def figure_of(document: Document, name: str | None) -> Figure:
    """Return the first figure, or the one of a name. Raises AnswerError if there is none."""
    figures = {figure.name: figure for figure in document.of(Figure)}
    if not figures:
        raise AnswerError(f"this {document.kind or 'answer'} has no picture")
    if name is not None and name not in figures:
        raise AnswerError(f"no picture {name!r} in this {document.kind}; choose from: {', '.join(figures)}")
    return figures[name] if name is not None else next(iter(figures.values()))


def chart(document: Document, name: str | None = None, *, dark: bool = False) -> Any:
    """Return a picture as an Altair chart. Raises AnswerError if there is none."""
    return draw(figure_of(document, name), dark)


def check_file(file: str) -> Path:
    """Return where a picture is to go. Raises AnswerError for an ending that is not one of `ENDINGS`."""
    path = Path(file)
    if path.suffix.lower() not in ENDINGS:
        raise AnswerError(f"expected a picture file that ends in {', '.join(ENDINGS)}, got {file!r}")
    return path


def check_extra() -> None:
    """Raise MissingExtraError unless what draws and writes pictures is installed."""
    for module in ("altair", "vl_convert"):
        extra(module, "viz", "pictures")


def save(document: Document, file: str, name: str | None = None, *, dark: bool = False) -> None:
    """Write a picture; the ending says in which form.

    HTML holds all it needs and opens without a network. Raises AnswerError for another ending, or a file that cannot
    be written.
    """
    path, figure = check_file(file), figure_of(document, name)
    check_extra()
    drawn = draw(figure, dark)
    try:
        if path.suffix.lower() == ".html":
            path.write_text(_page(drawn), encoding="utf-8")
        else:
            drawn.save(str(path))
    except OSError as error:
        raise AnswerError(f"cannot write the picture to {file!r}: {error}") from None


def _page(drawn: Any) -> str:
    """Return a page in which no label can end the script that holds it: its JSON has no "<"."""
    before, mark, after = drawn.to_html(inline=True).rpartition(" spec = ")
    spec, newline, rest = after.partition("\n")
    if not mark:
        raise AnswerError("this version of altair writes pages in another layout; save the picture as .svg")
    return f"{before}{mark}{spec.replace('<', chr(92) + 'u003c')}{newline}{rest}"
