"""The proof of a ranking, checked by code that shares nothing with the search but the graph."""

from .certificate import Certificate
from .checker import ProofCheck, check_ranking
from .pairs import Listed, Side, check_pairs
from .table_entries import check_entries

__all__ = [
    "Certificate",
    "Listed",
    "ProofCheck",
    "Side",
    "check_entries",
    "check_pairs",
    "check_ranking",
]
