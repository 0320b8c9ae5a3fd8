"""The nearest tokens of a token: by the cosine of their embeddings, and of their rows in the unembedding, beside chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...answer import Answer, Facts, Note, Part, Table, columns, visible
from ...arguments import AMOUNT, Kind, expect, whole
from ...errors import PathexpError
from ...expansion.header import model_facts
from ...graph import Array
from ...graph.from_weights import embedding, unembedding
from ...model import Model
from ...model.model import check_model

SIDES = ("embedding", "unembedding")


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The tokens nearest to one on one side: `tokens` and `cosines` (k), and the cosines' `deviation` if they were random."""

    side: str
    tokens: tuple[int, ...]
    cosines: tuple[float, ...]
    deviation: float


@dataclass(frozen=True, eq=False, repr=False)
class NearestTokens(Answer):
    """The nearest tokens of one token, in the embedding and, where outputs are tokens, in the unembedding."""

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    token: int
    sides: tuple[Neighbors, ...]

    def __iter__(self) -> Iterator[Neighbors]:
        return iter(self.sides)

    def headline(self) -> str:
        """Return whose nearest tokens these are."""
        return f"nearest tokens of {visible(self.model.token_string(self.token))} ({self.token})"

    def parts(self) -> Iterator[Part]:
        """Yield the nearest tokens of each side, by rank, and what random vectors would have."""
        yield model_facts(self.model)
        yield Facts({"token": self.token})
        rows = [
            (found.side, rank, self.model.token_string(token), cosine, cosine / found.deviation)
            for found in self.sides
            for rank, (token, cosine) in enumerate(zip(found.tokens, found.cosines, strict=True), 1)
        ]
        yield Table(
            (
                columns.text("side"), columns.count("rank"), columns.token("token"), columns.number("cosine"),
                columns.number("z", digits=1),
            ),
            rows, "tokens", key=("side", "rank"), value="cosine", shown=24,
        )  # fmt: skip
        expected = self.sides[0].deviation * np.sqrt(2 * np.log(max(self.model.config.d_vocab - 1, 2)))
        yield Note(
            f"cosines of vectors less their mean over all tokens; of random vectors they have mean 0 and deviation "
            f"{self.sides[0].deviation:.4f},\nand the largest of {self.model.config.d_vocab - 1:,} is about {expected:.2f}"
        )


def nearest_tokens(model: Model, *, token: int | str, k: int = 8) -> NearestTokens:
    """Return the `k` tokens whose embeddings point most like a token's, and the same of the unembedding.

    The mean over all tokens is subtracted: what all share says nothing of any. Gains of norms are in the vectors. Elhage et
    al. 2021, "Zero-Layer Transformers": the unembedding need not be the inverse of the embedding. Cost: O(d_vocab d_model).
    Raises TokenError for what is no token, PathexpError for a token whose vector is the mean.

    >>> import pathexp as px
    >>> found = nearest_tokens(px.load("attn-0l"), token=" king", k=2)
    >>> len(found.sides), all(cosine < 1 for side in found for cosine in side.cosines)
    (2, True)
    """
    check_model(model, "nearest_tokens")
    expect("nearest_tokens", k=(k, AMOUNT))
    kind = Kind(
        f"a token, or an id from 0 to {model.config.d_vocab - 1}",
        lambda given: (
            isinstance(given, str) or (whole(0).holds(given) and int(str(given)) < model.config.d_vocab)
        ),
    )
    expect("nearest_tokens", token=(token, kind))
    chosen = int(token) if isinstance(token, int | np.integer) else model.token_id(token)
    sides = [_neighbors("embedding", embedding(model).T.dense(), chosen, k)]
    if model.config.predicts_tokens and not model.config.transform:
        sides.append(_neighbors("unembedding", unembedding(model).dense(), chosen, k))
    return NearestTokens(model, chosen, tuple(sides))


def _neighbors(side: str, vectors: Array, token: int, k: int) -> Neighbors:
    centered = vectors - vectors.mean(axis=0)
    lengths = np.linalg.norm(centered, axis=1)
    least = len(vectors) * np.finfo(np.float64).eps * np.linalg.norm(vectors, axis=1).max(initial=0.0)
    if lengths[token] <= least:
        raise PathexpError(f"the {side} of token {token} is the mean of all tokens: it points nowhere")
    cosines = centered @ centered[token] / (np.where(lengths > least, lengths, np.inf) * lengths[token])
    cosines[token] = -np.inf
    order = np.argsort(-cosines, kind="stable")[: min(k, len(vectors) - 1)]
    return Neighbors(
        side, tuple(map(int, order)), tuple(map(float, cosines[order])), float(1 / np.sqrt(vectors.shape[1]))
    )
