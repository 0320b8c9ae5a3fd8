"""Values as text and data for people and machines."""

from .expansion import ExpansionReport, report_expansion
from .text import count_of, table, visible

__all__ = ["ExpansionReport", "count_of", "report_expansion", "table", "visible"]
