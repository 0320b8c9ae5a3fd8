"""Induction heads: found from the weights, confirmed on random tokens said twice, explained by their scores.

An induction head looks for the place after an earlier copy of the present token, and copies what it finds there:
its keys are made of what a previous-token head wrote (K-composition), W_Eᵀ W_QK W_OV_prev W_E matches a token with
itself, and W_U W_OV W_E copies. Elhage et al. 2021, "Induction Heads", "How Induction Heads Work".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from ...algebra import Dense, Identity, LinearMap, Space, compose
from ...arguments import expect, whole
from ...graph import Array
from ...model import Config, Model, Weights
from ...model.model import check_model
from ..running import Tally
from ..token_space import HEAD, embedding, reading, writing
from .copying import Spectrum, heads, ov_spectrum, row_maximum_on_diagonal, turned_spectrum
from .head import Head
from .head_types import HeadKinds, head_kinds
from .repeated_tokens import INDUCTION
from .token_grams import keys_read, queries_read, token_grams, values_read, written

SHARE = 0.5
"""From which spectrum scores, and which shares of attention and of tokens, the weights count as evidence."""


@dataclass(frozen=True, eq=False)
class InductionPair:
    """What the weights say of one head reading the keys that another head made.

    `previous` is the attention that the earlier head pays to the token before when all tokens are alike;
    `matching` the spectrum of W_Eᵀ W_QK W_OV_before W_E, (token that looks, token that came before the place
    looked at), and `on_diagonal` the share of tokens that match themselves best; `copying` the spectrum of
    W_U W_OV W_E.
    """

    late: Head
    early: Head
    previous: float
    copying: Spectrum
    weights: _Weights

    @property
    def head(self) -> str:
        """The label of the head whose keys are asked about."""
        return self.late.label

    @property
    def before(self) -> str:
        """The label of the earlier head."""
        return self.early.label

    @property
    def form(self) -> LinearMap:
        """What stands between queries and keys, (d_head, d_head): under rotary positions its mean over distances."""
        return self.weights.form(self.late)

    @cached_property
    def matching(self) -> Spectrum:
        """The spectrum of W_Eᵀ W_QK W_OV_before W_E. O(d_model d_head²)."""
        return self.weights.matching(self.late, self.early)

    @cached_property
    def table(self) -> LinearMap:
        """W_Eᵀ W_QK W_OV_before W_E, factored."""
        model, read = self.late.model, reading(self.late.model, self.late.layer)
        inner = compose(*writing(model, self.early.layer), self.early.OV, *reading(model, self.early.layer))
        query = compose(*read, embedding(model))
        return compose(query.T, self.late.W_Q.T, self.form, self.late.W_K, *read, inner, embedding(model))

    @cached_property
    def on_diagonal(self) -> float:
        """The share of tokens that match themselves best. O(d_vocab² d_head): seconds for a large vocabulary."""
        return row_maximum_on_diagonal(self.table)

    @property
    def strength(self) -> float:
        """The weakest of the three: attention one back, matching, copying; from -1 to 1."""
        return min(self.most, self.matching.score or 0.0)

    @property
    def most(self) -> float:
        """What the strength can be at most, whatever the matching: the weaker of the other two."""
        return min(self.previous, self.copying.score or 0.0)

    @property
    def is_induction(self) -> bool:
        """Whether all say so: attention one back, positive spectra, and most tokens match themselves best."""
        return self.most >= SHARE and self.strength >= SHARE and self.on_diagonal >= SHARE


def induction_pairs(model: Model, positions: int = 64) -> tuple[InductionPair, ...]:
    """Return, for every head and every earlier head, what the weights say of the two as an induction circuit.

    From weights alone: no text is run. The tables read the embedding, not what MLPs make of it, so they say
    most about models of two or three layers. Under rotary positions the form is averaged over distances from 1
    to `positions`. Elhage et al. 2021, "Mechanistic Details of Induction Heads".

    O(d_vocab d_model²) once, O(d_model d_head²) for each pair whose matching is asked for. Raises PathexpError
    for post-norm models.

    >>> import pathexp as px
    >>> [(pair.head, pair.before, pair.is_induction) for pair in induction_pairs(px.induction_model())]
    [('L1H0', 'L0H0', True)]
    """
    check_model(model, "induction_pairs")
    expect("induction_pairs", positions=(positions, whole(2)))
    weights = _Weights(model, min(positions, model.config.n_ctx))
    every = list(heads(model))
    return tuple(weights.pair(late, early) for late in every for early in every if early.layer < late.layer)


class _Weights:
    """What pairs of heads of one model have in common, each made once."""

    def __init__(self, model: Model, positions: int) -> None:
        self.model, self.positions = model, positions
        self.grams = token_grams(model)
        self.copying = cache(ov_spectrum)
        self.patterns = cache(lambda layer: positional_patterns(model, layer, positions))
        self.keys, self.written, self.values = cache(keys_read), cache(written), cache(values_read)
        self.queries = cache(queries_read)
        self.asked = cache(lambda head: self.grams.matching @ self.queries(head).T)  # (d_model, d_head)
        self.form = cache(lambda head: mean_form(head, positions))

    def pair(self, late: Head, early: Head) -> InductionPair:
        return InductionPair(
            late=late,
            early=early,
            previous=previous_token_share(self.patterns(early.layer)[early.index]),
            copying=self.copying(late),
            weights=self,
        )

    def matching(self, late: Head, early: Head) -> Spectrum:
        """The spectrum of W_Eᵀ W_QK W_OV_before W_E, from its rotation by the queries, (d_head, d_head)."""
        inner = self.keys(late) @ self.written(early)
        turned = self.form(late).dense() @ inner @ (self.values(early) @ self.asked(late))
        sizes = (self.keys(late), self.written(early), self.values(early), self.queries(late))
        scale = self.grams.in_size**2 * float(np.prod([np.linalg.norm(each) for each in sizes]))
        return turned_spectrum(turned, scale, self.model.config.d_vocab)


def mean_form(head: Head, positions: int) -> LinearMap:
    """Return what stands between a head's queries and keys, (d_head, d_head), under rotary its mean over distances.

    Distances from 1 to `positions`; without rotary positions it is the identity.
    """
    space = Space(HEAD, head.model.config.d_head)
    if not head.form.by_distance:
        return Identity(space)
    turns = [head.form.rotation(distance) for distance in range(1, positions + 1)]
    mean = np.mean([turn.numbers().dense() for turn in turns if turn is not None], axis=0)
    return Dense(mean, space, space, "R_mean")


def positional_patterns(model: Model, layer: int, positions: int) -> Array:
    """Return the patterns of a layer's heads by position alone, (H, positions, positions).

    They are those of a text of one token said over and over whose embedding is the mean of all tokens', read by
    the layer straight from the embedding. From weights alone.
    """
    w = model.weights
    config = replace(
        model.config, n_layers=1, d_vocab=1, d_out=1, d_mlp=0, gated=False, parallel=None, tied=False,
        windows=None if model.config.windows is None else (model.config.windows[layer],),
    )  # fmt: skip
    alike = Model(config, _one_layer(w, config, layer))
    return np.array(alike.run(np.zeros(positions, dtype=np.int64)).patterns[0])


_STACKED = (
    "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "g_attn", "b_attn", "g_attn_post", "b_attn_post",
    "g_q", "g_k",
)  # fmt: skip
_WHOLE = ("W_pos", "g_embed", "b_embed", "g_final", "b_final")


def _one_layer(w: Weights, config: Config, layer: int) -> Weights:
    arrays = w.arrays()
    kept = {name: arrays[name][layer : layer + 1] for name in _STACKED if name in arrays}
    kept |= {name: arrays[name] for name in _WHOLE if name in arrays}
    return Weights(W_E=w.W_E.mean(axis=1, keepdims=True), W_U=np.zeros((1, config.d_model)), **kept)


def previous_token_share(pattern: Array) -> float:
    """Return the mean attention to the position before, over all queries but the first; 0 for one position."""
    n = len(pattern)
    return float(np.diagonal(pattern, -1).mean()) if n > 1 else 0.0


@dataclass(frozen=True)
class Induction:
    """The induction heads of a model: what its weights say, what its runs say, and whether they agree."""

    pairs: tuple[InductionPair, ...]
    kinds: HeadKinds

    @property
    def from_weights(self) -> tuple[str, ...]:
        """The heads that some earlier head makes an induction head by the weights."""
        return tuple(dict.fromkeys(pair.head for pair in self.pairs if pair.is_induction))

    @property
    def from_data(self) -> tuple[str, ...]:
        """The heads that attend to the induction position of random tokens said twice."""
        return self.kinds.of_kind(INDUCTION)

    @property
    def agree(self) -> bool:
        """Whether both lists hold the same heads."""
        return set(self.from_weights) == set(self.from_data)

    def before(self, head: str) -> InductionPair | None:
        """The strongest pair of a head with an earlier one, or None in the first layer.

        Raises PathexpError if there is no such head.
        """
        _ = self.kinds[head]
        best: InductionPair | None = None
        for pair in sorted((pair for pair in self.pairs if pair.head == head), key=lambda pair: -pair.most):
            if best is not None and best.strength >= pair.most:
                break
            best = pair if best is None or pair.strength > best.strength else best
        return best


def induction_heads(
    model: Model,
    *,
    length: int | None = None,
    runs: int = 8,
    prefix: Sequence[int] = (),
    seed: int = 0,
    start: Tally | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> Induction:
    """Return a model's induction heads, from its weights and from random tokens said twice.

    Arguments as in `head_kinds`. Elhage et al. 2021, "Induction Heads". An empty list means that no head
    passes the thresholds, `SHARE` and `head_kinds.THRESHOLD`.

    >>> import pathexp as px
    >>> found = induction_heads(px.load("attn-2l"))
    >>> found.from_weights
    ('L1H0', 'L1H2', 'L1H3', 'L1H5', 'L1H7')
    >>> found.agree
    True
    """
    check_model(model, "induction_heads")
    kinds = head_kinds(
        model,
        length=length,
        runs=runs,
        prefix=prefix,
        seed=seed,
        start=start,
        seconds=seconds,
        progress=progress,
    )
    return Induction(induction_pairs(model), kinds)
