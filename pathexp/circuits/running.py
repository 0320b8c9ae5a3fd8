"""Averages over a corpus as running sums: memory stays flat, a count can be stopped, saved, and taken up again."""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..errors import LoadError, PathexpError
from ..graph import Array
from ..kinds import NUMBER, TEXT, Kind, expect, instance, one_of, sequence_of, whole
from ..model import Model
from .corpus import Tokens

Measure = Callable[[Tokens], Mapping[str, Array]]
"""What is summed: from the tokens of a window to named arrays, of the same shapes for every window."""

_VERSION = 1


@dataclass(frozen=True, eq=False)
class Tally:
    """Running sums over windows of a corpus: named arrays, how many windows and tokens they hold, and of what.

    `question` says what was measured, so that sums of different questions are not taken up for one another.

    >>> import numpy as np
    >>> def ends(window):
    ...     return {"last": np.array([float(window[-1])])}
    >>> texts = [np.array([1, 2]), np.array([3, 4]), np.array([5, 6])]
    >>> some = tally(texts, ends, "ends", limit=2)
    >>> more = tally(texts, ends, "ends", start=some)
    >>> some.windows, more.windows, more.mean("last")
    (2, 3, array([4.]))
    """

    question: str
    windows: int = 0
    tokens: int = 0
    sums: Mapping[str, Array] = field(default_factory=lambda: MappingProxyType({}))

    def plus(self, window: Tokens, measured: Mapping[str, Array]) -> Tally:
        """Return the sums with one more window."""
        sums = {name: self.sums.get(name, 0.0) + np.asarray(value) for name, value in measured.items()}
        if self.windows and any(self.sums[name].shape != sums[name].shape for name in sums):
            raise PathexpError(f"{self.question}: a window gave numbers of another shape than those before")
        return Tally(self.question, self.windows + 1, self.tokens + len(window), sums)

    def mean(self, name: str) -> Array:
        """The mean over windows. Raises PathexpError before the first, and for a name that was not summed."""
        if not self.windows:
            raise PathexpError(
                f"{self.question}: there was no whole window of tokens; give more text or a smaller length"
            )
        expect("mean", name=(name, one_of(*self.sums)))
        return np.asarray(self.sums[name] / self.windows)

    def save(self, path: str | Path) -> None:
        """Write the sums to a file, .npz; `Tally.load` reads it."""
        expect("save", path=(path, instance((str, Path), "a path")))
        facts = json.dumps(
            {"version": _VERSION, "question": self.question, "windows": self.windows, "tokens": self.tokens}
        )
        with Path(path).open("wb") as file:
            np.savez(file, allow_pickle=False, facts=np.array(facts), **self._named())

    def _named(self) -> dict[str, Any]:
        return {f"sum_{name}": value for name, value in self.sums.items()}

    @staticmethod
    def load(path: str | Path) -> Tally:
        """Read sums that `save` wrote. Raises LoadError for another or a damaged file."""
        try:
            with np.load(Path(path), allow_pickle=False) as arrays:
                facts = json.loads(str(arrays["facts"]))
                sums = {name[4:]: arrays[name] for name in arrays.files if name.startswith("sum_")}
            if facts["version"] != _VERSION:
                raise LoadError(
                    f"{str(path)!r} has version {facts['version']!r}, this program reads {_VERSION}"
                )
            return Tally(str(facts["question"]), int(facts["windows"]), int(facts["tokens"]), sums)
        except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise LoadError(f"cannot read running sums from {str(path)!r}: {error}") from None


def tally(
    windows: Iterable[Tokens],
    measure: Measure,
    question: str,
    *,
    start: Tally | None = None,
    limit: int | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> Tally:
    """Sum a measure over windows of tokens, one at a time.

    Parameters
    ----------
    question: what is measured of what, in words; `start` must have the same.
    start: sums to go on from; the windows they hold are passed over, so give the same corpus.
    limit, seconds: stop after so many windows in all, or so much time; so does an interrupt (Ctrl-C). What is
        returned can be saved and taken up.
    progress: say on stderr how far it is.

    Raises PathexpError if `start` answers another question, or for a limit that is no whole number from 0 up.
    """
    expect(
        "tally",
        seconds=(seconds, NUMBER.or_none),
        question=(question, TEXT),
        measure=(measure, Kind("a function of a window", callable)),
        windows=(windows, instance(Iterable, "windows of tokens")),
    )
    if limit is not None and (
        isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 0
    ):
        raise PathexpError(f"limit is how many windows to take, a whole number from 0 up, not {limit!r}")
    if start is not None and not isinstance(start, Tally):
        raise PathexpError(
            f"start takes sums of an earlier count, a Tally, not {start!r:.60}; see Tally.load"
        )
    found = Tally(question) if start is None else start
    if found.question != question:
        raise PathexpError(f"these sums answer {found.question!r}; asked was {question!r}: begin anew")
    began = said = time.monotonic()
    try:
        for window in islice(windows, found.windows, limit):
            expect("tally", windows=(window, sequence_of(whole(0), "windows, lists of token ids,")))
            found = found.plus(window, measure(window))
            now = time.monotonic()
            if progress and now - said > 1:
                said = now
                print(f"{question}: {found.windows} windows, {found.tokens} tokens", file=sys.stderr)
            if seconds is not None and now - began >= seconds:
                break
    except KeyboardInterrupt:
        if progress:
            print(f"{question}: stopped after {found.windows} windows", file=sys.stderr)
    return found


def asked(what: str, model: Model, length: int | None) -> str:
    """Return a question as `tally` takes it: what is measured, of which weights, over windows of what length.

    >>> import pathexp as px
    >>> first, second = (asked("loss", px.random_model(seed=seed), 8) for seed in (0, 1))
    >>> first == second, first.startswith("loss of Model('random'")
    (False, True)
    """
    mark = 0
    for name, array in sorted(model.weights.arrays().items()):
        mark = zlib.crc32(np.ascontiguousarray(array).tobytes(), zlib.crc32(name.encode(), mark))
    window = model.config.n_ctx if length is None else length
    return f"{what} of {model!r}, weights {mark:08x}, windows of {window}"
