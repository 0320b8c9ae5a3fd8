"""pathexp: path expansion of transformers, proven to add up to the forward pass.

>>> import pathexp as px
>>> trace = px.load("attn-2l").run("To be, or not to be")
>>> terms = px.expand(trace)
>>> terms.count(), terms.verify().ok
(81, True)
"""

from .algebra import LinearMap, Space, compose
from .answer import Answer
from .circuits import (
    Tally,
    along,
    basis_kurtosis,
    basis_privilege,
    bigrams,
    bottlenecks,
    composition_score,
    composition_scores,
    composition_table,
    copying,
    directions_of,
    explain_induction,
    head,
    head_kinds,
    induction_heads,
    information,
    interference,
    intervene,
    logit_lens,
    memory_management,
    order_blind,
    order_importance,
    overlap,
    overlaps,
    rerun,
    skip_trigrams,
    through,
    turn_basis,
    virtual_heads,
    virtual_share,
    virtual_weight,
)
from .circuits.attribution.attribution import attribution
from .circuits.attribution.decompose import decompose
from .circuits.attribution.flow import flow
from .errors import PathexpError
from .expansion import (
    Expansion,
    Path,
    Ranking,
    ScoreExpansion,
    Term,
    Tree,
    Verdict,
    compare,
    evaluate,
    expand,
    expand_score,
    tree,
    verify,
)
from .expansion.derive import derive
from .graph import Query, ResidualGraph, freeze, query
from .model import Config, Model, Target, Trace, Weights, induction_model, load, models, random_model, rewrite

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Config",
    "Expansion",
    "LinearMap",
    "Model",
    "Path",
    "PathexpError",
    "Query",
    "Ranking",
    "ResidualGraph",
    "ScoreExpansion",
    "Space",
    "Tally",
    "Target",
    "Term",
    "Trace",
    "Tree",
    "Verdict",
    "Weights",
    "along",
    "attribution",
    "basis_kurtosis",
    "basis_privilege",
    "bigrams",
    "bottlenecks",
    "compare",
    "compose",
    "composition_score",
    "composition_scores",
    "composition_table",
    "copying",
    "decompose",
    "derive",
    "directions_of",
    "evaluate",
    "expand",
    "expand_score",
    "explain_induction",
    "flow",
    "freeze",
    "head",
    "head_kinds",
    "induction_heads",
    "induction_model",
    "information",
    "interference",
    "intervene",
    "load",
    "logit_lens",
    "memory_management",
    "models",
    "order_blind",
    "order_importance",
    "overlap",
    "overlaps",
    "query",
    "random_model",
    "rerun",
    "rewrite",
    "skip_trigrams",
    "through",
    "tree",
    "turn_basis",
    "verify",
    "virtual_heads",
    "virtual_share",
    "virtual_weight",
]
