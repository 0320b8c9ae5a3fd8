"""Composition scores: how much of what one component writes another reads, beside what chance would give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ..arguments import AMOUNT, expect, one_of
from ..model import Model
from ..model.model import check_model
from .evened import evened
from .gram import Array, Flags, meet
from .head_sides import HeadSides
from .ports import Norms, Ports

Kind: TypeAlias = Literal["q", "k", "v"]
_SIDES = one_of("q", "k", "v")


class Composition(NamedTuple):
    """One pair: reader such as "L1H0.Q", writer, score, and z, its standard deviations above chance."""

    reader: str
    writer: str
    score: float
    z: float


@dataclass(frozen=True, eq=False, repr=False)
class CompositionScores:
    """Composition of all heads with all earlier heads.

    q, k, v: (reader layer, reader head, writer layer, writer head), each in [0, 1]; NaN where the reader's
    layer is not after the writer's, and where a map is zero.
    z: by "q", "k", "v", the standard deviations by which score² exceeds chance, of the same shape.
    baseline: the root mean square score of the same two maps with the stream between them turned at random,
    1/√d_model, exactly and whatever the maps.
    undefined: labels of maps that are zero, so that scores are missing.
    """

    q: Array
    k: Array
    v: Array
    z: Mapping[Kind, Array]
    baseline: float
    norms: Norms
    distance: int
    undefined: tuple[str, ...]

    def __repr__(self) -> str:
        layers, heads = self.q.shape[:2]
        return (
            f"<CompositionScores: {layers} × {heads} heads, norms {self.norms}, baseline {self.baseline:.4f}>"
        )

    def of(self, kind: Kind) -> Array:
        """Return q, k or v by name. Raises PathexpError for another."""
        expect("of", kind=(kind, _SIDES))
        return {"q": self.q, "k": self.k, "v": self.v}[kind]

    def top(self, count: int = 10, kind: Kind | None = None) -> tuple[Composition, ...]:
        """Return the pairs of largest score, of one kind or of all three, equal ones by name.

        Raises PathexpError for a count that is no whole number from 1 up, or another kind.
        """
        expect("top", count=(count, AMOUNT), kind=(kind, _SIDES.or_none))
        found = [
            Composition(
                f"L{a}H{b}.{name.upper()}",
                f"L{c}H{d}",
                float(self.of(name)[a, b, c, d]),
                float(self.z[name][a, b, c, d]),
            )
            for name in (("q", "k", "v") if kind is None else (kind,))
            for a, b, c, d in np.argwhere(np.isfinite(self.of(name)))
        ]
        return tuple(sorted(found, key=lambda pair: (-pair.score, pair.reader, pair.writer))[:count])


def composition_scores(model: Model, *, norms: Norms = "folded", distance: int = 0) -> CompositionScores:
    """Return Q-, K- and V-composition of all pairs of heads: ‖W_A W_B‖ / (‖W_A‖ ‖W_B‖), Frobenius norms.

    W_B is the writer's W_OV; W_A is W_QKᵀ for Q-, W_QK for K- and W_OV for V-composition.
    Elhage et al. 2021, "Composition of Heads", footnote on measuring composition.

    Parameters
    ----------
    norms: "folded" takes the gains and centerings of norms into what reads them, "raw" leaves them out.
    distance: under rotary positions W_QK depends on how many positions the key stands before the query.

    Two maps of any shape score 1/√d_model in the root mean square if the stream between them is turned by a
    random rotation: that is the baseline, and z says how far from it a pair is. Costs O(heads · d_model² ·
    (d_head + heads)), through blocks of Gram matrices; memory O(heads · d_model · d_head).
    Raises PathexpError for "folded" norms that stand on the stream (post-norm).

    >>> import pathexp as px
    >>> scores = px.composition_scores(px.induction_model(d_vocab=6, n_ctx=8))
    >>> [(pair.reader, pair.writer) for pair in scores.top() if pair.score > 0]  # the induction circuit
    [('L1H0.K', 'L0H0')]
    """
    check_model(model, "composition_scores")
    expect("composition_scores", norms=(norms, one_of("folded", "raw")))
    sides, c = HeadSides(Ports(evened(model), norms), distance), model.config
    shape = (3, c.n_layers, c.n_heads, c.n_layers, c.n_heads)
    score, z = np.full(shape, np.nan), np.full(shape, np.nan)
    zero: tuple[str, ...] = ()
    if c.n_layers > 1:  # nothing stands before the first layer, and no head reads the last
        readers = [sides.reader(kind).part(slice(c.n_heads, None)) for kind in ("Q", "K", "V")]
        writer = sides.writer().part(slice(0, -c.n_heads))
        later = _later(c.n_layers, c.n_heads)[c.n_heads :, : -c.n_heads]
        met = meet(readers, [writer], np.concatenate([later] * 3))
        inner = (3, c.n_layers - 1, c.n_heads, c.n_layers - 1, c.n_heads)
        score[:, 1:, :, :-1], z[:, 1:, :, :-1] = met.score.reshape(inner), met.z.reshape(inner)
        zero = met.zero
    excess: dict[Kind, Array] = {"q": z[0], "k": z[1], "v": z[2]}
    return CompositionScores(score[0], score[1], score[2], excess, c.d_model**-0.5, norms, distance, zero)


def _later(layers: int, heads: int) -> Flags:
    """Which heads stand in a later layer than which, (readers, writers)."""
    layer = np.repeat(np.arange(layers), heads)
    return np.asarray(layer[:, None] > layer[None, :])
