"""The MLP: neurons read the stream, are gated, and write to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .activations import GATES
from .config import Config
from .stored import BLOCK
from .weights import Weights, at

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Mlp:
    """What happens in the MLP of one layer, with m neurons; W_out reads gates · pre."""

    pre: Array  # (n, m), W_in x + b_in
    gate_pre: Array  # (n, m), what the activation is applied to: W_gate x + b_gate, or pre
    gates: Array  # (n, m), act(gate_pre) where gated, else act(pre) / pre
    result: Array  # (n, d), W_out hidden + b_out


def neurons(read: Array, layer: int, config: Config, weights: Weights) -> Mlp:
    """The MLP of one layer on what it reads, (n, d). Gated: Shazeer 2020, "GLU Variants"."""
    assert weights.W_in is not None and weights.W_out is not None, "weights fit their configuration"
    pre = dense(read, weights.W_in[layer], at(weights.b_in, layer))
    gate_pre = pre
    if config.gated:
        assert weights.W_gate is not None, "weights fit their configuration"
        gate_pre = dense(read, weights.W_gate[layer], at(weights.b_gate, layer))
    gates = GATES[config.activation](gate_pre)
    if config.gated:
        gates = gates * gate_pre
    result = dense(gates * pre, weights.W_out[layer], at(weights.b_out, layer))
    return Mlp(pre, gate_pre, gates, result)


def dense(x: Array, W: Array, bias: Array | None) -> Array:
    """W x + b at every position: (n, source) to (n, target)."""
    result: Array = x @ W.T
    return result if bias is None else result + bias


def by_rows(x: Array, W: Array, bias: Array | None) -> Array:
    """W x + b at every position, as `dense`, a block of rows at a time: for W as wide as a vocabulary."""
    result = np.empty((len(x), W.shape[0]))
    for begin in range(0, W.shape[0], BLOCK):
        np.matmul(x, W[begin : begin + BLOCK].T, out=result[:, begin : begin + BLOCK])
    return result if bias is None else result + bias
