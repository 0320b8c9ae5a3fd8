"""A corpus as a stream of windows of token ids: from files or from any iterable of texts, never held whole."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...arguments import SEED, TEXT, expect, refuse_masked, sequence_of, whole
from ...errors import LoadError, LoadWarning, PathexpError, TokenError
from ...model import Model, Tokenizer
from .accumulate import accumulate
from .limits import Limits
from .random_texts import TRIES, random_texts
from .tally import DRAWN, Measure, Tally, Tokens, question_of

Text: TypeAlias = str | Path | Sequence[int] | NDArray[np.integer[Any]]
"""A text, the path of a text file, or token ids. A plain string among several texts is a text, not a path."""
Source: TypeAlias = str | Path | Iterable[Text]
"""The path of a text file, or an iterable of texts."""

REFUSE = "refuse"
FIRST_SEED = 0
"""The seed of windows at random lines where none is given."""
BYTES_PER_TOKEN = 4
"""How many bytes per token a file must have for its windows to be drawn at random: fewer may not hold so many windows."""
SHORT = 256
"""Windows of so many tokens at most may be measured several at a time."""
CHUNK = 1 << 16
"""Characters read from a file at a time."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Which windows of which texts.

    Parameters
    ----------
    source: the path of a UTF-8 text file; or an iterable of texts, paths (`pathlib.Path`) and lists of token ids. A
        file is read in chunks of 65,536 characters that end at the end of a line, each a text.
    length: tokens per window; by default n_ctx. Windows follow one another within a text; what is left of a text
        after its last whole window is left out.
    windows: how many to take, or the numbers of the chosen ones, counted from 0; by default all.
    sample: a seed; then windows are drawn at random, with replacement, from one text file: each begins at the start of the
        line that follows a random byte. Without it they are taken from the beginning, which may be of one kind; see
        `spread`.

    unknown: what is done with characters that a bundled model's tokenizer does not know: "refuse" raises TokenError,
        naming place and character; "skip" leaves them out; another text, such as " ", is put in the place of each. How
        many there were is told by a LoadWarning at the end.

    Raises PathexpError for a source without texts, a length below 2, or windows that are no integers.

    >>> import pathexp as px
    >>> model = px.random_model(d_vocab=9)
    >>> [window.tolist() for window in Corpus([[1, 2, 3, 4, 5], [6, 7]], length=2).cut(model)]
    [[1, 2], [3, 4], [6, 7]]
    >>> [window.tolist() for window in Corpus([[1, 2, 3, 4, 5], [6, 7]], length=2, windows=[2, 0]).cut(model)]
    [[1, 2], [6, 7]]
    """

    source: Source
    length: int | None = None
    windows: int | Sequence[int] | None = None
    sample: int | None = None
    unknown: str = REFUSE

    def __post_init__(self) -> None:
        if not isinstance(self.source, str | Path | Iterable):
            raise PathexpError(
                f"a corpus is the path of a text file, or texts, or lists of token ids; got {self.source!r:.60}"
            )
        expect("Corpus", length=(self.length, whole(2).or_none), sample=(self.sample, SEED.or_none))
        expect("Corpus", unknown=(self.unknown, TEXT))
        if self.sample is not None and not (
            isinstance(self.source, str | Path) and whole(1).holds(self.windows)
        ):
            raise PathexpError(
                f"a random sample is drawn from one text file, of so many windows; got {self.source!r:.40} and "
                f"windows={self.windows!r:.20}"
            )
        if not isinstance(self.windows, Sequence | np.ndarray):
            expect("Corpus", windows=(self.windows, whole(1).or_none))
            return
        expect(
            "Corpus", windows=(self.windows, sequence_of(whole(0), "a number of windows, or their numbers"))
        )
        object.__setattr__(self, "windows", tuple(sorted(int(number) for number in set(self.windows))))

    @staticmethod
    def of(given: Corpus | Source, model: Model, windows: int | None = None) -> Corpus:
        """Return a corpus as it is, or a source as one, of which so many windows are taken, spread over a file."""
        return given if isinstance(given, Corpus) else Corpus(given, windows=windows).spread(model)

    def spread(self, model: Model) -> Corpus:
        """Return the same number of windows at random lines (seed 0), if they are so many of one large text file.

        A file of less than 4 bytes per token asked for is taken from its beginning, and so is what is no file: the
        corpus is returned as it is.

        >>> import pathexp as px
        >>> Corpus([[1, 2, 3, 4]], windows=1).spread(px.random_model(d_vocab=9)).sample is None
        True
        """
        if not (isinstance(self.source, str | Path) and isinstance(self.windows, int)):
            return self
        asked = self.windows * (model.config.n_ctx if self.length is None else self.length)
        file = Path(self.source)
        large = file.is_file() and file.stat().st_size >= BYTES_PER_TOKEN * asked
        return replace(self, sample=FIRST_SEED) if large and self.sample is None else self

    def texts(self) -> Iterator[Text]:
        """Iterate over the texts; files in chunks. Raises LoadError for a file that is not there or not UTF-8."""
        texts: Iterable[Text] = [Path(self.source)] if isinstance(self.source, str | Path) else self.source
        for text in texts:
            yield from _chunks(text) if isinstance(text, Path) else [text]

    def tokens(self, model: Model) -> Iterator[Tokens]:
        """Iterate over the token ids of each text; texts without tokens are left out.

        Raises TokenError for what is no text.
        """
        with self._encoder(model) as encode:
            for text in self.texts():
                tokens = _ids(encode(text) if isinstance(text, str) else text)
                if len(tokens):
                    yield tokens

    @contextmanager
    def _encoder(self, model: Model) -> Iterator[Callable[[str], list[int]]]:
        """What makes ids of a text; at its end it tells how many unknown characters there were."""
        coder, left, seen = model.tokenizer, 0, 0
        if self.unknown == REFUSE or coder is None:
            yield model.encode
            return
        if not isinstance(coder, Tokenizer):
            raise PathexpError(
                f"unknown={self.unknown!r} is offered by the tokenizers of bundled models; that of {model!r} has ways of "
                "its own: leave it out"
            )

        def encode(text: str) -> list[int]:
            nonlocal left, seen
            known, missing = coder.known(text, self.unknown)
            left, seen = left + missing, seen + len(text)
            return coder.encode(known)

        try:
            yield encode
        finally:
            if left:
                done = "left out" if self.unknown == "skip" else f"replaced by {self.unknown!r}"
                warnings.warn(
                    f"{left:,} of {seen:,} characters are not in the vocabulary and were {done}",
                    LoadWarning,
                    stacklevel=2,
                )

    def cut(self, model: Model) -> Iterator[Tokens]:
        """Iterate over the windows that are taken, (length) token ids each.

        Raises PathexpError for windows that are longer than n_ctx.
        """
        return islice(self._windows(model), self.most)

    @property
    def most(self) -> int | None:
        """How many windows are taken at most; None for all there are."""
        return self.windows if isinstance(self.windows, int | None) else len(self.windows)

    def _windows(self, model: Model) -> Iterator[Tokens]:
        """The chosen windows, or all of them, whatever their number."""
        every = self._every(model) if self.sample is None else self._drawn(model, self.sample)
        if not isinstance(self.windows, tuple):
            return every
        chosen, last = set(self.windows), max(self.windows, default=-1)
        return (window for number, window in enumerate(islice(every, last + 1)) if number in chosen)

    def _drawn(self, model: Model, seed: int) -> Iterator[Tokens]:
        """Windows at random lines of the file, without end."""
        length, missed = self._length(model), 0
        with self._encoder(model) as encode:
            for text in random_texts(Path(str(self.source)), seed, least=length):
                tokens = _ids(encode(text))
                missed = 0 if len(tokens) >= length else missed + 1
                if missed == TRIES:
                    raise PathexpError(
                        f"no place of {str(self.source)!r} has a whole window of {length} tokens"
                    )
                if not missed:
                    yield tokens[:length]

    def _length(self, model: Model) -> int:
        n_ctx = model.config.n_ctx
        length = n_ctx if self.length is None else self.length
        if not 2 <= length <= n_ctx:
            raise PathexpError(f"windows have from 2 to {n_ctx} tokens (n_ctx of the model), got {length}")
        return length

    def _every(self, model: Model) -> Iterator[Tokens]:
        length = self._length(model)
        return (
            tokens[at : at + length]
            for tokens in self.tokens(model)
            for at in range(0, len(tokens) - length + 1, length)
        )

    @property
    def chosen(self) -> str:
        """Which windows are taken, as part of a tally's question; nothing for those from the beginning on."""
        if isinstance(self.windows, tuple):
            return f" number {', '.join(map(str, self.windows))}"
        return "" if self.sample is None else f"{DRAWN}{self.sample}"

    def accumulate(
        self,
        model: Model,
        measure: Measure,
        what: str,
        limits: Limits,
        taken: Iterable[Tokens] = (),
        *,
        together: bool = False,
    ) -> Tally:
        """Sum a measure over the windows that are taken, or that were; `what` is measured, in words; see `accumulate`.

        `together` holds for windows of 256 tokens at most, of which several fit into memory.
        """
        question = question_of(what, model, self.length) + self.chosen
        return accumulate(
            taken or self._windows(model), measure, question, most=self.most, limits=limits,
            together=together and self._length(model) <= SHORT,
        )  # fmt: skip


def _chunks(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            while piece := file.read(CHUNK):
                yield piece + file.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(
            f"cannot read {str(path)!r} as text: {error}. Give a UTF-8 text file, or texts."
        ) from None


def _ids(text: object) -> Tokens:
    refuse_masked("a text of a corpus", text, TokenError)
    try:
        tokens = np.asarray(text)
    except ValueError:
        tokens = np.array(None)
    if tokens.ndim != 1 or (len(tokens) and tokens.dtype.kind not in "iu"):
        raise TokenError(f"a text of a corpus is a string or a list of token ids, got {text!r:.60}")
    return tokens.astype(np.int64)
