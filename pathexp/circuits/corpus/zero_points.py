"""What stands in place of paths that are removed on a corpus: nothing, their mean, or what they were in another window.

Removed paths that are set to zero take with them what is constant over texts, which acts as a bias and is then credited to
them. Their mean keeps it. Wang et al. 2022, "Interpretability in the Wild" (mean ablation); Chan et al. 2022, "Causal
Scrubbing" (resampling).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...arguments import expect, one_of
from ...errors import PathexpError
from ...graph import Array
from ...model import Model
from .corpus import Corpus
from .tally import Tokens

ZEROS = ("zero", "mean", "resample")
Parts: TypeAlias = Callable[[Tokens], Iterator[tuple[str, Array]]]
"""From a window to what may be removed, (n, d_out) each, by name, one after the other."""


@dataclass(frozen=True, eq=False)
class ZeroPoint:
    """What stands in place of a part of the logits of a window.

    `means` are over all positions of all windows, (d_out) by name; `others` are the windows whose parts stand in place
    of those of each, by the tokens of the window.
    """

    kind: str
    means: Mapping[str, Array]
    others: Mapping[bytes, Tokens]
    parts: Parts
    positions: int = 0

    def pairs(self, window: Tokens) -> Iterator[tuple[Array, Array]]:
        """Yield each part of a window with what stands in its place, which broadcasts against it."""
        if self.kind == "resample":
            others = self.parts(self.others[window.tobytes()])
            for (_, part), (_, other) in zip(self.parts(window), others, strict=True):
                yield part, other
            return
        for name, part in self.parts(window):
            yield part, self.means[name] if self.kind == "mean" else np.zeros(())

    def said(self) -> str:
        """Return what is done to removed paths, in words."""
        if self.kind == "mean":
            return f"replaced by their mean over {self.positions:,} positions"
        return {"zero": "set to zero", "resample": "replaced by what they were in another window"}[self.kind]


def zero_point(kind: str, parts: Parts, windows: Sequence[Tokens]) -> ZeroPoint:
    """Return the zero point of a kind over windows of one length; the mean costs one pass over them.

    Resampled, each window gets the parts of the next one that differs from it. Raises PathexpError for another kind, and for fewer than two
    windows to resample from.
    """
    expect("zero", zero=(kind, one_of(*ZEROS)))
    if kind == "mean":
        means, positions = _means(parts, windows)
        return ZeroPoint(kind, means, {}, parts, positions)
    if kind == "resample" and len({window.tobytes() for window in windows}) < 2:
        raise PathexpError(
            f"zero='resample' takes parts from another window, but there is {len(windows)}: give more text"
        )
    return ZeroPoint(kind, {}, _others(windows) if kind == "resample" else {}, parts)


def _others(windows: Sequence[Tokens]) -> Mapping[bytes, Tokens]:
    """The next window that differs, by the tokens of each; behind the last comes the first. A text may occur several times."""
    keys, n = [window.tobytes() for window in windows], len(windows)
    return {
        key: next(windows[(at + k) % n] for k in range(1, n) if keys[(at + k) % n] != key)
        for at, key in enumerate(keys)
    }


def _means(parts: Parts, windows: Iterable[Tokens]) -> tuple[Mapping[str, Array], int]:
    sums: dict[str, Array] = {}
    positions = 0
    for window in windows:
        positions += len(window)
        for name, part in parts(window):
            sums[name] = sums.get(name, np.zeros(())) + part.sum(axis=-2)
    return {name: total / positions for name, total in sums.items()}, positions


def windows_of(corpus: Corpus, model: Model) -> list[Tokens]:
    """Return the windows that are taken, in hand, since a mean needs two passes. Raises PathexpError if they may not end."""
    if (
        corpus.most is None
        and not isinstance(corpus.source, str | Sequence)
        and not hasattr(corpus.source, "suffix")
    ):
        raise PathexpError(
            "a mean, or another window, needs a corpus that ends: say how many windows, as px.Corpus(texts, windows=50)"
        )
    return list(corpus.cut(model))
