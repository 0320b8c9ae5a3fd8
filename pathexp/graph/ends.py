"""Both ends of a transformer: what is embedded, and from the final stream to the logits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..model import Config, Trace
from ..model.positions import sinusoids
from .factors import Factors
from .nodes import One, OneHot, Source
from .operators import Array, Operator, Step, chain

CapMode = Literal["ratio", "before"]


@dataclass(frozen=True)
class Ends:
    """The sources at the bottom, the operator of `U`, and the constants that `U` alone reads."""

    make: Factors
    cap: CapMode

    @property
    def config(self) -> Config:
        """The transformer's configuration."""
        return self.make.config

    def embeddings(self) -> Iterator[Source]:
        make, run = self.make, self.make.trace
        tokens = OneHot("t", make.sizes["d_vocab"], None if run is None else run.tokens)
        yield Source("E", "embedding", tokens, self.embedding())
        places = None if run is None else np.arange(len(run.tokens))
        if self.config.positions in ("learned", "sinusoidal"):
            start = OneHot("p", make.sizes["n_ctx" if self.config.positions == "learned" else "n"], places)
            yield Source("P", "positions", start, self.positions())
        if self.config.embed_norm and make.has("b_embed"):
            constant = make.constant("b_embed", "d_model", "model", lambda w: w.b_embed)
            yield Source("b_embed", "norm bias", One(), (Step((make.ones(),), (constant,)),))

    def embedding(self) -> Operator:
        """From tokens to the stream."""
        multiplier = self.make.multiplier("M_E", self.config.embedding_multiplier, "d_model")
        return chain(self.embed_norm(), multiplier, (Step((), (self.make.w_e(),)),))

    def positions(self) -> Operator:
        """From positions to the stream."""
        learned = self.config.positions == "learned"
        factor = self.make.w_pos() if learned else self.make.sinusoids(_sinusoidal)
        return chain(self.embed_norm(), (Step((), (factor,)),))

    def embed_norm(self) -> Operator:
        """The norm after the embedding, if there is one."""
        return (self.make.norm("embed"),) if self.config.embed_norm else ()

    def to_logits(self) -> Operator:
        """What happens to W_U's result: the multiplier, and the frozen cap."""
        capped = self.config.logit_cap is not None and self.cap == "ratio"
        cap = (self.make.cap(cap_ratios),) if capped else ()
        return chain(cap, self.make.multiplier("M_U", self.config.logit_multiplier, "d_out"))

    def unembedding(self) -> Operator:
        return chain(self.past_norm(), self.transformed())

    def transformed(self) -> Operator:
        """From the final stream through the transform, with the norm that it reads through; nothing where there is none."""
        read = (self.make.norm("before_transform"),) if self.config.transform_norm else ()
        return chain(self.make.transform(), read) if self.config.transform else ()

    def past_norm(self) -> Operator:
        """From what the final norm reads to the logits."""
        reads = (self.make.norm("final"),) if self.config.final_norm else ()
        return chain(self.to_logits(), (Step((), (self.make.w_u(),)),), reads)

    def normed(self) -> Operator:
        """From the final stream to what W_U reads: the transform and the final norm, where there are any."""
        reads = (self.make.norm("final"),) if self.config.final_norm else ()
        return chain(reads, self.transformed())

    def constants(self, sink: str = "U") -> Iterator[Source]:
        """The biases of transform, final norm and unembedding: all are read by the sink alone."""
        if sink != "U":
            yield from self._constants_before_unembedding(sink)
            return
        make, ones = self.make, self.make.ones
        yield from self._constants_of_transform(self.past_norm(), "U")
        if self.config.final_norm and make.has("b_final"):
            bias = make.constant("b_final", "d_model", "model", lambda w: w.b_final)
            operator = chain(self.to_logits(), (Step((ones(),), (make.w_u(), bias)),))
            yield Source("b_final", "norm bias", One(), depth=None, into={"U": operator})
        if make.has("b_U"):
            bias = make.constant("b_U", "d_out", make.outputs, lambda w: w.b_U)
            operator = chain(self.to_logits(), (Step((ones(),), (bias,)),))
            yield Source("b_U", "bias", One(), depth=None, into={"U": operator})

    def _constants_before_unembedding(self, sink: str) -> Iterator[Source]:
        """The biases of transform and final norm as they stand in what W_U reads."""
        make, ones = self.make, self.make.ones
        norm: Operator = (make.norm("final"),) if self.config.final_norm else ()
        yield from self._constants_of_transform(norm, sink)
        if self.config.final_norm and make.has("b_final"):
            bias = make.constant("b_final", "d_model", "model", lambda w: w.b_final)
            yield Source("b_final", "norm bias", One(), depth=None, into={sink: (Step((ones(),), (bias,)),)})

    def _constants_of_transform(self, past: Operator, sink: str) -> Iterator[Source]:
        """The bias of the norm before the transform and the transform's own; `past` is what follows them."""
        make = self.make
        if self.config.transform_norm and make.has("b_before_transform"):
            bias = make.constant("b_before_transform", "d_model", "model", lambda w: w.b_before_transform)
            operator = chain(past, make.transform(), (Step((make.ones(),), (bias,)),))
            yield Source("b_before_transform", "norm bias", One(), depth=None, into={sink: operator})
        if self.config.transform and make.has("b_transform"):
            bias = make.constant("b_transform", "d_model", "model", lambda w: w.b_transform)
            operator = chain(past, make.transform()[:1], (Step((make.ones(),), (bias,)),))
            yield Source("b_transform", "bias", One(), depth=None, into={sink: operator})


def cap_ratios(run: Trace) -> Array:
    """What a soft-cap leaves of every logit: capped / uncapped, 1 at zero."""
    before = run.logits_before_cap
    return np.divide(run.logits, before, out=np.ones_like(before), where=before != 0)


def _sinusoidal(run: Trace) -> Array:
    return sinusoids(len(run.tokens), run.config.d_model).T
