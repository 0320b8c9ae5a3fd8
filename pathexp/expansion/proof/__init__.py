"""The proof of a ranking, checked by code that shares nothing with the search but the graph."""

from .certificate import Certificate
from .checker import ProofCheck, check_ranking

__all__ = ["Certificate", "ProofCheck", "check_ranking"]
