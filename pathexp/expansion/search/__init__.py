"""The largest paths of an expansion that nobody can list, found and proven."""

from .budget import MEMORY, Budget
from .certified import Found, search
from .layout import Layout
from .sets import Sets, reachable_sets
from .tables import ROOM, Tables, tables

__all__ = [
    "MEMORY",
    "ROOM",
    "Budget",
    "Found",
    "Layout",
    "Sets",
    "Tables",
    "reachable_sets",
    "search",
    "tables",
]
