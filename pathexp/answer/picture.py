"""Answers as pictures: Altair charts, written as SVG, PNG, PDF or HTML; altair is imported when one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import AnswerError
from .document import Document
from .parts import Figure

ENDINGS = (".svg", ".png", ".pdf", ".html")


def figure_of(document: Document, name: str | None) -> Figure:
    """Return the first figure, or the one of a name. Raises AnswerError if there is none."""
    figures = {figure.name: figure for figure in document.of(Figure)}
    if not figures:
        raise AnswerError(f"this {document.kind} has no picture")
    if name is not None and name not in figures:
        raise AnswerError(f"no picture {name!r} in this {document.kind}; choose from: {', '.join(figures)}")
    return figures[name] if name is not None else next(iter(figures.values()))


def chart(document: Document, name: str | None = None) -> Any:
    """Return a picture as an Altair chart."""
    return draw(figure_of(document, name))


def draw(figure: Figure) -> Any:
    """Return the chart of a figure."""
    raise AnswerError(f"no drawing for figures of kind {figure.kind!r} yet")


def check_file(file: str) -> Path:
    """Return where a picture is to go. Raises AnswerError for an ending that is not one of `ENDINGS`."""
    path = Path(file)
    if path.suffix.lower() not in ENDINGS:
        raise AnswerError(f"expected a picture file that ends in {', '.join(ENDINGS)}, got {file!r}")
    return path


def save(document: Document, file: str, name: str | None = None) -> None:
    """Write a picture; the ending says in which form. Raises AnswerError for another, or a file that cannot be written."""
    path = check_file(file)
    drawn = chart(document, name)
    try:
        drawn.save(str(path))
    except OSError as error:
        raise AnswerError(f"cannot write the picture to {file!r}: {error}") from None
