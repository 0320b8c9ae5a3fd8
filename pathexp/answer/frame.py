"""Answers as pandas frames; pandas is imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .document import Document
from .extras import extra

if TYPE_CHECKING:
    import pandas as pd


def to_dataframe(document: Document, table: str | None = None) -> pd.DataFrame:
    """Return the rows of the main table, or of the one of a name; raises MissingExtraError without pandas."""
    chosen = document.table(table)
    pandas = extra("pandas", "pandas", "data frames")
    made: pd.DataFrame = pandas.DataFrame(
        chosen.records(), columns=[column.name for column in chosen.columns]
    )
    return made
