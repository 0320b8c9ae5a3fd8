"""How many paths pass through each component of a graph: counted for all of them at once."""

from __future__ import annotations

from collections import Counter

from .walk import Walk


def through_each(walk: Walk) -> dict[str, int]:
    """Return how many of a walk's paths pass through each component, exactly: O(states · components) whole numbers.

    >>> from pathexp.graph import ResidualGraph, everything
    >>> through_each(Walk(ResidualGraph.attention_only(2, 2), everything))
    {'L0H0': 3, 'L0H1': 3, 'L1H0': 3, 'L1H1': 3}
    """
    found = {component.label: 0 for component in walk.graph.components()}
    coming = [Counter[int]() for _ in range(len(walk.graph.blocks) + 1)]
    for source, start in walk.starts():
        for labels, depth, state, _ in walk.entries(source, start):
            coming[depth][state] += 1
            if labels:
                found[labels[0]] += walk.completions.amount(depth, state)
    for b, block in enumerate(walk.graph.blocks):
        coming[b + 1] += coming[b]  # past the block
        for state, beginnings in coming[b].items():
            for c, after in walk.onward(b, state):
                found[block.components[c].label] += beginnings * walk.completions.amount(b + 1, after)
                coming[b + 1][after] += beginnings
    return found
