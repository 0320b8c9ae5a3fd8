"""pathexp: path expansion of transformers, proven to add up to the forward pass.

>>> import pathexp as px
>>> trace = px.load("attn-2l").run("To be, or not to be")
>>> terms = px.expand(trace)
>>> terms.count(), terms.verify().ok
(81, True)
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from . import startup as startup
from .algebra import LinearMap
from .answer import Answer
from .budget import memory_budget
from .errors import PathexpError
from .expansion import (
    Expansion,
    Term,
    Tree,
    Verdict,
    evaluate,
    expand,
    tree,
    verify,
)
from .expansion.derive import derive
from .expansion.scores.derive_score import derive_score
from .expansion.scores.score import score
from .graph import Query, ResidualGraph, contrast, freeze, query
from .graph.completion import load_ipython_extension as load_ipython_extension
from .model import Config, Model, Target, Trace, Weights, induction_model, load, models, random_model, rewrite
from .model.forward import rerun
from .version import VERSION

if TYPE_CHECKING:
    from .circuits.attribution.attribution import attribution
    from .circuits.attribution.decompose import decompose
    from .circuits.attribution.flow import flow
    from .circuits.attribution.lens import lens
    from .circuits.attribution.position_flow import position_flow
    from .circuits.cases.average import average
    from .circuits.cases.case import Case
    from .circuits.cases.faithfulness import faithfulness
    from .circuits.composition.composition import composition
    from .circuits.composition.virtual_weight import virtual_weight
    from .circuits.corpus.corpus import Corpus
    from .circuits.corpus.limits import Limits
    from .circuits.corpus.order_importance import order_importance
    from .circuits.corpus.tally import Tally
    from .circuits.heads.entropy import entropy
    from .circuits.heads.head import head
    from .circuits.heads.heads import heads
    from .circuits.heads.induction import induction
    from .circuits.heads.rebase import rebase
    from .circuits.heads.swap import swap
    from .circuits.interventions.cuts import paths_along, paths_through
    from .circuits.interventions.intervene import intervene
    from .circuits.small.bigrams import bigrams
    from .circuits.small.skip_trigrams import skip_trigrams
    from .circuits.small.virtual_heads import virtual_heads
    from .circuits.subspaces.bottlenecks import bottlenecks
    from .circuits.subspaces.equivariance import equivariance
    from .circuits.subspaces.interference import interference
    from .circuits.subspaces.memory_management import memory_management
    from .circuits.subspaces.overlap import overlap
    from .circuits.subspaces.privileged_basis import privileged_basis
    from .circuits.subspaces.rotate_basis import rotate_basis
    from .page.explore import explore

__version__ = VERSION

_QUESTIONS = {
    "Case": ".circuits.cases.case",
    "Corpus": ".circuits.corpus.corpus",
    "Limits": ".circuits.corpus.limits",
    "Tally": ".circuits.corpus.tally",
    "attribution": ".circuits.attribution.attribution",
    "average": ".circuits.cases.average",
    "bigrams": ".circuits.small.bigrams",
    "bottlenecks": ".circuits.subspaces.bottlenecks",
    "composition": ".circuits.composition.composition",
    "decompose": ".circuits.attribution.decompose",
    "entropy": ".circuits.heads.entropy",
    "equivariance": ".circuits.subspaces.equivariance",
    "explore": ".page.explore",
    "faithfulness": ".circuits.cases.faithfulness",
    "flow": ".circuits.attribution.flow",
    "head": ".circuits.heads.head",
    "heads": ".circuits.heads.heads",
    "induction": ".circuits.heads.induction",
    "interference": ".circuits.subspaces.interference",
    "intervene": ".circuits.interventions.intervene",
    "lens": ".circuits.attribution.lens",
    "memory_management": ".circuits.subspaces.memory_management",
    "order_importance": ".circuits.corpus.order_importance",
    "overlap": ".circuits.subspaces.overlap",
    "paths_along": ".circuits.interventions.cuts",
    "paths_through": ".circuits.interventions.cuts",
    "position_flow": ".circuits.attribution.position_flow",
    "privileged_basis": ".circuits.subspaces.privileged_basis",
    "rebase": ".circuits.heads.rebase",
    "rotate_basis": ".circuits.subspaces.rotate_basis",
    "skip_trigrams": ".circuits.small.skip_trigrams",
    "swap": ".circuits.heads.swap",
    "virtual_heads": ".circuits.small.virtual_heads",
    "virtual_weight": ".circuits.composition.virtual_weight",
}
"""Where the names are that are imported when they are first asked for: `import pathexp` loads the pipeline alone."""

if not TYPE_CHECKING:  # to a type checker a module with __getattr__ has every name

    def __getattr__(name: str) -> object:
        if name not in _QUESTIONS:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
            )
        found = globals()[name] = getattr(import_module(_QUESTIONS[name], __name__), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_QUESTIONS})


__all__ = [
    "Answer",
    "Case",
    "Config",
    "Corpus",
    "Expansion",
    "Limits",
    "LinearMap",
    "Model",
    "PathexpError",
    "Query",
    "ResidualGraph",
    "Tally",
    "Target",
    "Term",
    "Trace",
    "Tree",
    "Verdict",
    "Weights",
    "attribution",
    "average",
    "bigrams",
    "bottlenecks",
    "composition",
    "contrast",
    "decompose",
    "derive",
    "derive_score",
    "entropy",
    "equivariance",
    "evaluate",
    "expand",
    "explore",
    "faithfulness",
    "flow",
    "freeze",
    "head",
    "heads",
    "induction",
    "induction_model",
    "interference",
    "intervene",
    "lens",
    "load",
    "memory_budget",
    "memory_management",
    "models",
    "order_importance",
    "overlap",
    "paths_along",
    "paths_through",
    "position_flow",
    "privileged_basis",
    "query",
    "random_model",
    "rebase",
    "rerun",
    "rewrite",
    "rotate_basis",
    "score",
    "skip_trigrams",
    "swap",
    "tree",
    "verify",
    "virtual_heads",
    "virtual_weight",
]
