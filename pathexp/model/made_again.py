"""Parts of a long run that are not kept: made again, a layer at a time, where they are asked for.

Scores and patterns of n tokens are n² numbers a head: of 1,000 tokens of a model of 135 million parameters more than four
times as many bytes as its weights in double precision. Queries and keys hold what they are made of, so only these are kept.
What is made again is kept within the one budget, and equals, to the last bit, what the run had.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt

from ..budget import BUDGET, BUFFERS
from .attention import per_head, softmax
from .config import Config
from .score_rows import Piece, each_piece
from .stored import StoredLayers

Array = npt.NDArray[np.float64]

MOST = 2**28
"""How many bytes of scores, or of another array of all layers that follows from others, a run keeps at most."""


def is_long(config: Config, n: int) -> bool:
    """Whether the scores of a run of n tokens are not kept."""
    return 8 * config.n_layers * config.n_heads * n * n > MOST


def scores_and_patterns(
    queries: Array, keys: Array, config: Config, sinks: Array | None = None
) -> tuple[Array, Array]:
    """Return scores and patterns (L, H, n, n) that are made where asked for, of queries (L, H, n, h) and keys (L, G, n, h).

    ``sinks`` (L, H) take their share of the patterns, where heads have some.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=3).run([3, 1, 2])
    >>> scores, patterns = scores_and_patterns(trace.queries, trace.keys, trace.config)
    >>> bool((scores[1] == trace.scores[1]).all() and (patterns[0, 2] == trace.patterns[0, 2]).all())
    True
    """
    shape = (*queries.shape[:3], queries.shape[2])

    def scores(layer: int) -> Array:
        made = _filled(shape[1:], -np.inf)
        each_piece(
            queries[layer], per_head(keys[layer], config), layer, config, partial(Piece.put, whole=made)
        )
        return made

    def of_heads(layer: int, first: int, heads: Array, keys: Array) -> Array:
        """The patterns of some heads, from the first of them on, of what they read."""
        made = BUFFERS.array((len(heads), *shape[2:]))

        def put(piece: Piece, found: Array) -> None:
            rows = made[piece.heads.start - first : piece.heads.stop - first, piece.queries]
            rows[..., : piece.keys.start] = rows[..., piece.keys.stop :] = 0.0
            rows[..., piece.keys] = softmax(
                found, None if sinks is None else sinks[layer][piece.heads], found
            )

        each_piece(heads, keys, layer, config, put, first)
        return made

    def patterns(layer: int) -> Array:
        return of_heads(layer, 0, queries[layer], per_head(keys[layer], config))

    def pattern(layer: int, head: int) -> Array:
        group = config.kv_head(head)
        made: Array = of_heads(layer, head, queries[layer][head : head + 1], keys[layer][group : group + 1])[
            0
        ]
        return made

    if 8 * math.prod(shape) > MOST:
        return _later("scores", shape, scores), cast(Array, StoredPatterns(shape, patterns, pattern))
    return _later("scores", shape, scores), by_layer("patterns", shape, patterns)


class StoredPatterns(StoredLayers):
    """Patterns that are made a layer at a time where they are asked for, or, for one who needs no other, those of a head."""

    def __init__(
        self, shape: tuple[int, ...], read: Callable[[int], Array], read_head: Callable[[int, int], Array]
    ) -> None:
        super().__init__("patterns", shape, read, finite=False, passing=True)
        self._read_head = read_head

    def head(self, layer: int, head: int) -> Array:
        """Return the pattern of one head, read-only: of what is kept, or made without the others."""
        whole = BUDGET.find(self, layer)
        if isinstance(whole, np.ndarray):
            return cast(Array, whole[head])
        return BUDGET.get(self, (layer, head), lambda: self._made(layer, head), passing=True)

    def _made(self, layer: int, head: int) -> Array:
        made = self._read_head(layer, head)
        made.setflags(write=False)
        return made


def one_pattern(patterns: Array, layer: int, head: int) -> Array:
    """Return the pattern of one head of a run, (n, n), for one who needs no other of its layer.

    >>> import pathexp as px
    >>> trace = px.random_model(layers=2, heads=3).run([3, 1, 2])
    >>> bool((one_pattern(trace.patterns, 1, 2) == trace.patterns[1, 2]).all())
    True
    """
    if isinstance(patterns, StoredPatterns):
        return patterns.head(layer, head)
    return np.asarray(patterns[layer, head])


def by_layer(name: str, shape: tuple[int, ...], make: Callable[[int], Array]) -> Array:
    """Return an array of all layers, `make` making that of each: whole, or, where it is large, as each is asked for."""
    if 8 * math.prod(shape) > MOST:
        return _later(name, shape, make)
    made = np.empty(shape)
    for layer in range(shape[0]):
        made[layer] = make(layer)
    made.setflags(write=False)
    return made


def _filled(shape: tuple[int, ...], value: float) -> Array:
    """An array of one number, in memory that others let go."""
    made = BUFFERS.array(shape)
    made.fill(value)
    return made


def _later(name: str, shape: tuple[int, ...], make: Callable[[int], Array]) -> Array:
    """An array of all layers that is made where asked for; minus infinity may be in it."""
    return cast(Array, StoredLayers(name, shape, make, finite=False, passing=True))
