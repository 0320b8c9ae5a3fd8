"""pathexp: path expansion of transformers, proven to add up to the forward pass.

>>> import pathexp as px
>>> trace = px.load("attn-2l").run("To be, or not to be")
>>> terms = px.expand(trace)
>>> terms.count(), terms.verify().ok
(81, True)
"""

from .algebra import LinearMap, Space, compose
from .circuits import (
    Tally,
    along,
    attribute,
    bigrams,
    composition_score,
    composition_scores,
    composition_table,
    copying,
    decompose,
    explain_induction,
    flow,
    head,
    head_kinds,
    induction_heads,
    information,
    intervene,
    logit_lens,
    order_blind,
    order_importance,
    prune,
    rerun,
    skip_trigrams,
    through,
    virtual_heads,
    virtual_share,
    virtual_weight,
)
from .errors import PathexpError
from .expansion import (
    Expansion,
    Path,
    Ranking,
    ScoreExpansion,
    Term,
    Verdict,
    compare,
    evaluate,
    expand,
    expand_score,
    verify,
)
from .graph import Query, ResidualGraph, freeze, query
from .model import Config, Model, Target, Trace, Weights, induction_model, load, models, random_model, rewrite

__version__ = "0.1.0"

__all__ = [
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
    "Verdict",
    "Weights",
    "along",
    "attribute",
    "bigrams",
    "compare",
    "compose",
    "composition_score",
    "composition_scores",
    "composition_table",
    "copying",
    "decompose",
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
    "intervene",
    "load",
    "logit_lens",
    "models",
    "order_blind",
    "order_importance",
    "prune",
    "query",
    "random_model",
    "rerun",
    "rewrite",
    "skip_trigrams",
    "through",
    "verify",
    "virtual_heads",
    "virtual_share",
    "virtual_weight",
]
