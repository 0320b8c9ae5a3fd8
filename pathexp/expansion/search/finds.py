"""Paths that somebody found before the search, valued as the search values prefixes: its first threshold.

Their sources are pushed forward block by block, those through one operator at once, with what every step loses at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...graph import Array, Component, Operator, ResidualGraph, Source, push, start_value
from .ends import starting_lost
from .found import Valued, by_size
from .goal import Goal
from .layout import Layout
from .losses import ABSOLUTE, Losses
from .rounding import lengths
from .sizes import shed, tight

CHUNK = 256
"""How many paths are pushed forward at once."""

Word = tuple[str, ...]


def valued(layout: Layout, goal: Goal, words: Sequence[Word]) -> list[Valued]:
    """Return paths with their values and how far each may be off, the largest first; what is not finite is left out.

    A path that is given twice is there once: else it would count twice toward a threshold. None may go straight into the sink. Costs one application of every component on a path.
    """
    once = tuple(dict.fromkeys(words))
    chunks = (once[at : at + CHUNK] for at in range(0, len(once), CHUNK))
    found = [path for chunk in chunks for path in _valued(layout, goal, chunk)]
    return sorted((path for path in found if np.isfinite([path.value, path.error]).all()), key=by_size)


def threshold(paths: Sequence[Valued], k: int) -> float:
    """Return what the k-th largest of some paths has at least in absolute value; 0 where there are fewer."""
    least = sorted((abs(path.value) - path.error for path in paths), reverse=True)
    return max(least[k - 1], 0.0) if len(least) >= k > 0 else 0.0


def _valued(layout: Layout, goal: Goal, words: Sequence[Word]) -> Iterator[Valued]:
    streams, off = _streams(layout, words)
    longest = lengths(streams) + off
    losses = Losses(layout, (), (longest.max(axis=0),), ())
    errors = losses.met(off, longest) @ lengths(goal.field) + losses.at_start(goal) + ABSOLUTE
    for word, x, error in zip(words, streams, errors, strict=True):
        yield Valued(float(np.vdot(goal.field, x)), word, float(error))


def _streams(layout: Layout, words: Sequence[Word]) -> tuple[Array, Array]:
    """What paths bring to the final stream, (E, n, d), and how far each is from exact, (E, n)."""
    graph, n = layout.walk.graph, layout.size[0]
    starts = {word[:2]: _start(graph, word, n) for word in dict.fromkeys(words)}
    x, off, depths = map(np.stack, zip(*(starts[word[:2]] for word in words), strict=True))
    passed = [_passed(graph, word, int(depth)) for word, depth in zip(words, depths, strict=True)]
    for b in range(len(graph.blocks)):
        for operator, which in _alike([operators.get(b, ()) for operators in passed]):
            off[which] = shed(operator, x[which]) + tight(operator, off[which])
            x[which] = push(operator, x[which])
    return x, off


def _start(graph: ResidualGraph, word: Word, positions: int) -> tuple[Array, Array, int]:
    """What a path's source brings, how far that is from exact, and the depth behind it."""
    source = graph.by_label[word[0]]
    assert isinstance(source, Source), "a path begins with a source"
    inside = word[1] in source.into
    operator = source.into[word[1]] if inside else source.write
    depth = graph.places[word[1]] + 1 if inside else source.depth or 0
    return start_value(source.start, operator), starting_lost(source.start, operator, positions), depth


def _passed(graph: ResidualGraph, word: Word, depth: int) -> Mapping[int, Operator]:
    """By block, what a path passes from a depth on: its components, and skip edges between them."""
    components = [part for part in map(graph.by_label.get, word) if isinstance(part, Component)]
    through = {graph.places[part.label]: part.operator for part in components}
    return {b: through.get(b, graph.blocks[b].skip) for b in range(depth, len(graph.blocks))}


def _alike(operators: Sequence[Operator]) -> Iterator[tuple[Operator, list[int]]]:
    """Operators that are not the identity, each once, with the places where they stand."""
    found: dict[int, list[int]] = {}
    for at, operator in enumerate(operators):
        if operator:
            found.setdefault(id(operator), []).append(at)
    yield from ((operators[which[0]], which) for which in found.values())
