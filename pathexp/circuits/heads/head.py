"""One head as two circuits: where it attends (QK) and what it writes (OV), in the stream and between tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...algebra import LinearMap, compose
from ...answer import Answer, Note, Part
from ...arguments import expect, one_of, whole
from ...errors import FreezeError
from ...expansion.header import model_facts
from ...graph.factors import Factors, Side
from ...graph.form import ScoreForm, score_form
from ...graph.from_weights import (
    embedding,
    has_token_space,
    reading,
    require_token_space,
    unembedding,
    writing,
)
from ...graph.latents import refuse_keys
from ...graph.reading import head_place
from ...labels import head_label
from ...model import Model
from ...model.model import check_model
from .circuit import Circuit, circuit_parts


@dataclass(frozen=True, eq=False, repr=False)
class Head(Answer):
    """One attention head of a model, its circuits as factored maps of rank at most d_head; an answer that can act.

    `OV` and `QK` are the bare products of weights on the stream, (d_model, d_model); the token tables hold the
    gains of the norms on the way as well, and neither holds biases or scales. A QK entry times the attention
    scale is a score. Elhage et al. 2021, "Splitting Attention Head terms into Query-Key and
    Output-Value Circuits".

    >>> import pathexp as px
    >>> head = px.head(px.random_model(layers=2, heads=3, positions="none"), "L1H2")
    >>> head.OV
    W_O_L1H2 · W_V_L1H2 : model(24) -> model(24), rank <= 5
    >>> head.qk_table
    W_Eᵀ · W_Q_L1H2ᵀ · W_K_L1H2 · W_E : vocab(11) -> vocab(11), rank <= 5
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    layer: int
    index: int
    distance: int | None = None
    """How far the key is before the query, where the printed QK circuit depends on it (rotary positions)."""
    k: int = 8
    """How many entries of each token table are printed."""

    @property
    def label(self) -> str:
        """Such as "L1H2"."""
        return head_label(self.layer, self.index)

    def headline(self) -> str:
        """Return which head this is."""
        return f"{self.label} as two circuits"

    def parts(self) -> Iterator[Part]:
        """Yield sizes and spectra of both circuits, and the largest entries of their token tables."""
        return head_parts(self.model, [self], self.k)

    # Weights -------------------------------------------------------------------------------------------

    @property
    def W_Q(self) -> LinearMap:
        """(d_head, d_model): what queries read of the stream."""
        return self._weights.w_read("Q", self.layer, self.index).numbers()

    @property
    def W_K(self) -> LinearMap:
        """(d_head, d_model): what keys read of the stream; shared by a group of heads under grouped queries.

        Raises GraphError for latent attention, where keys are no one map of weights.
        """
        refuse_keys(self.model.config, self.label)
        return self._weights.w_read("K", self.layer, self.index).numbers()

    @property
    def W_V(self) -> LinearMap:
        """(d_head or d_value, d_model): what values read of the stream; shared like W_K."""
        return self._weights.w_read("V", self.layer, self.index).numbers()

    @property
    def W_O(self) -> LinearMap:
        """(d_model, d_head or d_value): where the head writes."""
        return self._weights.w_o(self.layer, self.index).numbers()

    def reads(self, side: Side) -> LinearMap:
        """Return what queries ("Q"), keys ("K") or values ("V") read, norm gains included, (d_head, d_model)."""
        expect("reads", side=(side, one_of("Q", "K", "V")))
        if side == "K":
            refuse_keys(self.model.config, self.label)
        weight = self._weights.w_read(side, self.layer, self.index).numbers()
        return compose(weight, *reading(self.model, self.layer))

    @property
    def writes(self) -> LinearMap:
        """Where the head writes, norm gains and multipliers included, (d_model, d_head)."""
        return compose(*writing(self.model, self.layer), self.W_O)

    @property
    def _weights(self) -> Factors:
        return Factors.of_weights(self.model)

    @property
    def form(self) -> ScoreForm:
        """How queries and keys of this head meet: scale, rotation, slope."""
        return score_form(self.model.config, self.layer, self.index)

    # Circuits on the stream ----------------------------------------------------------------------------

    @property
    def OV(self) -> LinearMap:
        """W_O W_V, (d_model, d_model): what the head writes at a query that attends to a position."""
        return self._weights.w_ov(self.layer, self.index).numbers()

    @property
    def QK(self) -> LinearMap:
        """W_Qᵀ W_K, (d_model at the query, d_model at the key).

        Raises FreezeError under rotary positions, where there is one form per distance: use `QK_at`.
        """
        refuse_keys(self.model.config, self.label)
        self._refuse_rotary("QK")
        return compose(self.W_Q.T, self.W_K)

    def QK_at(self, distance: int) -> LinearMap:
        """W_Qᵀ R W_K for a key `distance` positions before its query; without rotary the same for all.

        Raises PathexpError for a distance that is no whole number, or a key after its query in a causal model.
        """
        expect("QK_at", distance=(distance, whole(0 if self.model.config.causal else None)))
        turn = self.form.rotation(distance)
        return compose(self.W_Q.T, *([] if turn is None else [turn.numbers()]), self.W_K)

    # Circuits between tokens ---------------------------------------------------------------------------

    @property
    def ov_table(self) -> LinearMap:
        """W_U W_OV W_E, (output token, source token): what attending to a token adds to each logit."""
        require_token_space(self.model.config)
        return compose(unembedding(self.model), self.writes, self.reads("V"), embedding(self.model))

    @property
    def qk_table(self) -> LinearMap:
        """W_Eᵀ W_QK W_E, (destination token, source token): how much a destination attends to a source.

        Raises FreezeError under rotary positions: use `qk_table_at`.
        """
        refuse_keys(self.model.config, self.label)
        self._refuse_rotary("qk_table")
        return self.qk_table_at(0)

    def qk_table_at(self, distance: int) -> LinearMap:
        """The table for a source `distance` positions before its destination, (destination, source)."""
        require_token_space(self.model.config)
        read = compose(*reading(self.model, self.layer), embedding(self.model))
        return compose(read.T, self.QK_at(distance), read)

    def circuits(self) -> Iterator[Circuit]:
        """Yield what can be shown of QK and OV: nothing of a post-norm model, no QK without its distance."""
        if has_token_space(self.model.config):
            names = self.model.token_string, self.model.output_string
            if self.model.config.latent is None and (self.distance is not None or not self.form.by_distance):
                stream, table = self.QK_at(self.distance or 0), self.qk_table_at(self.distance or 0)
                yield Circuit(self.label, "QK", stream, table, self.form.scale, *names)
            yield Circuit(self.label, "OV", self.OV, self.ov_table, 1.0, *names)

    def _refuse_rotary(self, what: str) -> None:
        if self.form.by_distance:
            raise FreezeError(
                f"{what} of {self.label}: under rotary positions a head has one such form per distance between "
                f"query and key, and none without; use {what}_at(distance), or --distance in a command"
            )


