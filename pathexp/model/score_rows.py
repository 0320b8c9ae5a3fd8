"""The scores of attention a few queries at a time, each with the keys that some of them may see.

Of a long text the numbers of one step fit the cache so, and half of those of a causal mask are never computed. A text of up to
`ROWS` tokens is one piece for all heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..workers import for_each
from .config import Config
from .positions import distances, visible
from .range import capped, check_finite

Array = npt.NDArray[np.float64]

ROWS = 128
"""How many queries are scored at a time."""


@dataclass(frozen=True)
class Piece:
    """Some heads, some queries of theirs, and the keys from the first to the last that one of them may see."""

    heads: slice
    queries: slice
    keys: slice

    def put(self, part: Array, whole: Array) -> None:
        """Put an array of this piece into that of all, (H, n, n)."""
        whole[self.heads, self.queries, self.keys] = part


Use = Callable[[Piece, Array], None]


def each_piece(queries: Array, keys: Array, layer: int, config: Config, use: Use, first: int = 0) -> None:
    """Call `use` with every piece and its scores, which are its own: of queries and keys, (H, n, h) both.

    In any order, on all cores. What no piece holds is masked; `first` is the number of the first head that is given. Raises
    WeightsError for a score that is not finite.
    """
    heads, n = queries.shape[:2]
    pieces = list(_pieces(range(first, first + heads), n, config.causal, config.window(layer)))

    def work(at: int) -> None:
        piece = pieces[at]
        given = slice(piece.heads.start - first, piece.heads.stop - first)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is reported by place
            scores = entering(queries[given, piece.queries], keys[given, piece.keys], piece, layer, config)
            use(piece, scores)

    for_each(work, len(pieces))


def _pieces(heads: range, n: int, causal: bool, window: int | None) -> Iterator[Piece]:
    """All heads at once where there is one piece of queries; the largest first."""
    if n <= ROWS:
        yield Piece(slice(heads.start, heads.stop), slice(0, n), slice(0, n))
        return
    before = n if window is None else window - 1
    after = 0 if causal else before
    for begin in reversed(range(0, n, ROWS)):
        end = min(begin + ROWS, n)
        keys = slice(max(0, begin - before), min(n, end + after))
        yield from (Piece(slice(head, head + 1), slice(begin, end), keys) for head in heads)


def entering(queries: Array, keys: Array, piece: Piece, layer: int, config: Config) -> Array:
    """The scores of a piece that enter the softmax, (heads, queries, keys): scaled, capped, with slopes, -inf where masked."""
    scores = queries @ np.swapaxes(keys, -1, -2)
    scores *= config.attention_scale
    _check(scores, piece, layer)  # a cap would hide it
    scores = capped(scores, config.attention_cap)
    if config.alibi_slopes is not None:
        slopes = np.array(config.alibi_slopes)[piece.heads, None, None]
        scores = scores - slopes * distances(piece.queries, piece.keys)
    window = config.window(layer)
    begin = (
        piece.queries.start if config.causal and window is None else piece.keys.start
    )  # all see all before
    seen = visible(piece.queries, slice(begin, piece.keys.stop), config.causal, window)
    np.copyto(scores[..., begin - piece.keys.start :], -np.inf, where=~seen)
    return scores


def _check(scores: Array, piece: Piece, layer: int) -> None:
    begin = piece.heads.start, piece.queries.start, piece.keys.start
    check_finite(scores, f"a score of layer {layer}", "head, query, key", begin)
