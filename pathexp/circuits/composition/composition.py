"""Composition scores: how much of what one component writes another reads, versus a random baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from ...answer import Answer, Facts, Figure, Note, Part, Table, columns
from ...arguments import TEXT, expect, one_of, sequence_of
from ...errors import PathError
from ...expansion.header import counted, model_facts
from ...graph.ports import Norms, Ports
from ...graph.rescaled import rescaled
from ...model import Model
from ...model.model import check_model
from .composition_path import PathComposition, path_composition
from .gram import Flags, Met, meet
from .head_sides import HeadSides
from .partners import Partners, partners
from .sides import Array

Port: TypeAlias = Literal["q", "k", "v"]
_PORTS = one_of("q", "k", "v")
_PORTS_OF: Mapping[tuple[str, ...], tuple[Port, ...]] = {("Q", "K", "V"): ("q", "k", "v"), ("V",): ("v",)}
_PAIR = sequence_of(TEXT, "the labels of a reader and a writer", 2)


@dataclass(frozen=True, eq=False, repr=False)
class Composition(Answer):
    """Composition of all heads with all earlier heads, and of every other reader with every other writer.

    q, k, v: (reader layer, reader head, writer layer, writer head), each in [0, 1]; NaN where the reader's
    layer is not after the writer's, and where a map is zero; q and k of latent attention are NaN, since W_QK is no map of weights.
    z: by "q", "k", "v", the standard deviations by which score² exceeds the random baseline, of the same shape.
    baseline: the root mean square score of the same two maps with the stream between them randomly rotated,
    1/√d_model, exactly and whatever the maps.
    path: the composition along the path that was asked for, or None.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    q: Array
    k: Array
    v: Array
    z: Mapping[Port, Array]
    baseline: float
    norms: Norms
    distance: int
    path: PathComposition | None

    @cached_property
    def partners(self) -> Partners:
        """The scores of all readers with all writers: embedding, positions, MLPs and unembedding too.

        Computed when first asked for, once O(d_vocab · d_model²) and otherwise as the scores of heads.
        """
        heads = HeadSides(Ports(rescaled(self.model), self.norms), self.distance)
        c = self.model.config
        kinds = heads.kinds
        shape = len(kinds) * c.n_layers * c.n_heads, c.n_layers * c.n_heads
        score = np.stack([self.of(kind) for kind in _PORTS_OF[kinds]]).reshape(shape)
        z = np.stack([self.z[kind] for kind in _PORTS_OF[kinds]]).reshape(shape)
        return partners(heads, Met(score, z, ()))

    @property
    def undefined(self) -> tuple[str, ...]:
        """The labels of maps that are zero, so that scores are missing."""
        return self.partners.met.zero

    def of(self, port: Port) -> Array:
        """Return q, k or v by name. Raises PathexpError for another."""
        expect("of", port=(port, _PORTS))
        return {"q": self.q, "k": self.k, "v": self.v}[port]

    def __getitem__(self, pair: tuple[str, str]) -> float:
        """Return the score of (reader, writer), such as ("L1H3.K", "L0H2").

        Raises PathexpError for anything but two labels, PathError for labels that are not there.
        """
        expect("__getitem__", pair=(pair, _PAIR))
        reader, writer = pair
        found = self.partners
        if reader not in found.readers or writer not in found.writers:
            raise PathError(
                f"no composition of reader {reader!r} with writer {writer!r}; readers are {found.readers[0]} … "
                f"{found.readers[-1]}, writers {found.writers[0]} … {found.writers[-1]}"
            )
        return float(found.met.score[found.readers.index(reader), found.writers.index(writer)])

    def headline(self) -> str:
        """Return how many pairs there are, and the baseline."""
        found = self.partners
        return (
            f"composition of {counted(int(np.isfinite(found.met.score).sum()), 'pair')}: "
            f"{counted(len(found.readers), 'reader')}, {counted(len(found.writers), 'writer')}, "
            f"norms {self.norms}, random baseline {self.baseline:.4f}"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the path, the pairs, what is undefined, and a heat map."""
        found = self.partners
        yield model_facts(self.model)
        yield Facts({"baseline": self.baseline, "norms": self.norms, "distance": self.distance})
        if self.path is not None:
            yield self.path.facts()
            yield Note(str(self.path))
        yield self._pairs()
        if self.model.config.latent is not None:
            yield Note(
                "V-composition alone: latent attention has no W_QK of weights; scores on a run: px.score"
            )
        if found.met.zero:
            yield Note(f"undefined, because these maps are zero: {', '.join(found.met.zero)}")
        same = "" if found.varies else "; none where every rotation gives the same score"
        yield Note(f"z: standard deviations of score² above that of a randomly rotated stream{same}")
        over = found.met.score / self.baseline - 1.0
        yield Figure(
            "heatmap", "composition", {"rows": found.readers, "columns": found.writers, "values": over},
            "score over the random baseline, minus 1: readers by writers",
        )  # fmt: skip

    def _pairs(self) -> Table:
        return Table(
            (
                columns.text("reader"), columns.text("port"), columns.text("writer"),
                columns.number("score", signed=False),
                columns.number("ratio", "× baseline", digits=2, signed=False), columns.number("z", digits=1),
            ),
            [
                (*reader, writer, score, score / self.baseline, z)
                for reader, writer, score, z in self.partners.ranked()
            ],
            name="pairs", key=("reader", "port", "writer"), value="score", shown=20,
        )  # fmt: skip


def composition(
    model: Model, *, norms: Norms = "folded", distance: int = 0, path: str | Sequence[str] | None = None
) -> Composition:
    """Return Q-, K- and V-composition of all pairs of heads: ‖W_A W_B‖ / (‖W_A‖ ‖W_B‖), Frobenius norms.

    W_B is the writer's W_OV; W_A is W_QKᵀ for Q-, W_QK for K- and W_OV for V-composition. Embedding, positions, MLPs
    and unembedding are partners in its rows, computed when rows are asked for. Elhage et al. 2021, "Analyzing a
    Two-Layer Model"; its figure was corrected later, for a bug had left out most composition that is not that of
    induction heads ("Correction: Attention Head Composition Diagram").

    Parameters
    ----------
    norms: "folded" takes the gains and centerings of norms into what reads them, "raw" leaves them out.
    distance: under rotary positions W_QK depends on how many positions the key is before the query.
    path: also the composition along this path, such as "L0H1 L1H2 U"; see `path_composition`.

    Two maps of any shape score 1/√d_model in the root mean square if the stream between them is randomly rotated:
    that is the baseline, and z is how far from it a pair is. Costs O(heads · d_model² · (d_head + heads)), through
    blocks of Gram matrices; memory O(heads · d_model · d_head).
    Raises PathexpError for "folded" norms that act on the stream (post-norm), PathError for what is not a path.

    >>> import pathexp as px
    >>> found = px.composition(px.induction_model(d_vocab=6, n_ctx=8))
    >>> heads = [row for row in found.records() if row["score"] > 0 and row["writer"] == "L0H0"]
    >>> [(row["reader"], row["port"]) for row in heads if row["reader"] == "L1H0"]  # the induction circuit
    [('L1H0', 'K')]
    """
    check_model(model, "composition")
    expect("composition", norms=(norms, one_of("folded", "raw")))
    along = None if path is None else path_composition(model, path, norms=norms)
    c, score, z = model.config, *_heads(HeadSides(Ports(rescaled(model), norms), distance))
    above: Mapping[Port, Array] = MappingProxyType({"q": z[0], "k": z[1], "v": z[2]})
    return Composition(
        model, score[0], score[1], score[2], above, c.d_model**-0.5, norms, distance, along
    )  # fmt: skip


def _heads(sides: HeadSides) -> tuple[Array, Array]:
    """Return the scores and z of all heads with all earlier ones, (3, layers, heads, layers, heads) each."""
    c = sides.ports.model.config
    shape = (3, c.n_layers, c.n_heads, c.n_layers, c.n_heads)
    score, z = np.full(shape, np.nan), np.full(shape, np.nan)
    if c.n_layers > 1:  # nothing writes before the first layer, and no head reads after the last
        kinds = sides.kinds
        readers = [sides.reader(kind).part(slice(c.n_heads, None)) for kind in kinds]
        writer = sides.writer().part(slice(0, -c.n_heads))
        later = _later(c.n_layers, c.n_heads)[c.n_heads :, : -c.n_heads]
        met = meet(readers, [writer], np.concatenate([later] * len(kinds)))
        inner = (len(kinds), c.n_layers - 1, c.n_heads, c.n_layers - 1, c.n_heads)
        here = slice(-len(kinds), None)  # values last
        score[here, 1:, :, :-1], z[here, 1:, :, :-1] = met.score.reshape(inner), met.z.reshape(inner)
    score.setflags(write=False)
    z.setflags(write=False)
    return score, z


def _later(layers: int, heads: int) -> Flags:
    """Return whether each head (rows) is in a later layer than each head (columns)."""
    layer = np.repeat(np.arange(layers), heads)
    return np.asarray(layer[:, None] > layer[None, :])
