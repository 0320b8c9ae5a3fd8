"""The largest paths of an expansion that nobody can list, found and proven."""

from .budget import MEMORY, Budget
from .certified import Found, search
from .entries import Entries, all_entries
from .interrupts import interrupts
from .layout import Layout
from .reach import ROOM
from .sets import Reached, reachable_sets
from .tables import Tables, tables

__all__ = [
    "MEMORY",
    "ROOM",
    "Budget",
    "Entries",
    "Found",
    "Layout",
    "Reached",
    "Tables",
    "all_entries",
    "interrupts",
    "reachable_sets",
    "search",
    "tables",
]
