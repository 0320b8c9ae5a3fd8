"""A model: configuration, weights, and, if there is one, a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..arguments import check, expect, instance, refuse_masked, whole
from ..errors import PathexpError, TokenError
from . import notebook
from .archive import Parts, write_archive
from .config import Config
from .forward import forward, forward_many
from .padding import each_text
from .trace import Trace
from .weights import Weights

Tokens = Sequence[int] | npt.NDArray[np.integer[Any]]


class TextCoder(Protocol):
    """What a model asks of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""

    def strings(self, ids: Iterable[int]) -> tuple[str, ...]:
        """The text of each id."""

    def token_id(self, symbol: str) -> int:
        """The id of a text that is one token."""

    def to_dict(self) -> dict[str, object]:
        """The tokenizer as plain values for JSON."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A transformer that can be run: sizes, arrays, and perhaps a tokenizer.

    Raises WeightsError if the arrays do not fit the sizes.

    >>> import pathexp as px
    >>> px.random_model(layers=2, heads=3, d_model=24, d_head=5, d_vocab=11, n_ctx=40)
    Model('random': 2 layers × 3 heads, d_model 24, d_vocab 11)
    """

    config: Config
    weights: Weights
    tokenizer: TextCoder | None = None
    name: str = ""
    history: tuple[str, ...] = ()
    """The rewrites that made this model of another, in order; see ``pathexp.model.rewrite``."""

    def __post_init__(self) -> None:
        self.weights.check(self.config)

    def run(self, text: str | Tokens) -> Trace:
        """Run the reference forward pass on a text or on token ids, (n).

        Raises TokenError for a text without a tokenizer or with an unknown symbol, and for ids that are
        none, too many (more than n_ctx), not integers, or outside the vocabulary.

        >>> import pathexp as px
        >>> px.random_model(d_vocab=11).run([1, 2, 3]).logits.shape
        (3, 11)
        """
        return forward(self, ids_of(self, text))

    def run_many(
        self, texts: Sequence[str | Tokens], mask: Sequence[Sequence[int]] | npt.NDArray[Any] | None = None
    ) -> tuple[Trace, ...]:
        """Run each of several texts or rows of token ids, of any lengths, and return one trace a text.

        ``mask``: for rows of ids that were padded left or right, 1 where a token counts and 0 where it pads, of the
        rows' shape; what pads is left out before the run. Positions count from the first token that is no padding, as
        transformers counts with position_ids. Each trace is that of ``run``, to the bit. All texts go through a layer
        before the next begins, so that stored weights become float64 once for all.

        Raises TokenError as ``run`` does, naming the text by its number, and for a mask of another shape, of other
        numbers, or with padding between tokens. Memory is that of all traces.

        >>> import pathexp as px
        >>> model = px.random_model(d_vocab=11)
        >>> padded, mask = [[0, 0, 3, 1], [2, 7, 1, 8]], [[0, 0, 1, 1], [1, 1, 1, 1]]
        >>> [len(trace) for trace in model.run_many(padded, mask=mask)]
        [2, 4]
        """
        return forward_many(self, each_text(texts, mask, partial(ids_of, self)))

    def encode(self, text: str) -> list[int]:
        """The token ids of a text.

        Raises TokenError if the model has no tokenizer or does not know a symbol.
        """
        return self._coder(text).encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids.

        Raises TokenError if the model has no tokenizer or an id is outside the vocabulary.
        """
        return self._coder(ids).decode(ids)

    def token_id(self, token: int | str) -> int:
        """The id of one token, given as an id or as a text that is one token.

        Raises TokenError for an id outside the vocabulary or a text that is several tokens.
        """
        if isinstance(token, str):
            return self._coder(token).token_id(token)
        return int(_checked(_array([token]), self.config)[0])

    def token_string(self, token: int) -> str:
        """The text of a token, or its id as text where the model has no tokenizer.

        Raises PathexpError for what is no id.
        """
        expect("token_string", token=(token, whole(0)))
        return str(token) if self.tokenizer is None else self.tokenizer.strings([token])[0]

    def output_id(self, output: int | str) -> int:
        """The number of one output: a token's id where outputs are tokens, else a number from 0 to d_out - 1.

        Raises TokenError for what is no output.
        """
        if self.config.predicts_tokens:
            return self.token_id(output)
        found = int(output) if isinstance(output, str) and output.isdecimal() else output
        if not (whole(0).holds(found) and int(found) < self.config.d_out):
            raise TokenError(
                f"{output!r:.40} is no output of {self!r}: its {self.config.d_out} outputs are no tokens and go by "
                f"their numbers, 0 to {self.config.d_out - 1}."
            )
        return int(found)

    def output_string(self, output: int) -> str:
        """The text of an output: of its token where outputs are tokens, else its number."""
        return self.token_string(output) if self.config.predicts_tokens else str(output)

    def save(self, path: str | Path) -> None:
        """Write the model to a file that ends in .npz, which ``pathexp.load`` reads; every number is kept.

        Raises LoadError for another ending, PathexpError for what is no path.
        """
        expect("save", path=(path, instance((str, Path), "a path")))
        write_archive(Parts(self.config, self.weights, self.tokenizer, self.name, self.history), path)

    def __repr__(self) -> str:
        c = self.config
        sizes = f"{c.n_layers} layers × {c.n_heads} heads, d_model {c.d_model}, d_vocab {c.d_vocab}"
        sizes += "" if c.predicts_tokens else f", d_out {c.d_out}"
        return f"Model({self.name!r}: {sizes})"

    def _repr_html_(self) -> str:
        c = self.config
        rows: list[tuple[str, object]] = [
            ("layers × heads", f"{c.n_layers} × {c.n_heads}"), ("d_model, d_head", f"{c.d_model}, {c.d_head}"),
            *([("latent", f"rank {e.rank}, d_shared {e.d_shared}, d_value {e.d_value}")] if (e := c.latent) else []),
            ("d_mlp", f"{c.d_mlp}, {c.activation}{', gated' if c.gated else ''}" if c.d_mlp else "no MLPs"),
            *([("experts", f"{m.chosen} of {m.count}, d_mlp {m.width}")] if (m := c.experts) else []),
            ("vocabulary, n_ctx", f"{c.d_vocab:,}, {c.n_ctx:,}"), ("norm, positions", f"{c.norm or 'no norm'}, {c.positions}"),
            ("tokenizer", "yes" if self.tokenizer is not None else "none: give token ids"),
        ]  # fmt: skip
        if self.history:
            rows.append(("rewritten", ", ".join(self.history)))
        return notebook.facts(f"model {self.name}", rows)

    def _coder(self, what: object) -> TextCoder:
        if self.tokenizer is None:
            raise TokenError(
                f"{self!r} has no tokenizer for {what!r}: "
                f"give token ids, integers from 0 to {self.config.d_vocab - 1}."
            )
        return self.tokenizer


def ids_of(model: Model, text: str | Tokens) -> npt.NDArray[np.int64]:
    """Return the token ids of a text, or token ids as they are, (n). Raises TokenError for what a model cannot run."""
    return _checked(_array(model.encode(text) if isinstance(text, str) else text), model.config)


def _array(tokens: Tokens) -> npt.NDArray[Any]:
    refuse_masked("token ids", tokens, TokenError)
    try:
        return np.asarray(tokens)
    except ValueError as error:
        raise TokenError(f"Token ids are a list of integers, found {tokens!r:.60}: {error}") from error


def check_model(value: object, call: str) -> None:
    """Raise PathexpError unless a value is a model, by the name of the call that asked for one."""
    check(f"{call}(), model", value, MODEL)


MODEL = instance(Model, "a model", "load one with px.load, or take trace.model")


def check_predicts_tokens(model: Model, call: str) -> None:
    """Raise PathexpError, naming the call, for a model whose outputs are no tokens."""
    c = model.config
    if not c.predicts_tokens:
        raise PathexpError(
            f"{call} needs outputs that are tokens; {model!r} has {c.d_out} outputs for {c.d_vocab} tokens"
        )


def _checked(ids: npt.NDArray[Any], config: Config) -> npt.NDArray[np.int64]:
    if ids.ndim == 0:
        raise TokenError(f"What a model runs is a text or a list of token ids, found {ids.item()!r:.60}.")
    if ids.ndim != 1:
        raise TokenError(
            f"Token ids are a list of one axis, found shape {ids.shape}: run one text at a time."
        )
    if not len(ids):
        raise TokenError(f"There is nothing to run: found 0 tokens, expected 1 to {config.n_ctx} (n_ctx).")
    if ids.dtype.kind not in "iu":
        raise TokenError(f"Token ids are integers, found dtype {ids.dtype}: {ids.tolist()!r:.60}.")
    if len(ids) > config.n_ctx:
        raise TokenError(
            f"Found {len(ids)} tokens, the model takes at most {config.n_ctx} (n_ctx): shorten it."
        )
    outside = (ids < 0) | (ids >= config.d_vocab)
    if outside.any():
        place = int(outside.argmax())
        raise TokenError(
            f"Token id {ids[place]} at position {place} is not in the vocabulary: "
            f"ids are 0 to {config.d_vocab - 1}."
        )
    return ids.astype(np.int64)