LATENT = (
    "latent attention: no QK circuit of weights alone, since the scale of a run's norm stands in part of the keys; "
    "ask for scores on a run"
)


def every_head(model: Model) -> Iterator[Head]:
    """Iterate over the heads of a model, layer by layer."""
    for layer, index in np.ndindex(model.config.n_layers, model.config.n_heads):
        yield Head(model, layer, index)


def head_parts(model: Model, heads: Sequence[Head], k: int) -> Iterator[Part]:
    """Yield the circuits of heads of one model side by side, and why some cannot be shown."""
    yield model_facts(model)
    shown = [circuit for head in heads for circuit in head.circuits()]
    yield from circuit_parts(shown, k)
    if not has_token_space(model.config):
        yield Note("token tables cannot be read off the weights of a post-norm model")
    elif model.config.latent is not None:
        yield Note(LATENT)
    elif len(shown) < 2 * len(heads):
        yield Note("under rotary positions there is one QK circuit per distance: give distance (--distance)")


@dataclass(frozen=True, eq=False, repr=False)
class SideBySide(Answer):
    """Several heads of one model, their circuits side by side."""

    live: ClassVar[frozenset[str]] = frozenset({"model", "heads"})

    model: Model
    heads: tuple[Head, ...]
    k: int

    def headline(self) -> str:
        """Return which heads these are."""
        return f"{', '.join(head.label for head in self.heads)} as two circuits each"

    def parts(self) -> Iterator[Part]:
        """Yield sizes and spectra of all circuits, and the largest entries of their token tables."""
        return head_parts(self.model, self.heads, self.k)


def side_by_side(
    model: Model, *, head: Sequence[str], distance: int | None = None, k: int = 8
) -> Head | SideBySide:
    """Return one head of a model, or several side by side, by their labels; options as in `px.head`."""
    found = tuple(head_of(model, label, distance, k) for label in head)
    return found[0] if len(found) == 1 else SideBySide(model, found, k)


def head_of(model: Model, label: str, distance: int | None = None, k: int = 8) -> Head:
    """Return a head by its label; see `head`."""
    check_model(model, "head")
    expect("head", distance=(distance, whole().or_none), k=(k, whole(1)))
    return Head(model, *head_place(model.config, label), distance, k)


def head(model: Model, label: str, *, distance: int | None = None, k: int = 8) -> Head:
    """Return one head of a model as its two circuits.

    Parameters
    ----------
    distance: how far the key is before the query, for what is printed of QK under rotary positions.
    k: how many entries of each token table are printed.

    Elhage et al. 2021, "Attention Heads are Independent and Additive". Raises GraphError if there is none.

    >>> import pathexp as px
    >>> head(px.induction_model(), "L1H0").ov_table.shape
    (8, 8)
    """
    return head_of(model, label, distance, k)
