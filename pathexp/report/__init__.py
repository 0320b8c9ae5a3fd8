"""Values as text and data for people and machines."""

from .text import count_of, table, visible

__all__ = ["count_of", "table", "visible"]
