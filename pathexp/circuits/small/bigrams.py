"""Zero layers: a model's direct path is a table of bigrams, and its best table is the corpus's own.

Elhage et al. 2021, "Zero-Layer Transformers": W_U W_E approximates the bigram log-likelihoods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...answer import Answer, Facts, Figure, Note, Part, Table, columns, visible
from ...arguments import expect, whole
from ...expansion.header import counted, model_facts
from ...graph import Array
from ...model import Model, Weights
from ...model.model import check_model, check_predicts_tokens
from ...model.softmax import log_probs_of
from ...model.weights import expected
from ..corpus.corpus import Corpus, Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally, Tokens
from .bigram_counts import count_bigrams

Ids = NDArray[np.int64]
MOST_POINTS = 1200
"""How many bigrams are drawn, the most frequent."""


@dataclass(frozen=True, eq=False, repr=False)
class Bigrams(Answer):
    """The bigrams of a corpus versus a model's direct path, by descending count.

    `first`, `second` (k): token ids; `counts` (k); `corpus` and `predicted` (k): log p(second | first), in nats.
    `kept` tells which were counted at least `min_count` times. `kl` is KL(corpus ‖ model) of the next token, in
    nats per token, weighted by how often each first token occurs: how far the model is from the best table for
    this text; `entropy` is that table's own loss, so that entropy + kl is the model's. `rank_correlation` is
    Spearman's, of `corpus` and `predicted` over the kept bigrams. `tally` holds the running counts.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    first: Ids
    second: Ids
    counts: Ids
    corpus: Array
    predicted: Array
    min_count: int
    tally: Tally

    @property
    def total(self) -> int:
        """How many bigrams were read."""
        return int(self.counts.sum())

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which bigrams were counted often enough to compare."""
        return self.counts >= self.min_count

    @property
    def entropy(self) -> float:
        """The loss of the corpus's own bigram table on the corpus, in nats per token."""
        return -float(self.counts @ self.corpus) / self.total

    @property
    def kl(self) -> float:
        """KL(corpus ‖ model) of the next token given this one, in nats per token."""
        return float(self.counts @ (self.corpus - self.predicted)) / self.total

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's rank correlation over the kept bigrams, to 1e-9 nats; None if a side is all equal."""
        corpus, predicted = (np.round(values[self.kept], 9) for values in (self.corpus, self.predicted))
        return spearman(corpus, predicted)

    def headline(self) -> str:
        """Return whose table is compared with how many bigrams."""
        whose = "its table of bigrams" if self.model.config.n_layers == 0 else "its direct path alone"
        return f"{self.model.name or 'model'}: {whose} versus {counted(self.total, 'bigram')} of the corpus"

    def parts(self) -> Iterator[Part]:
        """Yield how well both agree, the kept bigrams, and a scatter of them."""
        yield model_facts(self.model)
        yield self._agreement()
        yield Note("\n".join(self._sentences()))
        yield Table(
            (
                columns.token("token"), columns.token("next"), columns.count("count"),
                columns.number("corpus", "corpus log p", "nats", 3), columns.number("model", "model log p", "nats", 3),
            ),
            self._rows(), name="bigrams", key=("token", "next"), value="model",
        )  # fmt: skip
        yield self._scatter()

    def _agreement(self) -> Facts:
        compared = int(self.kept.sum())
        return Facts(
            {
                "bigrams": self.total, "chunks": self.tally.windows, "min_count": self.min_count, "compared": compared,
                "kl": self.kl, "entropy": self.entropy, "rank_correlation": self.rank_correlation,
            }
        )  # fmt: skip

    def _sentences(self) -> Iterator[str]:
        rank = "undefined" if self.rank_correlation is None else f"{self.rank_correlation:.4f}"
        seen = f"{counted(int(self.kept.sum()), 'bigram')} seen at least {counted(self.min_count, 'time')}"
        yield f"rank correlation {rank} over {seen}"
        yield (
            f"KL(corpus ‖ model) {self.kl:.4f} nats per token: the best table has loss {self.entropy:.4f}, "
            f"this one {self.entropy + self.kl:.4f}"
        )

    def _rows(self) -> Iterator[tuple[str, str, int, float, float]]:
        name, amount = self.model.token_string, int(self.kept.sum())
        columns = (self.first, self.second, self.counts, self.corpus, self.predicted)
        for first, second, count, corpus, predicted in zip(
            *(c[:amount].tolist() for c in columns), strict=True
        ):
            yield name(first), name(second), count, corpus, predicted

    def _scatter(self) -> Figure:
        rows = [row for row, _ in zip(self._rows(), range(MOST_POINTS), strict=False)]
        return Figure(
            "scatter", "bigrams",
            {
                "x": [row[3] for row in rows], "y": [row[4] for row in rows], "sizes": [row[2] for row in rows],
                "labels": [f"{visible(row[0])} {visible(row[1])}" for row in rows], "x_title": "corpus log p", "y_title": "model log p",
            },
            "bigrams: log p by the corpus and by the model", "nats",
        )  # fmt: skip


