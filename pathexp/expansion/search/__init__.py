"""The largest paths of an expansion that nobody can list, found and proven."""

from .budget import MEMORY, Budget
from .certified import Found, certify, search
from .cost import SearchCost, search_cost
from .entries import Entries, all_entries
from .found import Valued, by_size
from .goal import Goal, constant_lost
from .interrupts import interrupts, stopped_by
from .layout import Layout
from .sets import Reached, reachable_sets
from .tables import Tables, tables

__all__ = [
    "MEMORY",
    "Budget",
    "Entries",
    "Found",
    "Goal",
    "Layout",
    "Reached",
    "SearchCost",
    "Tables",
    "Valued",
    "all_entries",
    "by_size",
    "certify",
    "constant_lost",
    "interrupts",
    "reachable_sets",
    "search",
    "search_cost",
    "stopped_by",
    "tables",
]
