"""Turn the stream's basis: what is said of single coordinates dies, what is said of maps and outputs stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..algebra import LinearMap
from ..arguments import AMOUNT, expect
from ..errors import PathexpError
from ..graph import Array
from ..model import Model, rewrite
from ..model.model import check_model
from .ports import Ports, readers_of, writers_of

TOKENS = 256
"""Of a table over more tokens or positions than this, so many drawn by the seed are compared."""


@dataclass(frozen=True)
class CoordinateStory:
    """The coordinates of the stream in which a writer is largest, before and after the turn, largest first."""

    writer: str
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def kept(self) -> int:
        """How many of the largest are so still."""
        return len({*self.before} & {*self.after})


@dataclass(frozen=True)
class TurnedBasis:
    """One model in two bases of its stream.

    `logits`: the largest change of a logit, in nats, and `tolerance` what rounding may change. `weights`: the largest
    change of any entry of any virtual weight, over that map's largest entry; `pairs` how many writer-reader pairs
    were compared. `stories`: per writer, its largest coordinates in both bases.
    """

    stories: tuple[CoordinateStory, ...]
    logits: float
    tolerance: float
    weights: float
    pairs: int
    width: int

    @property
    def kept(self) -> float:
        """The share of all listed coordinates that is listed still."""
        return sum(story.kept for story in self.stories) / sum(len(story.before) for story in self.stories)

    @property
    def chance(self) -> float:
        """The share that two random lists have in common: their length over d_model."""
        return len(self.stories[0].before) / self.width

    @property
    def ok(self) -> bool:
        """Whether outputs and virtual weights stayed, to rounding."""
        return self.logits <= self.tolerance and self.weights <= 1e-10


def turn_basis(model: Model, *, top: int = 10, seed: int = 0) -> TurnedBasis:
    """Turn the stream of a model at random, and compare coordinates, virtual weights and logits.

    Gains of norms are folded first, and LayerNorm made RMS norm, as a norm's own basis would forbid the turn
    (`px.rewrite`). Writers are the embedding, positions, heads and MLPs, each as large in a coordinate as the norm of
    that row of its map; virtual weights are all writer-reader pairs, of which tables over many tokens are sampled.
    Elhage et al. 2021, "The residual stream has no privileged basis". Costs O(pairs · d_model · 256²) at most.

    Raises RewriteError where no rewrite can take the norms' basis away, PathexpError for more coordinates than
    the stream has.

    >>> import pathexp as px
    >>> found = px.turn_basis(px.load("attn-2l"))
    >>> found.ok, found.kept < 0.2, found.pairs
    (True, True, 257)
    """
    check_model(model, "turn_basis")
    expect("turn_basis", top=(top, AMOUNT))
    width = model.config.d_model
    if top > width:
        raise PathexpError(f"asked for the {top} largest coordinates; the stream has {width} (d_model)")
    plain = _without_basis(model)
    turned = rewrite.rotate(plain, seed)
    first, second = Ports(plain), Ports(turned)
    writers = tuple(f"{label}.O" if "H" in label else label for label in writers_of(model))
    stories = tuple(
        CoordinateStory(label, _largest(first.writer(label), top), _largest(second.writer(label), top))
        for label in writers
    )
    changes = [_change(first, second, *pair, seed) for pair in _pairs(first, writers)]
    difference = rewrite.compare(model, turned)
    return TurnedBasis(
        stories, difference.raw, difference.tolerance, max(changes, default=0.0), len(changes), width
    )


def _without_basis(model: Model) -> Model:
    plain = rewrite.fold_norms(model) if model.config.norm else model
    if model.config.norm == "layernorm":
        plain = rewrite.layernorm_to_rmsnorm(rewrite.center_writing(plain))
    return plain


def _pairs(ports: Ports, writers: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for reader in readers_of(ports.model):
        reads = ports.place(reader).reads
        yield from ((writer, reader) for writer in writers if ports.place(writer).writes <= reads)


def _largest(writer: LinearMap, top: int) -> tuple[int, ...]:
    sizes = np.linalg.norm(_sampled(writer, 1, 0), axis=1)
    return tuple(int(place) for place in np.argsort(-sizes, kind="stable")[:top])


def _change(first: Ports, second: Ports, writer: str, reader: str, seed: int) -> float:
    """The largest change of a virtual weight, over its largest entry."""
    before, after = (
        _sampled(ports.reader(reader), 0, seed) @ _sampled(ports.writer(writer), 1, seed)
        for ports in (first, second)
    )
    return float(np.abs(before - after).max()) / (float(np.abs(before).max()) or 1.0)


def _sampled(map: LinearMap, axis: int, seed: int) -> Array:
    """A map as an array, (target, source), at most 256 of its rows or columns."""
    dense = map.dense()
    if dense.shape[axis] <= TOKENS:
        return dense
    chosen = np.random.default_rng(seed).choice(dense.shape[axis], TOKENS, replace=False)
    return np.take(dense, np.sort(chosen), axis=axis)
