"""LayerNorms of queries and keys: one for all heads, one a head in one table, or one a head in tensors of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...config import Config
from ..gather import Array, Piece, Turn, as_it_is
from .plan import Arrays

_SIDES = ("q", "k")


def shared(c: Config, name: str) -> Iterator[Piece]:
    """One gain and one bias, (d_head), for all heads; ``name`` has ``{side}`` for q or k."""
    for side in _SIDES:
        turn = _repeated(_heads(c, side))
        yield Piece(f"{name.replace('{side}', side)}.weight", (c.d_head,), {f"g_{side}": turn})
        yield Piece(f"{name.replace('{side}', side)}.bias", (c.d_head,), {f"b_{side}": turn})


def in_one_table(c: Config, name: str) -> Iterator[Piece]:
    """Gains of all heads, (heads, d_head), without biases."""
    for side in _SIDES:
        shape = _heads(c, side), c.d_head
        yield Piece(f"{name.replace('{side}', side)}.weight", shape, {f"g_{side}": as_it_is})


def one_by_one(c: Config, name: str) -> Iterator[Piece]:
    """The gain of each head by itself, ``name`` with ``{head}``; `stacked` puts them together."""
    for side in _SIDES:
        for head in range(_heads(c, side)):
            theirs = name.replace("{side}", side).replace("{head}", str(head))
            yield Piece(f"{theirs}.weight", (c.d_head,), {f"g_{side}.{head}": as_it_is})


def stacked(arrays: Arrays) -> Arrays:
    """The arrays with the gains of `one_by_one` as g_q and g_k, (layers, heads, d_head)."""
    parts = {name: array for name, array in arrays.items() if "." in name}
    whole = {name: array for name, array in arrays.items() if name not in parts}
    for side in _SIDES:
        heads = [name for name in parts if name.startswith(f"g_{side}.")]
        whole[f"g_{side}"] = np.stack([parts[f"g_{side}.{head}"] for head in range(len(heads))], axis=1)
    return whole


def _heads(c: Config, side: str) -> int:
    return c.n_heads if side == "q" else c.n_kv_heads


def _repeated(heads: int) -> Turn:
    def turn(raw: Array) -> Array:
        return np.broadcast_to(raw, (heads, *raw.shape))

    return turn
