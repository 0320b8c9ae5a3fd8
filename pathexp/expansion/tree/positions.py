"""One node split by source position: what its paths bring from each token, exactly.

The target is pulled back through all of the node's paths to their sources, and met with each source at each position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ...graph import Array, Pullback, Source, start_value
from ...graph.kept_streams import all_after, all_before, arrivals, fits
from .endings import Endings
from .numbers import Numbers
from .pulled import PulledBack
from .pushed import PushedForward
from .spots import Spot, Word


def by_position(numbers: Numbers, where: Spot | Word, position: int) -> Array:
    """Return what the paths at a spot, or a single path, add by the position at which they set out: (positions,).

    What constants add that only the sink reads is put at the target's `position`. Costs one backward pass at most.
    """
    found = np.zeros(numbers.graph.sizes[0])
    parts = _bundle(numbers, where) if isinstance(where, Spot) else _single(numbers, where)
    for part in parts:
        if isinstance(part, float):
            found[position] += part
        else:
            found[: len(part)] += part
    return found


def _bundle(numbers: Numbers, spot: Spot) -> Iterator[Array | float]:
    """The parts of all paths with an ending or a beginning."""
    if isinstance(numbers, PulledBack):
        yield from _before(numbers, spot)
    elif not spot.word:
        yield from _before(_back(numbers), Endings(numbers.walk).root)
    elif isinstance(numbers, PushedForward) and spot.group:
        yield _along(numbers, spot.word, numbers.covector(spot.depth, spot.group), spot.depth)
    else:
        for child in numbers.words.extras(spot):
            yield from (
                [numbers.straight[spot.word[0]]] if child.spot is None else _bundle(numbers, child.spot)
            )


def _single(numbers: Numbers, path: Word) -> Iterator[Array | float]:
    """The parts of one path, from a source to the sink."""
    source = numbers.graph.by_label[path[0]]
    assert isinstance(source, Source), "a path begins with a source"
    if len(path) == 2 and source.into:
        yield numbers.straight[path[0]]
    else:
        yield _along(numbers, path[:-1], numbers.reading, len(numbers.graph.blocks))


def _back(numbers: Numbers) -> PulledBack:
    return PulledBack(numbers.walk, numbers.reading, numbers.straight)


def _before(numbers: PulledBack, spot: Spot) -> Iterator[Array | float]:
    """What all beginnings bring to an ending, and what begins right there."""
    walk, field = numbers.walk, numbers.field(spot)
    back, graph = Pullback(walk, numbers.reading), walk.graph
    live: Mapping[int, Array] = dict.fromkeys(spot.group & walk.live[spot.depth], field[None])
    free, state = walk.free_from if spot == numbers.words.root and fits(graph) else (spot.depth, -1)
    until = walk.all_until[0] if fits(graph, "position") else 0
    for depth in reversed(range(spot.depth + 1)):
        if free <= depth < spot.depth:
            if depth not in (free, until) and not any(each.depth == depth for each in arrivals(graph)):
                continue
            live = {state: all_after(graph, field, depth)[None]}
        elif depth < spot.depth:
            live = back.cross(depth, live)
        if live and 0 < depth <= until:  # in the one state that all beginnings arrive in
            (pulled,) = live.values()
            yield np.einsum("nd,jnd->j", pulled[0], all_before(graph, depth, "position")[:, : len(field)])
            break
        for at, _, value in walk.arrivals(depth):
            if at in live:
                yield _met(live[at][0], value)
    for child in numbers.words.extras(spot):
        if spot == numbers.words.root:
            yield numbers.straight[child.label]
        else:
            yield _met(numbers.arriving(spot.word), numbers.inside(child.label, spot.word[0]))


def _along(numbers: Numbers, word: Word, field: Array, depth: int) -> Array:
    """A covector field at a depth pulled back along a beginning and met with its source, by position."""
    graph, back = numbers.graph, _back(numbers).ladder
    source = graph.by_label[word[0]]
    assert isinstance(source, Source), "a word begins with a source"
    for label in reversed(word[1:]):
        b = graph.places[label]
        field = back.carry(field, depth, b + 1)
        if label in source.into:
            return _met(field, start_value(source.start, source.into[label]))
        c = [component.label for component in graph.blocks[b].components].index(label)
        field, depth = graph.kernels[b].transposed.each(field[None], np.array([c]))[0, 0], b
    return _met(back.carry(field, depth, source.depth or 0), source.value())


def _met(field: Array, value: Array) -> Array:
    return np.asarray(np.einsum("nd,nd->n", field, value[: len(field)]))
