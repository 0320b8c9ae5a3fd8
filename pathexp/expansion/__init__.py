"""Terms and what they add up to."""

from .canonical import canonical, equal
from .expansion import Expansion, expand
from .path import Path
from .ranking import Ranking
from .run_tree import tree
from .scores.results import AnyScoreTerm, Effect, ScoreRanking
from .scores.score import score
from .scores.score_expansion import ScoreExpansion
from .scores.term import KINDS, PositionBias, ScoreTerm
from .scores.verdict import ScoreVerdict
from .symbolic import evaluate
from .term import Term
from .tree import Tree, TreeNode
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
    "Tree",
    "TreeNode",
    "Verdict",
    "canonical",
    "compare",
    "equal",
    "evaluate",
    "expand",
    "score",
    "tree",
    "verify",
]
