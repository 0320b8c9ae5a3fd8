"""Pictures of who shares the stream: overlaps, cosines, the bottleneck, erasers, kurtosis, turned coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..circuits.basis import BasisKurtoses
from ..circuits.bottleneck import Bottlenecks
from ..circuits.memory import MemoryManagement
from ..circuits.order import OrderBlind
from ..circuits.ports import readers_of, writers_of
from ..circuits.subspaces import Overlap
from ..circuits.superposition import Interference
from ..circuits.turning import TurnedBasis
from ..errors import PathexpError
from ..model import Model
from .bars import bars
from .svg import heat_map
from .text import visible


def draw_overlaps(model: Model, pairs: Sequence[Overlap]) -> str:
    """Return a heat map of overlap less chance, rows writers, columns readers; of one pair, bars of its cosines.

    Left out are writers and readers that fill the stream, as every overlap with them is certain.

    >>> import pathexp as px
    >>> model = px.load("attn-2l")
    >>> draw_overlaps(model, px.overlaps(model)).count("L0H2 · L1H0.K: 0.47")
    1
    """
    if len(pairs) == 1:
        return _draw_angles(pairs[0])
    free = [pair for pair in pairs if not np.isnan(pair.z)]
    pairs = free or pairs
    rows = [label for label in writers_of(model) if any(pair.writer == label for pair in pairs)]
    columns = [label for label in readers_of(model) if any(pair.reader == label for pair in pairs)]
    values = np.full((len(rows), len(columns)), np.nan)
    for pair in pairs:
        values[rows.index(pair.writer), columns.index(pair.reader)] = pair.overlap - pair.chance
    return heat_map(
        values, rows, columns, title=f"{model.name}: overlap less chance", row_name="writes", column_name="reads"
    )  # fmt: skip


def _draw_angles(pair: Overlap) -> str:
    names = [f"{angle:.0f}°" for angle in pair.angles]
    title = f"cosines of the angles between {pair.writer} and {pair.reader}"
    return bars(names, pair.cosines, title=title, signed=False)


def draw_interference(model: Model, label: str, found: Interference, top: int = 8) -> str:
    """Return a heat map of the cosines between all directions that are in one of the `top` pairs.

    >>> import pathexp as px
    >>> model = px.load("attn-2l")
    >>> found = px.interference(px.directions_of(model, "E"))
    >>> draw_interference(model, "E", found, 1).count("0.644")
    2
    """
    chosen = list(dict.fromkeys(i for pair in found.pairs(top) for i in pair[:2])) if top else []
    name = {"E": model.token_string, "U": model.output_string}.get(label)
    names = [visible(name(i)) if name else str(i) for i in chosen]
    return heat_map(found.gram[np.ix_(chosen, chosen)], names, names, title=f"{model.name} {label}: cosines")


def draw_bottlenecks(model: Model, found: Bottlenecks) -> str:
    """Return bars of the dimensions written before and read after each depth, and of its effective rank.

    >>> import pathexp as px
    >>> model = px.load("attn-2l")
    >>> "L0.out, read after: 512" in draw_bottlenecks(model, px.bottlenecks(model))
    True
    """
    series = ["written before", "read after", *["effective rank"] * (found.tally is not None)]
    values = [
        [row.written, row.read, *([] if row.effective_rank is None else [row.effective_rank])]
        for row in found
    ]
    title = f"{model.name}: dimensions at each depth; the stream has {model.config.d_model}"
    return bars([row.point for row in found], values, series, title=title, signed=False)


def draw_memory(model: Model, found: MemoryManagement) -> str:
    """Return bars of what candidates take off, by their weights and on runs; those that do not vary are left out.

    >>> import pathexp as px
    >>> model = px.load("attn-2l")
    >>> "L1H3 of L0H0: +0.09" in draw_memory(model, px.memory_management(model, k=3))
    True
    """
    kept = [one for one in found if one.measured is None or not np.isnan(one.measured)]
    values = [[one.weights, *([] if one.measured is None else [one.measured])] for one in kept]
    series = ["by weights", "on runs"] if found.tally is not None else [""]
    names = [f"{one.component} of {one.writer}" for one in kept]
    return bars(names, np.reshape(values, (len(kept), len(series))), series, title=f"{model.name}: taken off")


def draw_basis(model: Model, found: BasisKurtoses | None) -> str:
    """Return bars of the kurtosis of every space in its own basis and in turned ones.

    Raises PathexpError without data, as there is nothing to draw.
    """
    if found is None:
        raise PathexpError(
            "kurtosis is measured on runs; without them there is nothing to draw: give a corpus"
        )
    kept = [row for row in found if not np.isnan(row.kurtosis)]
    values = np.reshape([(row.kurtosis, row.turned) for row in kept], (len(kept), 2))
    title = f"{model.name}: kurtosis over coordinates"
    return bars(
        [row.space for row in kept], values, ["own basis", "turned at random"], title=title, signed=False
    )


def draw_turn(model: Model, found: TurnedBasis) -> str:
    """Return bars of how many of each writer's largest coordinates are so after the turn, beside how many there are.

    >>> import pathexp as px
    >>> model = px.load("attn-1l")
    >>> "L0H0.O, before: 10" in draw_turn(model, px.turn_basis(model))
    True
    """
    values = [[len(story.before), story.kept] for story in found.stories]
    title = f"{model.name}: largest coordinates, before the turn and still so after it"
    return bars(
        [story.writer for story in found.stories], values, ["before", "still"], title=title, signed=False
    )


def draw_order(model: Model, found: OrderBlind) -> str:
    """Return bars of how much the logits of each token of the permuted text changed.

    >>> import pathexp as px
    >>> model = px.load("attn-0l")
    >>> "2: 0<" in draw_order(model, px.order_blind(model, [5, 6, 7]))
    True
    """
    names = [visible(model.token_string(found.tokens[place])) for place in found.permutation]
    rows = [
        f"{name} {place} → {k}" for k, (name, place) in enumerate(zip(names, found.permutation, strict=True))
    ]
    return bars(rows, found.changes, title=f"{model.name}: largest change of a logit, permuted", signed=False)
