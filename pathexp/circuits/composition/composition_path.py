"""Composition along a path of several hops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...algebra import LinearMap, compose, norm
from ...answer import Facts
from ...arguments import TEXT, Kind, expect, one_of, sequence_of
from ...errors import PathError
from ...graph.ports import Norms, Ports
from ...graph.rescaled import rescaled
from ...model import Model
from ...model.model import check_model
from .virtual_weight import check_route

LABELS = Kind(
    "a path as text or labels", lambda value: TEXT.holds(value) or sequence_of(TEXT, "").holds(value)
)


@dataclass(frozen=True)
class PathComposition:
    """The composition of a path: its score in [0, 1] (NaN where a map is zero) and the random baseline.

    baseline: the root mean square with the stream randomly rotated before every reader, d_model ** (-hops / 2).
    undefined: labels of maps that are zero.
    """

    path: tuple[str, ...]
    score: float
    baseline: float
    undefined: tuple[str, ...] = ()

    def __str__(self) -> str:
        path = " → ".join(self.path)
        if self.undefined:
            return f"{path}: undefined, because these maps are zero: {', '.join(self.undefined)}"
        ratio = self.score / self.baseline
        return f"{path}: {self.score:.4f}, random baseline {self.baseline:.4f} ({ratio:.2f} ×)"

    def facts(self) -> Facts:
        """Return the path, its score and its baseline, for machines; an undefined score is None."""
        return Facts({"path": " ".join(self.path), "path_score": self.score, "path_baseline": self.baseline})


def path_composition(model: Model, path: Sequence[str], *, norms: Norms = "folded") -> PathComposition:
    """Return the composition along a path, ‖W_n ⋯ W_2 W_1‖ / (‖W_n‖ ⋯ ‖W_2‖ ‖W_1‖), Frobenius norms.

    The path starts at a writer (`E`, `P`, `L0H1`, `L0M`), passes heads by their W_OV, and ends at a reader: a
    head by its W_OV (`L2H0`, `L2H0.V`), or by all that its queries or keys read, `L2H0.Q` (W_QKᵀ) or `L2H0.K` (W_QK), without any
    rotation; an MLP `L2M` (or `.gate`), or `U`. With two heads this is the score of that pair. Through factors
    of rank d_head; never a d_model × d_model product.

    Elhage et al. 2021, "Analyzing a Two-Layer Model", measures one hop. Raises PathError for fewer than two stops or
    out of order, and
    GraphError for labels that are not there.

    >>> import pathexp as px
    >>> model = px.induction_model(d_vocab=6, n_ctx=8)
    >>> [path_composition(model, ("L0H0", f"L1H0.{side}")).score > 0 for side in "QKV"]
    [False, True, False]
    """
    check_model(model, "path_composition")
    expect(
        "path_composition",
        path=(path, LABELS),
        norms=(norms, one_of("folded", "raw")),
    )
    stops = tuple(path.split() if isinstance(path, str) else path)
    if len(stops) < 2:
        raise PathError(f"a composition needs a writer and a reader, found {' '.join(stops) or 'nothing'}")
    ports = Ports(rescaled(model), norms)
    maps = [ports.writer(stops[0]), *map(ports.through, stops[1:-1]), _whole_reader(ports, stops[-1])]
    check_route([ports.place(label) for label in stops])
    norms_apart = [norm(map) for map in maps]
    undefined = tuple(label for label, size in zip(stops, norms_apart, strict=True) if size == 0.0)
    score = float("nan") if undefined else norm(compose(*reversed(maps))) / prod(norms_apart)
    return PathComposition(stops, score, model.config.d_model ** (-(len(stops) - 1) / 2), undefined)


def _whole_reader(ports: Ports, label: str) -> LinearMap:
    """Return the map of the last reader of a path: for queries and keys with the other side of W_QK."""
    name, _, side = label.partition(".")
    if side == "Q":
        return compose(ports.reader(f"{name}.K").T, ports.reader(label))
    if side == "K":
        return compose(ports.reader(f"{name}.Q").T, ports.reader(label))
    return ports.reader(name if side == "V" else label)
