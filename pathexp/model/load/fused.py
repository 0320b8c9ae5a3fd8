"""Fused query, key and value tensors: one table of who stores them in which order.

A wrong split has the right shapes and gives fluent nonsense, so each layout is written out and tested on a
tensor whose row i is filled with i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Split = Callable[[Array, "Widths"], tuple[Array, Array, Array]]


@dataclass(frozen=True)
class Widths:
    """How many heads, key/value heads, and numbers a head."""

    heads: int
    kv_heads: int
    d_head: int

    @property
    def rows(self) -> int:
        """The rows of the fused tensor: (heads + 2 kv_heads) · d_head."""
        return (self.heads + 2 * self.kv_heads) * self.d_head


def blocks(raw: Array, w: Widths) -> tuple[Array, Array, Array]:
    """All queries, all keys, all values: GPT-2, Phi-3, MPT, and multi-query Falcon and GPT-BigCode."""
    q, k, v = np.split(raw, [w.heads * w.d_head, (w.heads + w.kv_heads) * w.d_head])
    return _by_head(q, w.heads), _by_head(k, w.kv_heads), _by_head(v, w.kv_heads)


def head_by_head(raw: Array, w: Widths) -> tuple[Array, Array, Array]:
    """Query, key, value of the first head, then of the second: GPT-NeoX, BLOOM."""
    q, k, v = np.moveaxis(raw.reshape(w.heads, 3, w.d_head, *raw.shape[1:]), 1, 0)
    return q, k, v


def group_by_group(raw: Array, w: Widths) -> tuple[Array, Array, Array]:
    """The queries of the first key/value head, its key, its value, then those of the second: Falcon's new decoder."""
    shared = w.heads // w.kv_heads
    grouped = raw.reshape(w.kv_heads, shared + 2, w.d_head, *raw.shape[1:])
    return (
        grouped[:, :shared].reshape(w.heads, w.d_head, *raw.shape[1:]),
        grouped[:, shared],
        grouped[:, shared + 1],
    )


LAYOUTS: Mapping[str, Split] = {
    "bloom": head_by_head,
    "falcon": head_by_head,
    "falcon grouped": group_by_group,
    "falcon multi-query": blocks,
    "gpt2": blocks,
    "gpt_bigcode": head_by_head,
    "gpt_bigcode multi-query": blocks,
    "gpt_neox": head_by_head,
    "modernbert": blocks,
    "mpt": blocks,
    "phi3": blocks,
}


def parts(layout: str, widths: Widths, kind: str) -> dict[str, Callable[[Array], Array]]:
    """The turns of a fused tensor with rows as outputs, for ``kind`` "W" or "b", by our names.

    >>> turns = parts("gpt_neox", Widths(heads=2, kv_heads=2, d_head=1), "b")
    >>> {name: turn(np.arange(6.0)).ravel().tolist() for name, turn in turns.items()}
    {'b_Q': [0.0, 3.0], 'b_K': [1.0, 4.0], 'b_V': [2.0, 5.0]}
    """
    split = LAYOUTS[layout]
    return {
        f"{kind}_Q": lambda raw: split(raw, widths)[0],
        f"{kind}_K": lambda raw: split(raw, widths)[1],
        f"{kind}_V": lambda raw: split(raw, widths)[2],
    }


def _by_head(rows: Array, heads: int) -> Array:
    return rows.reshape(heads, -1, *rows.shape[1:])
