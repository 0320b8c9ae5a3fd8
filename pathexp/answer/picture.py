"""Answers as pictures: Altair charts, written as SVG, PNG, PDF or HTML, altair imported when one is asked for; or TikZ."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ..errors import AnswerError
from ..replaced_file import replaced_file
from .charts import draw
from .document import Document
from .extras import extra
from .parts import Figure
from .tikz import KINDS, tikz

ENDINGS = (".svg", ".png", ".pdf", ".html", ".tex")


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


def check_extra(file: str = "") -> None:
    """Raise MissingExtraError unless what draws and writes pictures is installed; TikZ needs nothing."""
    if file.lower().endswith(".tex"):
        return
    for module in ("altair", "vl_convert"):
        extra(module, "viz", "pictures")


def save(document: Document, file: str, name: str | None = None, *, dark: bool = False) -> None:
    """Write a picture, whole or not at all; the ending says in which form.

    HTML holds all it needs and opens without a network; .tex is TikZ, of trees and flows alone, and needs no extra. Raises
    AnswerError for another ending, a figure that has no TikZ, or a file that cannot be written.
    """
    path = check_file(file)
    made = _written(document, path.suffix.lower(), name, dark)
    try:
        with replaced_file(path) as beside:
            beside.write(made)
    except OSError as error:
        raise AnswerError(f"cannot write the picture to {file!r}: {error}") from None


def _written(document: Document, ending: str, name: str | None, dark: bool) -> bytes:
    if ending == ".tex":
        return tikz(_for_tikz(document, name)).encode()
    drawn = _drawn(figure_of(document, name), dark)
    if ending == ".html":
        return _page(drawn).encode()
    made = io.BytesIO() if ending in (".png", ".pdf") else io.StringIO()
    drawn.save(made, format=ending.removeprefix("."))
    return made.getvalue() if isinstance(made, io.BytesIO) else made.getvalue().encode()


def _for_tikz(document: Document, name: str | None) -> Figure:
    """The figure of a name, or else the first that can be TikZ, or the first."""
    drawable = (figure for figure in document.of(Figure) if figure.kind in KINDS and name is None)
    return next(drawable, None) or figure_of(document, name)


def _drawn(figure: Figure, dark: bool) -> Any:
    check_extra()
    return draw(figure, dark)


def _page(drawn: Any) -> str:
    """Return a page in which no label can end the script that holds it: its JSON has no "<"."""
    before, mark, after = drawn.to_html(inline=True).rpartition(" spec = ")
    spec, newline, rest = after.partition("\n")
    if not mark:
        raise AnswerError("this version of altair writes pages in another layout; save the picture as .svg")
    return f"{before}{mark}{spec.replace('<', chr(92) + 'u003c')}{newline}{rest}"
