"""Rounding noise of one reading, and how a block carries it on."""

from __future__ import annotations

import numpy as np

from ..graph import Array, BlockKernel, ResidualGraph, lengths, mixed_noise, spread

UNIT = float(np.finfo(np.float64).eps) / 2


def disturbance(graph: ResidualGraph, sizes: Array) -> Array:
    """Deviation of the rounding of one reading of vectors of so many lengths: u √K ‖x‖."""
    longest = sum(graph.sizes[:2])
    return np.asarray(UNIT * np.sqrt(longest) * sizes)


def across(block: BlockKernel, noise: Array) -> Array:
    """Carry noise across a block: over the skip and through every component, as independent parts."""
    parts = [spread(block.skip, noise), *(spread(operator, noise) for _, operator in block.single)]
    for stack in block.stacks:
        share = stack.norm / np.sqrt(stack.write.shape[1])
        parts.extend(share[:, None] * mixed_noise(stack.patterns, noise))
    return lengths(np.stack(parts, axis=-1))
