"""Terms and what they add up to."""

from .canonical import canonical, equal
from .expand_score import expand_score
from .expansion import Expansion, expand
from .path import Path
from .ranking import Ranking
from .score_results import AnyScoreTerm, Effect, ScoreRanking
from .score_term import KINDS, PositionBias, ScoreTerm
from .score_verdict import ScoreVerdict
from .scores import ScoreExpansion
from .symbolic import evaluate
from .term import Term
from .verdict import Verdict, compare, verify

__all__ = [
    "KINDS",
    "AnyScoreTerm",
    "Effect",
    "Expansion",
    "Path",
    "PositionBias",
    "Ranking",
    "ScoreExpansion",
    "ScoreRanking",
    "ScoreTerm",
    "ScoreVerdict",
    "Term",
    "Verdict",
    "canonical",
    "compare",
    "equal",
    "evaluate",
    "expand",
    "expand_score",
    "verify",
]
