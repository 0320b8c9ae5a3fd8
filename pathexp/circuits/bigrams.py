"""Zero layers: a model's direct path is a table of bigrams, and its best table is the corpus's own.

Elhage et al. 2021, "Zero-Layer Transformers": W_U W_E approximates the bigram log-likelihoods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..graph import Array
from ..model import Model, Weights
from ..model.model import check_model, check_predicts_tokens
from .bigram_counts import count_bigrams
from .corpus import Corpus, Tokens
from .running import Tally

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Bigrams:
    """The bigrams of a corpus beside a model's direct path, by descending count.

    `first`, `second` (k): token ids; `counts` (k); `corpus` and `model` (k): log p(second | first), in nats.
    `kept` says which were counted at least `at_least` times. `kl` is KL(corpus ‖ model) of the next token, in
    nats a token, weighted by how often each first token stands: how far the model is from the best table for
    this text; `entropy` is that table's own loss, so that entropy + kl is the model's. `rank_correlation` is
    Spearman's, of `corpus` and `model` over the kept bigrams. `tally` holds the running counts, to save and to go on from.
    """

    first: Ids
    second: Ids
    counts: Ids
    corpus: Array
    model: Array
    at_least: int
    tally: Tally

    @property
    def total(self) -> int:
        """How many bigrams were read."""
        return int(self.counts.sum())

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which bigrams were counted often enough to compare."""
        return self.counts >= self.at_least

    @property
    def entropy(self) -> float:
        """The loss of the corpus's own bigram table on the corpus, in nats a token."""
        return -float(self.counts @ self.corpus) / self.total

    @property
    def kl(self) -> float:
        """KL(corpus ‖ model) of the next token given this one, in nats a token."""
        return float(self.counts @ (self.corpus - self.model)) / self.total

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's rank correlation over the kept bigrams, to 1e-9 nats; None if a side is all equal."""
        corpus, model = (np.round(values[self.kept], 9) for values in (self.corpus, self.model))
        return spearman(corpus, model)


def bigrams(
    model: Model,
    corpus: Corpus,
    at_least: int = 5,
    *,
    start: Tally | None = None,
    limit: int | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> Bigrams:
    """Return a corpus's bigrams beside what a model's direct path says of them, as log-probabilities in nats.

    The direct path is the model without its layers, run on each token alone (at position 0 where positions are
    added). For a model of zero layers that is the model. `corpus`: the path of a text file, or an iterable of
    texts, read as a stream. Memory: one row of the table per distinct first token at a time, and the counts.
    `start`, `limit`, `seconds`, `progress` as for `tally`, by texts; a file is read in pieces of 65,536 characters.

    Raises PathexpError if the corpus has no two tokens in a row. Elhage et al. 2021, "Zero-Layer Transformers".

    >>> import numpy as np, pathexp as px
    >>> from pathexp.model import Tokenizer, zero_layer_bigram
    >>> table = np.log([[0.25, 0.5], [0.75, 0.5]])  # (next, this)
    >>> model = replace(zero_layer_bigram(table), tokenizer=Tokenizer(("a", "b")))
    >>> found = bigrams(model, ["abbaabb", "bbab"], at_least=1)
    >>> found.total, round(found.kl, 3)
    (9, 0.011)
    """
    check_model(model, "bigrams")
    check_predicts_tokens(model, "bigrams")
    counted = count_bigrams(model, corpus, start=start, limit=limit, seconds=seconds, progress=progress)
    codes, amounts = (np.asarray(counted.sums[name], dtype=np.int64) for name in ("codes", "amounts"))
    order = np.argsort(-amounts, kind="stable")
    codes, amounts = codes[order], amounts[order]
    first, second = np.divmod(codes, model.config.d_vocab)
    each = np.bincount(first, weights=amounts, minlength=model.config.d_vocab)
    logs = np.log(amounts) - np.log(each[first])
    return Bigrams(first, second, amounts, logs, _direct_log_probs(model, first, second), at_least, counted)


def _direct_log_probs(model: Model, first: Ids, second: Ids) -> Array:
    """The direct path's log p(second | first), (k,)."""
    found = np.zeros(len(first))
    order = np.argsort(first, kind="stable")
    direct = without_layers(model)
    for tokens, log_probs in _alone(direct, np.unique(first)):
        start, stop = np.searchsorted(first[order], [tokens[0], tokens[-1] + 1])
        places = order[start:stop]
        found[places] = log_probs[np.searchsorted(tokens, first[places]), second[places]]
    return found


def _alone(direct: Model, tokens: Ids) -> Iterator[tuple[Tokens, Array]]:
    """Runs of ascending tokens with the log-probabilities, (tokens, d_vocab), of what follows each alone."""
    together = direct.config.positions not in ("learned", "sinusoidal")
    step = min(direct.config.n_ctx, 512) if together else 1
    for at in range(0, len(tokens), step):
        part = tokens[at : at + step]
        yield part, direct.run(part).log_probs


def without_layers(model: Model) -> Model:
    """Return the model of zero layers that is a model's direct path: embedding, final norm, unembedding.

    >>> import pathexp as px
    >>> without_layers(px.random_model(layers=2)).config.n_layers
    0
    """
    if model.config.n_layers == 0:
        return model
    c, arrays = model.config, model.weights.arrays()
    config = replace(c, n_layers=0, d_mlp=0, gated=False, parallel=None, windows=None)
    kept = {name: arrays[name] for name in _WHOLE if name in arrays}
    kept |= {name: arrays[name][:0] for name in ("W_Q", "W_K", "W_V", "W_O")}
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
