"""Everything that reads the stream and everything that writes to it, and how much each reads of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...graph.experts import mlp_labels
from ...graph.ports import Place, Ports
from .gram import Flags, Met, Side, labels, meet, reduced, together
from .head_sides import HeadSides


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


def partners(ports: Ports, distance: int = 0) -> Partners:
    """Return the composition of all readers with all writers; costs once O(d_vocab · d_model²) more than heads.

    >>> import pathexp as px
    >>> found = partners(Ports(px.random_model(layers=1, heads=2, seed=1)))
    >>> found.readers[-2:], found.writers
    (('L0H1.V', 'U'), ('E', 'P', 'L0H0', 'L0H1'))
    """
    readers, writers = _readers(ports, distance), _writers(ports)
    read, written = labels(readers), labels(writers)
    allowed = _allowed([ports.place(name) for name in read], [ports.place(name) for name in written])
    return Partners(read, written, meet(readers, writers, allowed))


def _allowed(readers: list[Place], writers: list[Place]) -> Flags:
    reads = np.array([place.reads for place in readers])
    writes = np.array([place.writes for place in writers])
    return np.asarray(reads[:, None] >= writes[None, :])


def _readers(ports: Ports, distance: int) -> list[Side]:
    c = ports.model.config
    sides = HeadSides(ports, distance)
    heads = [sides.reader(side) for side in ("Q", "K", "V")] if c.n_layers else []
    mlps = [
        f"{label}{side}"
        for layer in range(c.n_layers)
        for label in mlp_labels(c, layer)
        for side in ("", ".gate")[: 1 + c.gated]
    ]
    ends = [Side((label,), reduced(ports.reader(label).dense(_ANY))) for label in [*mlps, "U"]]
    return [*heads, *together(ends)]


def _writers(ports: Ports) -> list[Side]:
    c = ports.model.config
    sources = ["E", *(["P"] if c.positions == "learned" else [])]
    mlps = [label for layer in range(c.n_layers) for label in mlp_labels(c, layer)]
    heads = [HeadSides(ports).writer()] if c.n_layers else []
    ends, middle = (
        [Side((label,), reduced(ports.writer(label).dense(_ANY).T)) for label in some]
        for some in (sources, mlps)
    )
    return [*together(ends), *heads, *together(middle)]


_ANY = 2**40
"""An embedding or an MLP's weight has as many entries as the model holds already."""
