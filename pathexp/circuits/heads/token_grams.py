"""Spectra of token tables at any vocabulary: the tokens are summed out once for all heads of a model.

A table left · right, (d_vocab, d_vocab) of rank r, shares its nonzero eigenvalues with right · left, (r, r). There
the vocabulary is summed over between two maps of the stream, and W_E W_Eᵀ and W_E W_U, (d_model, d_model), are the
same for every head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ...algebra import Chain, Dense, LinearMap
from ...algebra.operations import wide
from ...graph import Array, WeakCache
from ...graph.from_weights import embedding, require_token_space, unembedding
from ...model import Model
from ...model.model import check_predicts_tokens


@dataclass(frozen=True, eq=False)
class TokenGrams:
    """What is left of a model's tokens when they are summed out, (d_model, d_model), and the sizes of its ends.

    `matching` is W_E W_Eᵀ, `copying` W_E W_U; `in_size` and `out_size` are ‖W_E‖ and ‖W_U‖ (largest singular
    values), by which rounding grows.
    """

    matching: Array
    copying: Array
    in_size: float
    out_size: float


GRAMS: WeakCache[Model, TokenGrams] = WeakCache()
"""The token grams of the models that are alive."""


def token_grams(model: Model) -> TokenGrams:
    """Sum the tokens of a model out, once. O(d_vocab · d_model²). Raises PathexpError for post-norm models."""
    return GRAMS.get(model, None, lambda: _grams(model))


def _grams(model: Model) -> TokenGrams:
    require_token_space(model.config)
    check_predicts_tokens(model, "copying")
    table, reader = embedding(model), unembedding(model)
    E = wide(table)
    matching = E @ E.T
    others = _behind(model, table, reader)
    if others is None:
        U = wide(reader)
        return TokenGrams(matching, E @ U, _largest(matching), _largest(U.T @ U))
    copying = _read_by(others, matching)
    return TokenGrams(matching, copying, _largest(matching), _largest(_read_by(others, copying.T)))


def _behind(model: Model, table: LinearMap, reader: LinearMap) -> tuple[LinearMap, ...] | None:
    """What the unembedding reads through, where its table is the embedding itself, so that one Gram matrix is enough; else None."""
    factors = reader.factors if isinstance(reader, Chain) else (reader,)
    plain = model.config.tied and isinstance(table, Dense) and isinstance(factors[0], Dense)
    return factors[1:] if plain else None


def _read_by(factors: Sequence[LinearMap], rows: Array) -> Array:
    """Rows times the product of some maps."""
    return reduce(lambda some, factor: factor.T.apply(some), factors, rows)


def _largest(gram: Array) -> float:
    """The largest singular value of the map whose Gram matrix this is."""
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))
