"""What every head does on one repeated text: where it attends, by how much it copies, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...graph import Array
from ...graph.from_weights import has_token_space, unembedding_rows, writing
from ...model import Model
from ..corpus.tally import Tokens
from .repeated_tokens import TYPES, RepeatedRun, RepeatedTokens, predicts_next


def measure(texts: RepeatedTokens, copy: Tokens) -> Mapping[str, Array]:
    """Return what is summed over copies: the measures at every length, by "length name"."""
    found: dict[str, Array] = {}
    for length in texts.lengths:
        run = texts.run(copy, length)
        measured = measured_run(run, furthest(texts))
        found |= {f"{length} {name}": array for name, array in measured.items()}
    return found


def furthest(texts: RepeatedTokens) -> int:
    """Return how far back at least half the queries of the second copies can attend, at every length."""
    shortest = min(texts.lengths)
    return len(texts.prefix) + shortest + shortest // 2


def measured_run(run: RepeatedRun, reach: int) -> Mapping[str, Array]:
    """Return means over the queries of the second copy, for every head (L, H).

    "attention" to where each type attends, (L, H, types); "offsets", to the keys 0 to `reach` before the query, (L, H,
    reach + 1), over the queries that can attend so far back; "previous at keys", from the induction position to the one before it; "copied", as `copied`; and, where
    the model predicts next tokens, "losses" (first copy, second, and the square of their difference).
    """
    patterns, queries = run.trace.patterns, np.array(run.second)
    keys = queries - run.length + 1
    found = {
        "attention": np.stack([_attention(run, name) for name in TYPES], axis=-1),
        "offsets": _offsets(run, reach),
        "previous at keys": patterns[:, :, keys, keys - 1].mean(axis=-1),
    }
    if copies_are_defined(run.trace.model):
        found["copied"] = copied(run)
    if predicts_next(run.trace.model):
        first, second = run.losses()
        found["losses"] = np.array([first, second, (first - second) ** 2])
    return found


def _attention(run: RepeatedRun, name: str) -> Array:
    """The mean attention of every head (L, H) from the second copy to where a type attends."""
    queries = np.array(run.second)
    factor, offset = run.attended()[name]
    return np.asarray(run.trace.patterns[:, :, queries, factor * queries + offset].mean(axis=-1))


def _offsets(run: RepeatedRun, reach: int) -> Array:
    """The mean attention of every head (L, H) to each distance, (L, H, reach + 1)."""
    queries = np.array(run.second)
    means = []
    for distance in range(reach + 1):
        able = queries[queries >= distance]
        means.append(run.trace.patterns[:, :, able, able - distance].mean(axis=-1))
    return np.stack(means, axis=-1)


def copies_are_defined(model: Model) -> bool:
    """Whether what a head writes can be read at the logits straight: outputs are tokens, no norm stands on the stream."""
    return model.config.predicts_tokens and has_token_space(model.config)


def copied(run: RepeatedRun) -> Array:
    """Return at which share of queries each head raises the next token most of all tokens of the copy, (L, H).

    Straight to the logits, scales of norms left out: they are positive and the same for all tokens. By chance it is
    one in `length`. Olsson et al. 2022, "Key Concepts", ask of an induction head that it raises what it attends to.
    """
    model, queries = run.trace.model, np.array(run.second)
    copy = run.trace.tokens[run.start : run.start + run.length]
    read = unembedding_rows(model, copy)
    coming = (np.arange(run.length) + 1) % run.length
    layers = (
        _wins(run.trace.z[layer][:, queries], _through(model, layer, read) @ model.weights.W_O[layer], coming)
        for layer in range(model.config.n_layers)
    )
    found = np.array(list(layers))
    return found.reshape(model.config.n_layers, model.config.n_heads)


def _through(model: Model, layer: int, read: Array) -> Array:
    """What directions read of what heads of a layer give, (tokens, d_model)."""
    for factor in writing(model, layer):
        read = factor.T.apply(read)
    return read


def _wins(given: Array, read: Array, coming: Tokens) -> Array:
    """At which share of queries each head (H) raises what comes above all else: given (H, n, h), read (H, n, h)."""
    raised = given @ np.swapaxes(read, -1, -2)
    own = np.take_along_axis(raised, np.broadcast_to(coming[:, None], (*raised.shape[:2], 1)), axis=-1)
    np.put_along_axis(raised, np.broadcast_to(coming[:, None], (*raised.shape[:2], 1)), -np.inf, axis=-1)
    return np.asarray((own[..., 0] > raised.max(axis=-1)).mean(axis=-1))
