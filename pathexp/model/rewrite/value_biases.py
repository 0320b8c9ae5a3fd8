"""Value biases, folded into the output bias: patterns sum to 1, so that attention carries them unchanged."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...errors import RewriteError
from ..model import Model, check_model
from ..weights import Array
from .difference import probe
from .draft import Draft
from .proof import Step, rewritten


def fold_value_biases(model: Model, patterns: Array | None = None) -> Model:
    """Move every value bias into its layer's output bias: b_O + Σ_h W_O[h] b_V[key/value head of h].

    Exact because each row of a pattern sums to 1. ``patterns`` (L, H, n, n): what attention is to be, if not what
    the model itself makes of its tokens (default: a run of up to 9).

    Raises RewriteError, listing them, for rows that do not sum to 1, such as those in which every key is masked, and
    for heads with sinks.
    Elhage et al. 2021, "Attention Heads are Independent and Additive".

    >>> import pathexp as px
    >>> folded = px.rewrite.fold_value_biases(px.random_model(biases=True))
    >>> folded.weights.b_V is None, folded.history
    (True, ('fold_value_biases',))
    """
    check_model(model, "rewrite.fold_value_biases")
    if model.weights.b_V is None:
        return model
    if model.config.sinks:
        raise RewriteError(
            "fold_value_biases: heads have sinks, so that rows of patterns add up to less than 1, and how much of a value bias "
            "passes depends on the text. Leave the value biases where they are."
        )
    shown = model.run(probe(model)).patterns if patterns is None else np.asarray(patterns)
    if rows := unnormalized_rows(shown):
        listed = ", ".join(f"L{layer}H{head} query {query}" for layer, head, query in rows[:5])
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        raise RewriteError(
            f"fold_value_biases: patterns must sum to 1 for a value bias to pass unchanged; {len(rows)} row(s) do not: "
            f"{listed}{more}. Leave the value biases where they are."
        )
    layers = range(model.config.n_layers)
    steps = [Step(f"fold_value_biases layer {layer}", partial(_fold, layer)) for layer in layers]
    return rewritten(
        model, "fold_value_biases", [*steps, Step("fold_value_biases: leave out b_V", _leave_out)]
    )


def unnormalized_rows(patterns: Array) -> list[tuple[int, int, int]]:
    """The rows (layer, head, query) of patterns (L, H, n, n) that do not sum to 1.

    >>> unnormalized_rows(np.array([[[[0.0, 0.0], [1.0, 0.0]]]]))
    [(0, 0, 0)]
    """
    rounding = (patterns.shape[-1] + 2) * np.finfo(
        np.float64
    ).eps  # n exponentials, their sum, n quotients, a sum
    off = ~(np.abs(patterns.sum(axis=-1) - 1) <= rounding)
    return [(int(layer), int(head), int(query)) for layer, head, query in np.argwhere(off)]


def _fold(layer: int, draft: Draft) -> None:
    heads = range(draft.config.n_heads)
    groups = [draft.config.kv_head(head) for head in heads]
    if "b_O" not in draft:
        draft.put("b_O", np.zeros((draft.config.n_layers, draft.config.d_model)))
    moved = sum(draft["W_O"][layer, head] @ draft["b_V"][layer, groups[head]] for head in heads)
    draft.edit("b_O")[layer] += moved
    draft.edit("b_V")[layer] = 0.0


def _leave_out(draft: Draft) -> None:
    draft.drop("b_V")
