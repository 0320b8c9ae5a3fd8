"""A tally: named running sums over windows of a corpus, which can be saved, loaded and gone on from."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...arguments import expect, instance, one_of
from ...errors import PathexpError
from ...graph import Array, WeakCache
from ...model import Model, Weights
from .state import read_state, write_state

DRAWN = " drawn with seed "
"""What precedes the seed at the end of a question about windows that were drawn at random."""
Tokens: TypeAlias = NDArray[np.int64]
Sums: TypeAlias = Mapping[str, Array]
Measure: TypeAlias = Callable[[Tokens], Sums]
"""What is summed: from the tokens of a window to named arrays, of the same names and shapes for every window."""
Merge: TypeAlias = Callable[[Sums, Sums], Sums]
"""How the sums so far and those of one more window become one."""


def added(sums: Sums, measured: Sums) -> Sums:
    """Add arrays by name. Raises PathexpError if names or shapes differ.

    >>> added({}, {"x": np.ones(2)}), added({"x": np.ones(2)}, {"x": np.ones(2)})
    ({'x': array([1., 1.])}, {'x': array([2., 2.])})
    """
    shapes = {name: np.shape(value) for name, value in measured.items()}
    held = {name: np.shape(value) for name, value in sums.items()}
    if held not in ({}, shapes):
        raise PathexpError(
            f"a window gave numbers of another shape than those before: {shapes}, not {held}"[:400]
        )
    return {name: sums.get(name, 0.0) + np.asarray(value) for name, value in measured.items()}


@dataclass(frozen=True, eq=False)
class Tally:
    """Running sums: named arrays, how many windows and tokens they hold, of which question and of which windows.

    `question` says what was measured of which model; `mark` is a checksum of the windows, so that sums of other
    questions and of other corpora are not taken up for these. Arrays are read-only.

    >>> from pathexp.circuits.corpus.accumulate import accumulate
    >>> from pathexp.circuits.corpus.limits import Limits
    >>> def ends(window):
    ...     return {"last": np.array([float(window[-1])])}
    >>> texts = [np.array([1, 2]), np.array([3, 4]), np.array([5, 6])]
    >>> some = accumulate(texts, ends, "ends", most=2)
    >>> more = accumulate(texts, ends, "ends", limits=Limits(start=some))
    >>> some.windows, more.windows, more.mean("last")
    (2, 3, array([4.]))
    """

    question: str
    windows: int = 0
    tokens: int = 0
    sums: Sums = field(default_factory=dict)
    mark: int = 0
    interrupted: bool = field(default=False, compare=False)
    """Whether the count was ended from outside (Ctrl-C, SIGTERM); a file of sums does not say."""

    def __post_init__(self) -> None:
        for array in self.sums.values():
            np.asarray(array).setflags(write=False)
        object.__setattr__(self, "sums", MappingProxyType(dict(self.sums)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Tally, (self.question, self.windows, self.tokens, dict(self.sums), self.mark, self.interrupted)

    @property
    def drawn(self) -> str:
        """Where the windows were taken, in words: " at random lines (seed 0)"; nothing for those from the beginning on."""
        seed = self.question.partition(DRAWN)[2]
        return f" at random lines (seed {seed})" if seed else ""

    def plus(self, window: Tokens, measured: Sums, merge: Merge = added) -> Tally:
        """Return the sums with one more window."""
        mark = marked(window, self.mark)
        return Tally(
            self.question, self.windows + 1, self.tokens + len(window), merge(self.sums, measured), mark
        )

    def mean(self, name: str) -> Array:
        """Return the mean over windows of one of the sums.

        Raises PathexpError before the first window, and for a name that was not summed.
        """
        if not self.windows:
            raise PathexpError(
                f"{self.question}: there was no whole window of tokens; give more text or a smaller length"
            )
        expect("mean", name=(name, one_of(*self.sums)))
        return np.asarray(self.sums[name] / self.windows)

    def error(self, name: str) -> Array | None:
        """Return the standard error over windows of the mean of one of the sums, whose squares are summed as "name²".

        None for one window. Raises PathexpError as `mean` does.
        """
        mean, square = self.mean(name), self.mean(f"{name}²")
        if self.windows < 2:
            return None
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0) / (self.windows - 1)))

    def save(self, path: str | Path) -> None:
        """Write the sums to an .npz file that `Tally.load` reads; an older file is replaced whole or not at all.

        Raises LoadError where it cannot be written.
        """
        expect("save", path=(path, instance((str, Path), "a path")))
        write_state(path, vars(self))

    @staticmethod
    def load(path: str | Path) -> Tally:
        """Read sums that `save` wrote. Raises LoadError, naming the file, if it is another's, damaged or edited."""
        expect("load", path=(path, instance((str, Path), "a path")))
        return Tally(**read_state(path))


def marked(window: Tokens, before: int = 0) -> int:
    """Return a checksum of a window after those before it."""
    return zlib.crc32(np.asarray(window, dtype="<i8").tobytes(), before)


def question_of(what: str, model: Model, length: int | None) -> str:
    """Return a question for a tally: what is measured, of which weights and configuration, over windows of what length.

    >>> import pathexp as px
    >>> first, second = (question_of("loss", px.random_model(seed=seed), 8) for seed in (0, 1))
    >>> first == second, first.startswith("loss of Model('random'")
    (False, True)
    """
    weights = MARKS.get(model.weights, "mark", lambda: _mark(model.weights))
    mark = zlib.crc32(repr(model.config).encode(), weights)  # other scales or norms of the same weights
    window = model.config.n_ctx if length is None else length
    return f"{what} of {model!r}, weights {mark:08x}, windows of {window}"


MARKS: WeakCache[Weights, int] = WeakCache()
"""The checksums of the weights that are alive: one reading of all numbers each."""


def _mark(weights: Weights) -> int:
    """A checksum of all arrays and their names."""
    mark = 0
    for name, array in sorted(weights.arrays().items()):
        mark = zlib.crc32(name.encode(), mark)
        for part in (
            array if array.ndim > 2 else (array,)
        ):  # a layer at a time: the same bytes in the same order
            mark = zlib.crc32(np.ascontiguousarray(part).data, mark)
    return mark
