"""Both ends between two runs: embeddings that differ, and from the final stream to differences of logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..named import feature, multiplier
from ..nodes import Difference, Source
from ..operators import Array, Gate, Operator, chain
from ..tall import BLOCK, Tall
from .norms import norm
from .runs import Runs, midpoint
from .secants import activation_slope, cap_slope


@dataclass(frozen=True, eq=False)
class Ends:
    """The source E and the operator of the sink: the unembedding U, or what it reads, "final_out"."""

    runs: Runs
    label: str = "U"

    @property
    def tables(self) -> bool:
        """Whether the sink holds the unembedding."""
        return self.label == "U"

    def embeddings(self) -> Iterator[Source]:
        """The difference of both texts' token embeddings; positions are the same and drop out."""
        config = self.runs.config
        tokens = self.runs.here.tokens, self.runs.there.tokens
        table = replace(
            self.runs.matrix("W_E", "W_E", (), "model", "vocab"), picked=partial(_tokens, self.runs)
        )
        factor = multiplier("M_E", config.embedding_multiplier, config.d_model, "model")
        write = chain(self.embed_norm(), factor, feature(table))
        yield Source("E", "embedding", Difference("Δt", config.d_vocab, *tokens), write)

    def embed_norm(self) -> Operator:
        """The norm after the embedding, if there is one."""
        return norm(self.runs, "embed") if self.runs.config.embed_norm else ()

    def unembedding(self) -> Operator:
        """From the final stream to the logits."""
        config = self.runs.config
        read = norm(self.runs, "before_transform") if config.transform_norm else ()
        return chain(self.past_norm(), self.transform() if config.transform else (), read)

    def past_norm(self) -> Operator:
        """From what the final norm reads to the logits."""
        return chain(self.past_table(), norm(self.runs, "final") if self.runs.config.final_norm else ())

    def past_table(self) -> Operator:
        """From what the unembedding reads to the logits."""
        if not self.tables:
            return ()
        table = self.runs.matrix("W_U", "W_U", (), self.outputs, "model")
        if (count := self.runs.config.d_out) > BLOCK:
            table = replace(table, tall=Tall("W_U", count, partial(_outputs, self.runs)))
        return chain(self.to_logits(), feature(table))

    def to_logits(self) -> Operator:
        """What happens to W_U's result: the multiplier, and the slope of a cap."""
        config = self.runs.config
        factor = multiplier("M_U", config.logit_multiplier, config.d_out, self.outputs)
        if config.logit_cap is None:
            return factor
        before = self.runs.both(lambda run: run.logits_before_cap)
        slope = cap_slope(*before, config.logit_cap)
        return chain((Gate("κ_U", len(slope), config.d_out, slope),), factor)

    @property
    def outputs(self) -> str:
        """The name of the space of the outputs."""
        return "vocab" if self.runs.config.predicts_tokens else "outputs"

    def transform(self) -> Operator:
        """The dense layer before the final norm, by the slope of its activation, from what it reads."""
        config = self.runs.config
        weight = self.runs.matrix("W_transform", "W_transform", (), "model", "model")
        slope = activation_slope(str(config.transform_activation), *self.runs.both(before_transform))
        return (Gate("κ_transform", len(slope), config.d_model, slope), *feature(weight))


def _tokens(runs: Runs, tokens: NDArray[np.int64]) -> Array:
    """The mean embeddings of some tokens, (tokens, d_model); of one model its own."""
    here, there = (np.ascontiguousarray(table[:, tokens].T) for table in runs.weights("W_E"))
    return midpoint(here, there)


def _outputs(runs: Runs, begin: int, end: int) -> Array:
    """Some rows of the mean unembedding, (end - begin, d_model); of one model its own."""
    ours, theirs = runs.weights("W_U")
    return ours[begin:end] if ours is theirs else midpoint(ours[begin:end], theirs[begin:end])


def before_transform(run):  # type: ignore[no-untyped-def]
    """What the transform's activation is applied to, (n, d)."""
    weights = run.model.weights
    found = run.residuals["transform_in"] @ weights.W_transform.T
    return found if weights.b_transform is None else found + weights.b_transform
