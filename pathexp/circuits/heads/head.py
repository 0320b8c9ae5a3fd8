"""One head as two circuits: where it looks (QK) and what it brings (OV), in the stream and between tokens."""

from __future__ import annotations

from dataclasses import dataclass

from ...algebra import Dense, LinearMap, Space, compose
from ...arguments import expect, whole
from ...errors import FreezeError
from ...graph.form import ScoreForm, score_form
from ...graph.reading import head_place
from ...model import Model
from ...model.model import check_model
from ..token_space import HEAD, MODEL, embedding, reading, require_token_space, unembedding, writing


@dataclass(frozen=True, eq=False)
class Head:
    """One attention head of a model, its circuits as factored maps of rank at most d_head.

    `OV` and `QK` are the bare products of weights on the stream, (d_model, d_model); the token tables hold the
    gains of the norms on the way as well, and neither holds biases or scales. A QK entry times the attention
    scale is a score. Elhage et al. 2021, "Splitting Attention Head terms into Circuits".

    >>> import pathexp as px
    >>> head = px.head(px.random_model(layers=2, heads=3, positions="none"), "L1H2")
    >>> head.OV
    W_O_L1H2 · W_V_L1H2 : model(24) -> model(24), rank <= 5
    >>> head.qk_table
    W_Eᵀ · W_Q_L1H2ᵀ · W_K_L1H2 · W_E : vocab(11) -> vocab(11), rank <= 5
    """

    model: Model
    layer: int
    index: int

    @property
    def label(self) -> str:
        """Such as "L1H2"."""
        return f"L{self.layer}H{self.index}"

    def __repr__(self) -> str:
        return f"Head({self.label} of {self.model!r})"

    # Weights -------------------------------------------------------------------------------------------

    @property
    def W_Q(self) -> LinearMap:
        """(d_head, d_model): what of the stream asks."""
        return self._reader("W_Q", self.index)

    @property
    def W_K(self) -> LinearMap:
        """(d_head, d_model): what of the stream is matched; shared by a group of heads under grouped queries."""
        return self._reader("W_K", self._kv)

    @property
    def W_V(self) -> LinearMap:
        """(d_head, d_model): what of the stream is moved; shared like W_K."""
        return self._reader("W_V", self._kv)

    @property
    def W_O(self) -> LinearMap:
        """(d_model, d_head): where to it is written."""
        array = self.model.weights.W_O[self.layer, self.index]
        return Dense(array, self._model_space, self._head_space, f"W_O_{self.label}")

    def _reader(self, name: str, index: int) -> Dense:
        array = getattr(self.model.weights, name)[self.layer, index]
        return Dense(array, self._head_space, self._model_space, f"{name}_{self.label}")

    @property
    def _kv(self) -> int:
        return self.model.config.kv_head(self.index)

    @property
    def _model_space(self) -> Space:
        return Space(MODEL, self.model.config.d_model)

    @property
    def _head_space(self) -> Space:
        return Space(HEAD, self.model.config.d_head)

    @property
    def form(self) -> ScoreForm:
        """How queries and keys of this head meet: scale, rotation, slope."""
        return score_form(self.model.config, self.index)

    # Circuits on the stream ----------------------------------------------------------------------------

    @property
    def OV(self) -> LinearMap:
        """W_O W_V, (d_model, d_model): what the head brings to where it looks from."""
        return compose(self.W_O, self.W_V)

    @property
    def QK(self) -> LinearMap:
        """W_Qᵀ W_K, (d_model at the query, d_model at the key).

        Raises FreezeError under rotary positions, where there is one form per distance: use `QK_at`.
        """
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
        return compose(
            unembedding(self.model), *writing(self.model, self.layer), self.OV, *reading(self.model, self.layer),
            embedding(self.model),
        )  # fmt: skip

    @property
    def qk_table(self) -> LinearMap:
        """W_Eᵀ W_QK W_E, (destination token, source token): how much a token draws another's attention.

        Raises FreezeError under rotary positions: use `qk_table_at`.
        """
        self._refuse_rotary("qk_table")
        return self.qk_table_at(0)

    def qk_table_at(self, distance: int) -> LinearMap:
        """The table for a source `distance` positions before its destination, (destination, source)."""
        require_token_space(self.model.config)
        read = compose(*reading(self.model, self.layer), embedding(self.model))
        return compose(read.T, self.QK_at(distance), read)

    def _refuse_rotary(self, what: str) -> None:
        if self.form.by_distance:
            raise FreezeError(
                f"{what} of {self.label}: under rotary positions a head has one such form per distance between "
                f"query and key, and none without; use {what}_at(distance), or --distance in a command"
            )


def head(model: Model, label: str) -> Head:
    """Return one head of a model as its two circuits.

    Elhage et al. 2021, "Attention Heads are Independent and Additive". Raises GraphError if there is none.

    >>> import pathexp as px
    >>> head(px.induction_model(), "L1H0").ov_table.shape
    (8, 8)
    """
    check_model(model, "head")
    return Head(model, *head_place(model.config, label))
