"""Both ends between two runs: embeddings that differ, and from the final stream to differences of logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..named import dense, feature, multiplier
from ..nodes import Difference, Source
from ..operators import Gate, Operator, chain
from .norms import norm
from .runs import Runs
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
        table = dense("W_E", self.runs.weight("W_E"), "model", "vocab")
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
        table = feature(dense("W_U", self.runs.weight("W_U"), self.outputs, "model"))
        return chain(self.to_logits(), table)

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
        weight = dense("W_transform", self.runs.weight("W_transform"), "model", "model")
        slope = activation_slope(str(config.transform_activation), *self.runs.both(before_transform))
        return (Gate("κ_transform", len(slope), config.d_model, slope), *feature(weight))


def before_transform(run):  # type: ignore[no-untyped-def]
    """What the transform's activation is applied to, (n, d)."""
    weights = run.model.weights
    found = run.residuals["transform_in"] @ weights.W_transform.T
    return found if weights.b_transform is None else found + weights.b_transform
