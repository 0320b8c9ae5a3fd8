"""What a question returns, as a value, and one renderer a form: text, HTML, LaTeX, JSON, CSV, frames, pictures."""

from ..visible import inert, visible
from . import columns
from .answer import Answer, Report
from .document import Document
from .parts import Check, Column, Facts, Figure, Formula, Matrix, Note, Part, Table

__all__ = [
    "Answer", "Check", "Column", "Document", "Facts", "Figure", "Formula", "Matrix", "Note", "Part", "Report", "Table",
    "columns", "inert", "visible",
]  # fmt: skip
