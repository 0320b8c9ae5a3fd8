"""Composition beyond pairs of heads: along a path of several hops, and with embedding, MLPs and unembedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..algebra import LinearMap, compose, norm
from ..arguments import AMOUNT, TEXT, Kind, expect, one_of, sequence_of
from ..errors import PathError
from ..model import Model
from ..model.model import check_model
from .composition import Composition
from .evened import evened
from .gram import Array, Flags, Side, labels, meet, reduced
from .head_sides import HeadSides
from .ports import Norms, Place, Ports
from .virtual import check_route

LABELS = Kind(
    "a path as text or labels", lambda value: TEXT.holds(value) or sequence_of(TEXT, "").holds(value)
)

_PAIR = sequence_of(TEXT, "the labels of a reader and a writer", 2)


@dataclass(frozen=True)
class PathComposition:
    """The composition of a path: its score in [0, 1] (NaN where a map is zero) and what chance gives.

    baseline: the root mean square with the stream turned at random before every reader, d_model ** (-hops / 2).
    undefined: labels of maps that are zero.
    """

    path: tuple[str, ...]
    score: float
    baseline: float
    undefined: tuple[str, ...] = ()


def composition_score(model: Model, path: Sequence[str], *, norms: Norms = "folded") -> PathComposition:
    """Return the composition along a path, ‖W_n ⋯ W_2 W_1‖ / (‖W_n‖ ⋯ ‖W_2‖ ‖W_1‖), Frobenius norms.

    The path starts at what writes (`E`, `P`, `L0H1`, `L0M`), passes heads by their W_OV, and ends at what reads: a
    head by its W_OV (`L2H0`, `L2H0.V`), or by all that its queries or keys read, `L2H0.Q` (W_QKᵀ) or `L2H0.K` (W_QK), without any
    rotation; an MLP `L2M` (or `.gate`), or `U`. With two heads this is the score of that pair. Through factors
    of rank d_head; never a d_model × d_model product.

    Elhage et al. 2021, "Composition of Heads". Raises PathError for fewer than two stops or out of order, and
    GraphError for labels that are not there.

    >>> import pathexp as px
    >>> model = px.induction_model(d_vocab=6, n_ctx=8)
    >>> [px.composition_score(model, ("L0H0", f"L1H0.{side}")).score > 0 for side in "QKV"]
    [False, True, False]
    """
    check_model(model, "composition_score")
    expect(
        "composition_score",
        path=(path, LABELS),
        norms=(norms, one_of("folded", "raw")),
    )
    stops = tuple(path.split() if isinstance(path, str) else path)
    if len(stops) < 2:
        raise PathError(f"a composition needs a writer and a reader, found {' '.join(stops) or 'nothing'}")
    ports = Ports(evened(model), norms)
    maps = [ports.writer(stops[0]), *map(ports.through, stops[1:-1]), _whole_reader(ports, stops[-1])]
    check_route([ports.place(label) for label in stops])
    norms_apart = [norm(map) for map in maps]
    undefined = tuple(label for label, size in zip(stops, norms_apart, strict=True) if size == 0.0)
    score = float("nan") if undefined else norm(compose(*reversed(maps))) / prod(norms_apart)
    return PathComposition(stops, score, model.config.d_model ** (-(len(stops) - 1) / 2), undefined)


def _whole_reader(ports: Ports, label: str) -> LinearMap:
    """What a path's last stop reads, with what follows it: W_QK on the other side of queries and keys."""
    name, _, side = label.partition(".")
    if side == "Q":
        return compose(ports.reader(f"{name}.K").T, ports.reader(label))
    if side == "K":
        return compose(ports.reader(f"{name}.Q").T, ports.reader(label))
    return ports.reader(name if side == "V" else label)


