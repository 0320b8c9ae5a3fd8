"""Terms and what they add up to."""

from .expansion import Expansion, expand
from .path import Path
from .ranking import Ranking
from .symbolic import evaluate
from .term import Term
from .verdict import Verdict, compare, verify

__all__ = ["Expansion", "Path", "Ranking", "Term", "Verdict", "compare", "evaluate", "expand", "verify"]
