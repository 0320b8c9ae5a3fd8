"""Values as text and data for people and machines."""

from .expansion import ExpansionReport, explain
from .text import count_of, table, visible

__all__ = ["ExpansionReport", "count_of", "explain", "table", "visible"]