@dataclass(frozen=True, eq=False, repr=False)
class CompositionTable:
    """Composition of everything that reads with everything that writes.

    score, z: (readers, writers), NaN where the reader comes no later than the writer and where a map is zero.
    baseline: 1/√d_model, the root mean square by chance. undefined: labels of maps that are zero.
    """

    readers: tuple[str, ...]
    writers: tuple[str, ...]
    score: Array
    z: Array
    baseline: float
    norms: Norms
    undefined: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<CompositionTable: {len(self.readers)} readers × {len(self.writers)} writers, baseline {self.baseline:.4f}>"

    def __getitem__(self, pair: tuple[str, str]) -> float:
        """Return the score of (reader, writer).

        Raises PathexpError for anything but two labels, PathError for labels that are not there.
        """
        expect("__getitem__", pair=(pair, _PAIR))
        reader, writer = pair
        if reader not in self.readers or writer not in self.writers:
            raise PathError(
                f"no composition of reader {reader!r} with writer {writer!r}; readers are {self.readers[0]} … "
                f"{self.readers[-1]}, writers {self.writers[0]} … {self.writers[-1]}"
            )
        return float(self.score[self.readers.index(reader), self.writers.index(writer)])

    def top(self, count: int = 10) -> tuple[Composition, ...]:
        """Return the pairs of largest score, equal ones by name.

        Raises PathexpError for a count that is no whole number from 1 up.
        """
        expect("top", count=(count, AMOUNT))
        found = [
            Composition(self.readers[i], self.writers[j], float(self.score[i, j]), float(self.z[i, j]))
            for i, j in np.argwhere(np.isfinite(self.score))
        ]
        return tuple(sorted(found, key=lambda pair: (-pair.score, pair.reader, pair.writer))[:count])


def composition_table(model: Model, *, norms: Norms = "folded", distance: int = 0) -> CompositionTable:
    """Return the composition of all partners: embedding, positions, heads and MLPs with heads, MLPs and unembedding.

    Readers are `L0H0.Q`, `.K`, `.V`, `L0M` (and `L0M.gate`) and `U`; writers `E`, `P`, `L0H0` and `L0M`, an MLP by
    its W_in and W_out. Scores, baseline and cost as in `composition_scores`, and once O(d_vocab · d_model²).
    Raises PathexpError for "folded" norms that stand on the stream (post-norm).

    >>> import pathexp as px
    >>> table = px.composition_table(px.random_model(layers=1, heads=2, seed=1))
    >>> table.readers[-2:], table.writers, bool(table["U", "E"] > 0)
    (('L0H1.V', 'U'), ('E', 'P', 'L0H0', 'L0H1'), True)
    """
    check_model(model, "composition_table")
    expect("composition_table", norms=(norms, one_of("folded", "raw")))
    ports = Ports(evened(model), norms)
    readers, writers = _readers(ports, distance), _writers(ports)
    read, written = labels(readers), labels(writers)
    allowed = _allowed([ports.place(name) for name in read], [ports.place(name) for name in written])
    met = meet(readers, writers, allowed)
    return CompositionTable(read, written, met.score, met.z, model.config.d_model**-0.5, norms, met.zero)


def _allowed(readers: list[Place], writers: list[Place]) -> Flags:
    reads = np.array([place.reads for place in readers])
    writes = np.array([place.writes for place in writers])
    return np.asarray(reads[:, None] >= writes[None, :])


def _readers(ports: Ports, distance: int) -> list[Side]:
    c = ports.model.config
    sides = HeadSides(ports, distance)
    heads = [sides.reader(side) for side in ("Q", "K", "V")] if c.n_layers else []
    mlps = [
        f"L{layer}M{side}"
        for layer in range(c.n_layers if c.d_mlp else 0)
        for side in ("", ".gate")[: 1 + c.gated]
    ]
    return [*heads, *(Side((label,), reduced(ports.reader(label).dense(_ANY))) for label in [*mlps, "U"])]


def _writers(ports: Ports) -> list[Side]:
    c = ports.model.config
    sources = ["E", *(["P"] if c.positions == "learned" else [])]
    mlps = [f"L{layer}M" for layer in range(c.n_layers if c.d_mlp else 0)]
    heads = [HeadSides(ports).writer()] if c.n_layers else []
    ends, middle = (
        [Side((label,), reduced(ports.writer(label).dense(_ANY).T)) for label in some]
        for some in (sources, mlps)
    )
    return [*ends, *heads, *middle]


_ANY = 2**40
"""An embedding or an MLP's weight has as many entries as the model holds already."""
