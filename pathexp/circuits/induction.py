"""Induction heads: found from the weights, confirmed on random tokens said twice, explained by their scores.

An induction head looks for the place after an earlier copy of the present token, and copies what it finds there:
its keys are made of what a previous-token head wrote (K-composition), W_Eᵀ W_QK W_OV_prev W_E matches a token with
itself, and W_U W_OV W_E copies. Elhage et al. 2021, "Induction Heads", "How Induction Heads Work".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ..algebra import Dense, LinearMap, Space, compose
from ..expansion import ScoreExpansion, expand_score
from ..graph import Array
from ..model import Config, Model, Weights
from .copying import Spectrum, heads, row_maximum_on_diagonal, spectrum
from .head_kinds import INDUCTION, HeadKinds, Repeated, head_kinds, repeated_runs
from .heads import Head
from .token_space import HEAD, embedding, reading, require_token_space, writing

SIGN, SHARE = 0.5, 0.5
"""From which spectrum scores, and which shares of attention and of tokens, the weights count as evidence."""


@dataclass(frozen=True)
class InductionPair:
    """What the weights say of one head reading the keys that another head made.

    `previous` is the attention that the earlier head pays to the token before when all tokens are alike;
    `matching` the spectrum of W_Eᵀ W_QK W_OV_before W_E, (token that looks, token that came before the place
    looked at), and `on_diagonal` the share of tokens that match themselves best; `copying` the spectrum of
    W_U W_OV W_E; `composition` the K-composition score ‖W_QK W_OV_before‖ / (‖W_QK‖ ‖W_OV_before‖).
    """

    head: str
    before: str
    previous: float
    matching: Spectrum
    on_diagonal: float
    copying: Spectrum
    composition: float

    @property
    def is_induction(self) -> bool:
        """Whether all four say so: attention one back, positive spectra, tokens that match themselves."""
        signs = all(
            score is not None and score >= SIGN for score in (self.matching.score, self.copying.score)
        )
        return signs and min(self.previous, self.on_diagonal) >= SHARE

    @property
    def strength(self) -> float:
        """The weakest of the four: attention one back, matching and its diagonal, copying; from -1 to 1."""
        return min(self.previous, self.matching.score or 0.0, self.on_diagonal, self.copying.score or 0.0)


def induction_pairs(model: Model, positions: int = 64) -> tuple[InductionPair, ...]:
    """Return, for every head and every earlier head, what the weights say of the two as an induction circuit.

    From weights alone: no text is run. The tables read the embedding, not what MLPs make of it, so they say
    most about models of two or three layers. Under rotary positions the form is averaged over distances from 1
    to `positions`. Elhage et al. 2021, "Mechanistic Details of Induction Heads".

    O(pairs of heads · d_vocab · d_head²). Raises PathexpError for post-norm models.

    >>> import pathexp as px
    >>> [(pair.head, pair.before, pair.is_induction) for pair in induction_pairs(px.induction_model())]
    [('L1H0', 'L0H0', True)]
    """
    require_token_space(model.config)
    reader = _Weights(model, min(positions, model.config.n_ctx))
    every = list(heads(model))
    return tuple(reader.pair(late, early) for late in every for early in every if early.layer < late.layer)


class _Weights:
    """The circuits between heads of one model, each made once."""

    def __init__(self, model: Model, positions: int) -> None:
        self.model, self.positions = model, positions
        self.embedding = embedding(model)
        self.copying = cache(lambda head: spectrum(head.ov_table))
        self.patterns = cache(lambda layer: positional_patterns(model, layer, positions))

    def pair(self, late: Head, early: Head) -> InductionPair:
        qk = self.form(late)
        written = compose(*writing(self.model, early.layer), early.OV, *reading(self.model, early.layer))
        read = compose(*reading(self.model, late.layer), written)
        query = compose(*reading(self.model, late.layer), self.embedding)
        table = compose(query.T, qk, read, self.embedding)
        return InductionPair(
            head=late.label,
            before=early.label,
            previous=previous_token_share(self.patterns(early.layer)[early.index]),
            matching=spectrum(table),
            on_diagonal=row_maximum_on_diagonal(table),
            copying=self.copying(late),
            composition=_ratio(qk, read),
        )

    def form(self, late: Head) -> LinearMap:
        """W_QK, under rotary its mean over distances."""
        if not late.form.by_distance:
            return late.QK
        turns = [late.form.rotation(distance) for distance in range(1, self.positions + 1)]
        mean = np.mean([turn.numbers().dense() for turn in turns if turn is not None], axis=0)
        space = Space(HEAD, self.model.config.d_head)
        return compose(late.W_Q.T, Dense(mean, space, space, "R_mean"), late.W_K)


def _ratio(reader: LinearMap, writer: LinearMap) -> float:
    sizes = reader.norm() * writer.norm()
    return compose(reader, writer).norm() / sizes if sizes else 0.0


def positional_patterns(model: Model, layer: int, positions: int) -> Array:
    """Return the patterns of a layer's heads by position alone, (H, positions, positions).

    They are those of a text of one token said over and over whose embedding is the mean of all tokens', read by
    the layer straight from the embedding. From weights alone.
    """
    w = model.weights
    config = replace(
        model.config, n_layers=1, d_vocab=1, d_mlp=0, gated=False, parallel=None, tied=False,
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
        """The strongest pair of a head with an earlier one, or None in the first layer."""
        pairs = [pair for pair in self.pairs if pair.head == head]
        return max(pairs, key=lambda pair: pair.strength) if pairs else None


def induction_heads(
    model: Model, *, length: int | None = None, runs: int = 8, prefix: Sequence[int] = (), seed: int = 0
) -> Induction:
    """Return a model's induction heads, from its weights and from random tokens said twice.

    Arguments as in `repeated_runs`. Elhage et al. 2021, "Induction Heads". An empty list means that no head
    passes the thresholds `SIGN` and `SHARE`, or `head_kinds.THRESHOLD`.

    >>> import pathexp as px
    >>> found = induction_heads(px.load("attn-2l"))
    >>> found.from_weights
    ('L1H0', 'L1H2', 'L1H3', 'L1H5', 'L1H7')
    >>> found.agree
    True
    """
    return Induction(
        induction_pairs(model), head_kinds(model, length=length, runs=runs, prefix=prefix, seed=seed)
    )


@dataclass(frozen=True)
class KeyPath:
    """How much of a head's looking at the induction position comes by keys that an earlier head made.

    Means over queries of how far the induction position's score stands above the mean of the other keys' (the
    softmax sees nothing else): `advantage` in all, `through` by pairs of paths whose key path passes `before`,
    `by_kind` of term.
    """

    head: str
    before: str
    advantage: float
    through: float
    by_kind: dict[str, float]
    queries: int

    @property
    def share(self) -> float:
        """The share of the advantage that keys through the earlier head hold."""
        return self.through / self.advantage


def explain_induction(
    model: Model,
    head: str,
    before: str,
    *,
    length: int | None = None,
    runs: int = 2,
    prefix: Sequence[int] = (),
    seed: int = 0,
    queries: int = 8,
) -> KeyPath:
    """Return what share of a head's induction score comes by keys that an earlier head made.

    The score of the induction position is expanded over pairs of paths for the last `queries` positions of
    `runs` texts of random tokens said twice. Elhage et al. 2021, "Path Expansion of Attention Scores QK Circuit".

    >>> import pathexp as px
    >>> round(explain_induction(px.induction_model(), "L1H0", "L0H0").share, 2)
    0.84
    """
    texts = repeated_runs(model, length=length, runs=runs, prefix=prefix, seed=seed)
    found = [_explained(terms, before) for text in texts for terms in _scores(text, head, queries)]
    kinds = {kind: float(np.mean([each[2][kind] for each in found])) for kind in found[0][2]}
    whole, through = (float(np.mean([each[i] for each in found])) for i in (0, 1))
    return KeyPath(head, before, whole, through, kinds, len(found))


def _scores(text: Repeated, head: str, queries: int) -> Iterator[ScoreExpansion]:
    for query in text.second[-queries:]:
        yield expand_score(text.trace, head, query, text.key(query))


def _explained(terms: ScoreExpansion, before: str) -> tuple[float, float, dict[str, float]]:
    through = terms.where(key=f"S .* {before} .* K")
    by_kind = {kind: terms.pair.advantage(row) for kind, row in terms.rows_by_kind().items()}
    return terms.advantage(), through.advantage(), by_kind