def bigrams(
    model: Model,
    corpus: Corpus | Source,
    *,
    min_count: int = 5,
    chunks: int | None = None,
    limits: Limits = NO_LIMITS,
) -> Bigrams:
    """Compare a corpus's bigrams with what a model's direct path predicts, as log-probabilities in nats.

    The direct path is the model without its layers, run on each token alone (at position 0 where positions are
    added). For a model of zero layers that is the model. Memory: one row of the table per distinct first token at a
    time, and the counts. Elhage et al. 2021, "Zero-Layer Transformers".

    Parameters
    ----------
    corpus: a file or texts, read as a stream.
    min_count: compare bigrams that occur at least so often.
    chunks: read at most so many texts; a file is read in chunks of 65,536 characters.
    limits: when to stop, and the counts to go on from.

    Raises PathexpError if the corpus has no two tokens in a row.

    >>> import numpy as np, pathexp as px
    >>> from pathexp.model import Tokenizer, zero_layer_bigram
    >>> table = np.log([[0.25, 0.5], [0.75, 0.5]])  # (next, this)
    >>> model = replace(zero_layer_bigram(table), tokenizer=Tokenizer(("a", "b")))
    >>> found = px.bigrams(model, ["abbaabb", "bbab"], min_count=1)
    >>> found.total, round(found.kl, 3)
    (9, 0.011)
    """
    check_model(model, "bigrams")
    check_predicts_tokens(model, "bigrams")
    expect("bigrams", min_count=(min_count, whole(1)), chunks=(chunks, whole(1).or_none))
    tally = count_bigrams(model, corpus, chunks=chunks, limits=limits)
    codes, amounts = (np.asarray(tally.sums[name], dtype=np.int64) for name in ("codes", "amounts"))
    order = np.argsort(-amounts, kind="stable")
    codes, amounts = codes[order], amounts[order]
    first, second = np.divmod(codes, model.config.d_vocab)
    each = np.bincount(first, weights=amounts, minlength=model.config.d_vocab)
    logs = np.log(amounts) - np.log(each[first])
    predicted = _direct_log_probs(model, first, second)
    return Bigrams(model, first, second, amounts, logs, predicted, min_count, tally)


def _direct_log_probs(model: Model, first: Ids, second: Ids) -> Array:
    """The direct path's log p(second | first), (k,)."""
    found = np.zeros(len(first))
    order = np.argsort(first, kind="stable")
    direct = without_layers(model)
    for tokens, logits in _alone(direct, np.unique(first)):
        start, stop = np.searchsorted(first[order], [tokens[0], tokens[-1] + 1])
        places = order[start:stop]
        found[places] = log_probs_of(logits, np.searchsorted(tokens, first[places]), second[places])
    return found


def _alone(direct: Model, tokens: Ids) -> Iterator[tuple[Tokens, Array]]:
    """Runs of ascending tokens with the logits, (tokens, d_vocab), of what follows each alone."""
    together = direct.config.positions not in ("learned", "sinusoidal")
    step = min(direct.config.n_ctx, 512) if together else 1
    for at in range(0, len(tokens), step):
        part = tokens[at : at + step]
        yield part, direct.run(part).logits


def without_layers(model: Model) -> Model:
    """Return the model of zero layers that is a model's direct path: embedding, final norm, unembedding.

    >>> import pathexp as px
    >>> without_layers(px.random_model(layers=2)).config.n_layers
    0
    """
    if model.config.n_layers == 0:
        return model
    c, arrays = model.config, model.weights.arrays()
    config = replace(c, n_layers=0, d_mlp=0, experts=None, gated=False, parallel=None, windows=None)
    kept = {name: arrays[name] for name in _WHOLE if name in arrays}
    of_layers = (name for name, place in expected(config).items() if place.required and name not in kept)
    kept |= {name: arrays[name][:0] for name in of_layers}
    return Model(config, Weights(**kept), model.tokenizer, f"{model.name}, direct path")


_WHOLE = ("W_E", "W_U", "W_pos", "b_U", "g_embed", "b_embed", "g_final", "b_final")


def spearman(a: Array, b: Array) -> float | None:
    """Return Spearman's rank correlation, equal values sharing their mean rank; None where it is 0/0.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    ranks = [_ranks(values) - (len(values) - 1) / 2 for values in (a, b)]
    size = float(np.sqrt((ranks[0] @ ranks[0]) * (ranks[1] @ ranks[1])))
    return float(ranks[0] @ ranks[1]) / size if size else None


def _ranks(values: Array) -> Array:
    _, inverse, amounts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(amounts) - 1
    return np.asarray((last - (amounts - 1) / 2)[inverse], dtype=np.float64)
