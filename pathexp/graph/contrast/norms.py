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
from .secants import scale_slopes


def norm(runs: Runs, name: str, layer: int | None = None) -> Operator:
    """Return the secant of a norm, by the name of its weights, without its bias."""
    config = runs.config
    site = name if layer is None else f"L{layer}.{name}"
    label = name if layer is None else f"{name}_L{layer}"
    both = runs.both(lambda run: run.residuals[read_point(config, name, layer)])
    scales = runs.both(lambda run: run.norm_scales[site])
    before: Operator = ()
    middle, content = midpoint(*both), runs.between(*both[::-1])
    if config.norm == "layernorm":
        middle, content = (x - x.mean(axis=-1, keepdims=True) for x in (middle, content))
        before = feature(centering(Space("model", config.d_model)))
    one = scaled(label, middle, content, scale_slopes(*scales), runs.between(*scales))
    return chain(gain(runs, f"g_{name}", label, layer), (one,), before)


def gain(runs: Runs, array: str, label: str, layer: int | None) -> Operator:
    """Return a norm's gain, of two models their mean; nothing where there is none."""
    if not runs.has(array):
        return ()
    values = runs.weight(array) if layer is None else runs.weight(array, layer)
    return feature(diagonal(f"G_{label}", values, "model"))


def scaled(label: str, middle: Array, content: Array, slopes: tuple[Array, Array], scale: Array) -> Parallel:
    """Return Δx → Δ(s x): `scale` (n) times Δx, and Δs times `content`, where Δs is the product of `slopes` (n) times Δ(mean x²).

    `middle` is the mean x. One slope goes with what is written and one with what is read, so that neither leaves the range.
    """
    mean: Operator = (Step((diagonal(f"S̄_{label}", scale, "position"),)),)
    change: Operator = (dyad(label, middle, content, slopes, middle.shape[-1]),)
    return Parallel(f"N_{label}", (mean, change))


def dyad(label: str, middle: Array, content: Array, slopes: tuple[Array, Array], total: int) -> Dyad:
    """Return Δx → `content` times Δs, for the mean of squares of `total` features, of which x are some."""
    of_content, of_middle = slopes
    return Dyad(f"σ_{label}", (2 / total * of_content)[:, None] * content, of_middle[:, None] * middle)


def scaled_together(label: str, weight: Array, change: Dyad, scale: Array) -> Parallel:
    """Return Δx → Δ(s p_h) where one scale s (n) holds for all heads together.

    p_h = W x is one head's projection, `weight` (d_head, d_model); `change` reads Σ p̄·W over all heads (n, d_model), and
    writes what that makes of the projection through the scale.
    """
    position = diagonal(f"S̄_{label}", scale, "position")
    mean: Operator = (Step((position,), (dense(f"W_{label}", weight, "head", "model"),)),)
    return Parallel(f"N_{label}", (mean, (change,)))


def mean_of_products(values: tuple[Array, Array], scales: tuple[Array, Array]) -> Array:
    """Return the mean over both runs of a norm's result before its gain, (n, d)."""
    results = [x * np.asarray(s)[..., None] for x, s in zip(values, scales, strict=True)]
    return midpoint(*results)
