"""Which recorded streams stand before and behind each block of a contrast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...model import Config
from .runs import stream_before


@dataclass(frozen=True)
class Place:
    """A block by the streams around it: names of points of `Trace.residuals`, and the branches that it holds."""

    layer: int
    branches: tuple[str, ...]
    before: str
    after: str


def depth_behind(config: Config, layer: int, branch: str) -> int:
    """Return the depth behind the block of a branch, "attn" or "mlp": the first that reads what it wrote."""
    return 1 + next(
        at for at, place in enumerate(places(config)) if place.layer == layer and branch in place.branches
    )


def places(config: Config) -> Iterator[Place]:
    """Yield the place of every block, in order.

    >>> from pathexp import Config
    >>> sizes = dict(n_layers=1, n_heads=1, d_model=2, d_head=2, d_vocab=3, n_ctx=4, d_mlp=5)
    >>> [place.after for place in places(Config(**sizes))]
    ['L0.mid', 'L0.out']
    """
    for layer in range(config.n_layers):
        before, out = stream_before(layer), f"L{layer}.out"
        if config.parallel:
            yield Place(layer, ("attn", "mlp"), before, out)
            continue
        middle = f"L{layer}.mid" if config.has_mlps else out
        yield Place(layer, ("attn",), before, middle)
        if config.has_mlps:
            yield Place(layer, ("mlp",), middle, out)
