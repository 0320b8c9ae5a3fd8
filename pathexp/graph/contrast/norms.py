"""What a norm makes of a difference: its mean scale at each position, and one direction in which the scale changes.

With s = (mean x² + ε)^(−1/2): Δ(s x) = s̄ Δx + Δs x̄ and Δs = σ (2/d) x̄·Δx, the identity plus rank one at each
position. LayerNorm centers first. Its bias drops out; its gain follows.
"""

from __future__ import annotations

import numpy as np

from ...algebra import Space
from ..actions import Dyad
from ..named import centering, dense, diagonal, feature
from ..operators import Array, Operator, Parallel, Step, chain
from .runs import Runs, midpoint, read_point
from .secants import scale_slope


def norm(runs: Runs, name: str, layer: int | None = None) -> Operator:
    """Return the secant of a norm, by the name of its weights, without its bias."""
    config = runs.config
    site = name if layer is None else f"L{layer}.{name}"
    label = name if layer is None else f"{name}_L{layer}"
    middle, scales = (
        runs.residual(read_point(config, name, layer)),
        runs.both(lambda run: run.norm_scales[site]),
    )
    before: Operator = ()
    if config.norm == "layernorm":
        middle = middle - middle.mean(axis=-1, keepdims=True)
        before = feature(centering(Space("model", config.d_model)))
    return chain(gain(runs, f"g_{name}", label, layer), (scaled(label, middle, *scales),), before)


def gain(runs: Runs, array: str, label: str, layer: int | None) -> Operator:
    """Return a norm's gain, of two models their mean; nothing where there is none."""
    if not runs.has(array):
        return ()
    values = runs.weight(array) if layer is None else runs.weight(array, layer)
    return feature(diagonal(f"G_{label}", values, "model"))


def scaled(label: str, middle: Array, here: Array, there: Array) -> Parallel:
    """Return Δx → Δ(s x), of the mean x (n, d) and both runs' scales s (n)."""
    slope = 2 / middle.shape[-1] * scale_slope(here, there)
    mean: Operator = (Step((diagonal(f"S̄_{label}", midpoint(here, there), "position"),)),)
    change: Operator = (Dyad(f"σ_{label}", slope[:, None] * middle, middle),)
    return Parallel(f"N_{label}", (mean, change))


def scaled_together(
    label: str, weight: Array, reader: Array, middle: Array, total: int, here: Array, there: Array
) -> Parallel:
    """Return Δx → Δ(s p_h) where one scale s (n) holds for all heads together.

    p_h = W x is one head's projection, `middle` (n, d_head) its mean over both runs, `weight` (d_head, d_model);
    `reader` (n, d_model) is Σ p̄·W over all heads, `total` how many numbers they have together.
    """
    slope = 2 / total * scale_slope(here, there)
    position = diagonal(f"S̄_{label}", midpoint(here, there), "position")
    mean: Operator = (Step((position,), (dense(f"W_{label}", weight, "head", "model"),)),)
    change: Operator = (Dyad(f"σ_{label}", slope[:, None] * middle, reader),)
    return Parallel(f"N_{label}", (mean, change))


def mean_of_products(values: tuple[Array, Array], scales: tuple[Array, Array]) -> Array:
    """Return the mean over both runs of a norm's result before its gain, (n, d)."""
    results = [x * np.asarray(s)[..., None] for x, s in zip(values, scales, strict=True)]
    return midpoint(*results)
