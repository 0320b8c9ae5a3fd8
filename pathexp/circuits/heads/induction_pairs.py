"""Induction circuits in the weights: which heads read, through their keys, what a previous-token head writes.

An induction head attends to the position after an earlier copy of the current token, and copies the token there: its
keys read what a previous-token head wrote (K-composition), W_Eᵀ W_QK W_OV_prev W_E matches a token with itself, and
W_U W_OV W_E copies. Elhage et al. 2021, "How Induction Heads Work", "Checking the Mechanistic Theory".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from ...algebra import Dense, Identity, LinearMap, Space, compose
from ...algebra.operations import wide
from ...arguments import expect, whole
from ...graph.factors import SIDES
from ...graph.from_weights import embedding
from ...graph.latents import refuse_keys
from ...labels import head_label
from ...model import Model
from ...model.model import check_model
from ...workers import in_turn, own_workers
from .copying import ov_spectrum
from .diagonal import WHOLE
from .head import Head, every_head
from .positional_patterns import positional_patterns, previous_token_share
from .spectrum import Spectrum, row_maximum_on_diagonal, turned_spectrum
from .token_grams import token_grams

SHARE = 0.5
"""From which spectrum scores, and which shares of attention and of tokens, the weights count as evidence."""


@dataclass(frozen=True, eq=False)
class InductionPair:
    """Two heads as an induction circuit: a head whose keys read what an earlier head wrote.

    `previous` is the attention that the earlier head pays to the token before when all tokens are alike;
    `matching` the spectrum of W_Eᵀ W_QK W_OV_prev W_E, (token at the query, token before the attended
    position), and `on_diagonal` the share of tokens whose best match is themselves; `copying` the spectrum of
    W_U W_OV W_E.
    """

    late: Head
    early: Head
    previous: float
    copying: Spectrum
    weights: _Weights

    @property
    def head(self) -> str:
        """The label of the later head."""
        return self.late.label

    @property
    def previous_head(self) -> str:
        """The label of the earlier head."""
        return self.early.label

    @property
    def form(self) -> LinearMap:
        """What stands between queries and keys, (d_head, d_head): under rotary positions its mean over distances."""
        return self.weights.form(self.late)

    @cached_property
    def matching(self) -> Spectrum:
        """The spectrum of W_Eᵀ W_QK W_OV_prev W_E. O(d_model d_head²)."""
        return self.weights.matching(self.late, self.early)

    @cached_property
    def table(self) -> LinearMap:
        """W_Eᵀ W_QK W_OV_prev W_E, factored."""
        tokens = embedding(self.late.model)
        inner = compose(self.late.reads("K"), self.early.writes, self.early.reads("V"), tokens)
        return compose((self.late.reads("Q") @ tokens).T, self.form, inner)

    @cached_property
    def on_diagonal(self) -> float:
        """The share of tokens whose best match is themselves, of all of them: up to O(d_vocab² d_head)."""
        return row_maximum_on_diagonal(self.table)

    @property
    def shown_on_diagonal(self) -> float | None:
        """`on_diagonal`; None where the vocabulary is large and the pair is no induction circuit whatever it is."""
        wanted = self.late.model.config.d_vocab <= WHOLE or self.strength >= SHARE
        return self.on_diagonal if wanted else None

    @property
    def strength(self) -> float:
        """The weakest of the three: attention one back, matching, copying; from -1 to 1."""
        return min(self.most, self.matching.score or 0.0)

    @cached_property
    def most(self) -> float:
        """What the strength can be at most, whatever the matching: the weaker of the other two."""
        return min(self.previous, self.copying.score or 0.0)

    @property
    def is_induction(self) -> bool:
        """Whether all are at least `SHARE`: attention one back, both spectra, and tokens that match themselves best."""
        return self.most >= SHARE and self.strength >= SHARE and self.on_diagonal >= SHARE


def induction_pairs(model: Model, positions: int = 64) -> tuple[InductionPair, ...]:
    """Return every head with every earlier head, measured as an induction circuit.

    From weights alone: no text is run. The tables ignore what MLPs do to the embedding, so trust them in models
    of two or three layers. Under rotary positions the form is averaged over distances from 1
    to `positions`. Raises GraphError for latent attention, whose keys are no map of weights. Elhage et al. 2021, "How Induction Heads Work", "Checking the Mechanistic Theory".

    O(d_vocab d_model²) once, O(d_model d_head²) for each pair whose matching is asked for. Raises PathexpError
    for post-norm models.

    >>> import pathexp as px
    >>> [(pair.head, pair.previous_head, pair.is_induction) for pair in induction_pairs(px.induction_model())]
    [('L1H0', 'L0H0', True)]
    """
    check_model(model, "induction_pairs")
    expect("induction_pairs", positions=(positions, whole(2)))
    refuse_keys(model.config, head_label(max(model.config.n_layers - 1, 0), 0))
    weights = _Weights(model, min(positions, model.config.n_ctx))
    every = list(every_head(model))
    with own_workers():  # spectra of d_head numbers
        for _ in in_turn(weights.copying, every):
            pass
        return tuple(
            weights.pair(late, early) for late in every for early in every if early.layer < late.layer
        )


class _Weights:
    """What pairs of heads of one model have in common, each made once."""

    def __init__(self, model: Model, positions: int) -> None:
        self.model, self.positions = model, positions
        self.grams = token_grams(model)
        self.copying = cache(ov_spectrum)
        self.patterns = cache(lambda layer: positional_patterns(model, layer, positions))
        self.queries, self.keys, self.values = (
            cache(lambda head, side=side: wide(head.reads(side))) for side in SIDES
        )
        self.written = cache(lambda head: wide(head.writes))
        self.matched = cache(lambda head: self.grams.matching @ self.queries(head).T)  # (d_model, d_head)
        self.forms = cache(lambda layer: mean_form(Head(model, layer, 0), positions))

    def form(self, head: Head) -> LinearMap:
        """What stands between queries and keys, the same for all heads of a layer."""
        return self.forms(head.layer)

    def pair(self, late: Head, early: Head) -> InductionPair:
        return InductionPair(
            late=late,
            early=early,
            previous=previous_token_share(self.patterns(early.layer)[early.index]),
            copying=self.copying(late),
            weights=self,
        )

    def matching(self, late: Head, early: Head) -> Spectrum:
        """The spectrum of W_Eᵀ W_QK W_OV_prev W_E, from its rotation by the queries, (d_head, d_head)."""
        inner = self.keys(late) @ self.written(early)
        turned = self.form(late).dense() @ inner @ (self.values(early) @ self.matched(late))
        sizes = (self.keys(late), self.written(early), self.values(early), self.queries(late))
        scale = self.grams.in_size**2 * float(np.prod([np.linalg.norm(each) for each in sizes]))
        return turned_spectrum(turned, scale, self.model.config.d_vocab)


def mean_form(head: Head, positions: int) -> LinearMap:
    """Return what stands between a head's queries and keys, (d_head, d_head), under rotary its mean over distances.

    Distances from 1 to `positions`; without rotary positions it is the identity.
    """
    space = Space("head", head.model.config.d_head)
    if not head.form.by_distance:
        return Identity(space)
    turns = [head.form.rotation(distance) for distance in range(1, positions + 1)]
    mean = np.mean([turn.numbers().dense() for turn in turns if turn is not None], axis=0)
    return Dense(mean, space, space, "R_mean")
