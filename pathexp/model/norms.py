"""LayerNorm and RMSNorm: center (LayerNorm only), scale, gain, bias."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import WeightsError

Array = npt.NDArray[np.float64]


def normalized(
    x: Array, kind: str, eps: float, gain: Array | None, bias: Array | None
) -> tuple[Array, Array]:
    """The norm of x over its last axis, and the scale 1/σ that it multiplied by.

    x (.., d) gives (.., d) and (..); σ² is the mean square, after centering for "layernorm", plus eps. A
    gain of None is one, a bias of None is zero. Ba et al. 2016; Zhang and Sennrich 2019.

    >>> y, scale = normalized(np.array([1.0, -1.0, 2.0, -2.0]), "layernorm", 0.0, np.full(4, 2.0), None)
    >>> y.round(4).tolist(), round(float(scale), 4)
    ([1.2649, -1.2649, 2.5298, -2.5298], 0.6325)
    """
    centered = x - x.mean(axis=-1, keepdims=True) if kind == "layernorm" else x
    square = np.mean(centered**2, axis=-1) + eps
    if not np.isfinite(square).all():
        raise WeightsError(
            "The run overflowed: the mean square that a norm divides by is not finite. "
            "The weights are too large for double precision; rescale them."
        )
    if not (square > 0).all():
        place = tuple(int(i) for i in np.argwhere(np.atleast_1d(square) <= 0)[0])
        raise WeightsError(
            f"A norm divides by the root of {'the variance' if kind == 'layernorm' else 'the mean square'}, which is zero at "
            f"{place} with eps {eps:g}: the stream there is {'the same in all features' if kind == 'layernorm' else 'zero'}. "
            "Give the configuration a norm_eps above zero."
        )
    scale = 1 / np.sqrt(square)
    y = centered * scale[..., None]
    y = y if gain is None else y * gain
    return y if bias is None else y + bias, scale
