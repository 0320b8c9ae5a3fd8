"""Everything that reads the stream and everything that writes to it, and how much each reads of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...graph.experts import mlp_labels
from ...graph.ports import Place, Ports
from .gram import Flags, Met, labels, meet
from .head_sides import HeadSides
from .sides import Maps, WideSide


@dataclass(frozen=True, eq=False)
class Partners:
    """Composition of all readers with all writers.

    Readers are `L0H0.Q`, `.K`, `.V`, `L0M` (and `L0M.gate`) and `U`; writers `E`, `P`, `L0H0` and `L0M`, an MLP by
    its W_in and W_out. Scores and z in `met`: NaN where the reader comes no later than the writer.
    """

    readers: tuple[str, ...]
    writers: tuple[str, ...]
    met: Met

    @property
    def varies(self) -> bool:
        """Whether every score would be another under another rotation of the stream, so that there is a z."""
        return bool(np.isfinite(self.met.z[np.isfinite(self.met.score)]).all())

    def ranked(self) -> list[tuple[tuple[str, str], str, float, float]]:
        """Return (reader, port), writer, score and z of every pair, the largest score first, equal ones by name."""
        found = [
            (self.readers[i], self.writers[j], float(self.met.score[i, j]), float(self.met.z[i, j]))
            for i, j in np.argwhere(np.isfinite(self.met.score))
        ]
        found.sort(key=lambda pair: (-pair[2], pair[0], pair[1]))
        return [(_port(reader), writer, score, z) for reader, writer, score, z in found]


def _port(label: str) -> tuple[str, str]:
    """A reader's component and its port: ("L1H3", "K"); an MLP's main one is "in"."""
    name, _, port = label.partition(".")
    return name, port or ("in" if name != "U" else "")


def partners(heads: HeadSides, known: Met) -> Partners:
    """Return the composition of all readers with all writers; costs once O(d_vocab · d_model²) more than heads.

    known: the scores and z that heads have with heads, queries, keys and values below one another: not made again.

    >>> import pathexp as px
    >>> found = px.composition(px.random_model(layers=1, heads=2, seed=1)).partners
    >>> found.readers[-2:], found.writers
    (('L0H1.V', 'U'), ('E', 'P', 'L0H0', 'L0H1'))
    """
    ports = heads.ports
    readers, writers = _readers(heads), _writers(heads)
    read, written = labels(readers), labels(writers)
    allowed = _allowed([ports.place(name) for name in read], [ports.place(name) for name in written])
    first = len(_sources(ports))
    among = slice(len(known.score)), slice(first, first + known.score.shape[1])
    allowed[among] = False
    met = meet(readers, writers, allowed)
    met.score[among], met.z[among] = known.score, known.z
    return Partners(read, written, met)


def _allowed(readers: list[Place], writers: list[Place]) -> Flags:
    reads = np.array([place.reads for place in readers])
    writes = np.array([place.writes for place in writers])
    return np.asarray(reads[:, None] >= writes[None, :])


def _readers(heads: HeadSides) -> list[Maps]:
    ports, c = heads.ports, heads.ports.model.config
    mlps = [
        f"{label}{side}"
        for layer in range(c.n_layers)
        for label in mlp_labels(c, layer)
        for side in ("", ".gate")[: 1 + c.gated]
    ]
    ends = WideSide.of([*mlps, "U"], lambda label: ports.reader(label).dense(_ANY))
    return [*(heads.reader(side) for side in heads.kinds if c.n_layers), ends]


def _writers(heads: HeadSides) -> list[Maps]:
    ports, c = heads.ports, heads.ports.model.config
    mlps = [label for layer in range(c.n_layers) for label in mlp_labels(c, layer)]
    sources, written = (
        [WideSide.of(some, lambda label: ports.writer(label).dense(_ANY).T)] if some else []
        for some in (_sources(ports), mlps)
    )
    return [*sources, *([heads.writer()] if c.n_layers else []), *written]


def _sources(ports: Ports) -> list[str]:
    return ["E", *(["P"] if ports.model.config.positions == "learned" else [])]


_ANY = 2**40
"""An embedding or an MLP's weight has as many entries as the model holds already."""
