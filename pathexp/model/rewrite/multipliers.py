"""Constant multipliers, folded into the weights they stand beside."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ..model import Model, check_model
from .draft import Draft
from .proof import Step, rewritten

_KINDS = ("embedding", "residual", "logit")


def fold_multipliers(model: Model) -> Model:
    """Fold the multipliers of embedding, branches and logits into the weights, and set them to one.

    A tied unembedding is untied first. Where a norm stands between a branch and its multiplier, the multiplier goes
    into that norm's gain and bias; such a gain is made where there is none, and then stands in the way of `rotate`,
    so rotate first.

    >>> import pathexp as px
    >>> folded = px.rewrite.fold_multipliers(px.random_model(logit_multiplier=0.0625))
    >>> folded.config.logit_multiplier, folded.history
    (1.0, ('fold_multipliers',))
    """
    check_model(model, "rewrite.fold_multipliers")
    return rewritten(model, "fold_multipliers", list(_steps(model)))


def _steps(model: Model) -> Iterator[Step]:
    for kind in _KINDS:
        if getattr(model.config, f"{kind}_multiplier") != 1.0:
            yield Step(f"fold_multipliers {kind}", partial(_fold, kind))


def _fold(kind: str, draft: Draft) -> None:
    factor = getattr(draft.config, f"{kind}_multiplier")
    draft.untie()
    for name in _arrays(kind, draft):
        draft.edit(name)[...] *= factor
    draft.switch(**{f"{kind}_multiplier": 1.0})


def _arrays(kind: str, draft: Draft) -> list[str]:
    c = draft.config
    if kind == "embedding":
        return ["W_E"]
    if kind == "logit":
        return [name for name in ("W_U", "b_U") if name in draft]
    if c.norm_placement in ("sandwich", "branch"):
        posts = [name for name in c.block_norms if name.endswith("_post")]
        for name in posts:
            if f"g_{name}" not in draft:
                draft.put(f"g_{name}", np.ones((c.n_layers, c.d_model)))
        return [f"{letter}_{name}" for name in posts for letter in "gb" if f"{letter}_{name}" in draft]
    return [
        f"{kind}_{name}"
        for name in ("O", "out", "out_experts", "out_shared")
        for kind in "Wb"
        if f"{kind}_{name}" in draft
    ]
