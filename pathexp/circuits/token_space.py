"""Tokens into the stream and out of it: the linear maps at both ends of a model, as weights give them.

What a token table shows is linear in the embedding, so it holds gains, centerings and multipliers, and leaves
out what depends on a run: the scales 1/σ of norms, and constants. Elhage et al. 2021, footnote on layer norm.
"""

from __future__ import annotations

import numpy as np

from ..algebra import Dense, Diagonal, Identity, LinearMap, Space, add, compose, scale
from ..errors import PathexpError
from ..model import Config, Model

VOCAB, MODEL, HEAD = "vocab", "model", "head"


def embedding(model: Model) -> LinearMap:
    """Return the map from tokens to the stream, (d_model, d_vocab): W_E, with what follows it."""
    c, w = model.config, model.weights
    table = Dense(w.W_E, Space(MODEL, c.d_model), Space(VOCAB, c.d_vocab), "W_E")
    return compose(*norm(model, "embed", c.embed_norm), scale(c.embedding_multiplier, table))


def unembedding(model: Model) -> LinearMap:
    """Return the map from the stream to the logits, (d_out, d_model): W_U, with what stands before it."""
    c, w = model.config, model.weights
    table = Dense(w.W_U, outputs(c), Space(MODEL, c.d_model), "W_U")
    return compose(scale(c.logit_multiplier, table), *norm(model, "final", c.final_norm))


def outputs(config: Config) -> Space:
    """Return the space of a model's outputs: that of tokens, or one of its own where they are no tokens."""
    return Space(VOCAB if config.predicts_tokens else "outputs", config.d_out)


def reading(model: Model, layer: int) -> tuple[LinearMap, ...]:
    """Return what the heads of a layer read the stream through: nothing, or (gain, centering)."""
    return norm(model, "attn", "attn" in model.config.block_norms, layer)


def writing(model: Model, layer: int) -> tuple[LinearMap, ...]:
    """Return what the heads of a layer write to the stream through: nothing, or a norm and a multiplier."""
    c = model.config
    after = norm(model, "attn_post", "attn_post" in c.block_norms, layer)
    if c.residual_multiplier == 1.0:
        return after
    return (scale(c.residual_multiplier, Identity(Space(MODEL, c.d_model))), *after)


def norm(model: Model, name: str, there: bool, layer: int | None = None) -> tuple[LinearMap, ...]:
    """Return a norm without its scale and bias as (gain, centering), each only where there is one."""
    if not there:
        return ()
    space, gains = Space(MODEL, model.config.d_model), getattr(model.weights, f"g_{name}")
    label = f"G_{name}" if layer is None else f"G_L{layer}_{name}"
    found: list[LinearMap] = []
    if gains is not None:
        found.append(Diagonal(gains if layer is None else gains[layer], space, label))
    if model.config.norm == "layernorm":
        found.append(centering(space))
    return tuple(found)


def centering(space: Space) -> LinearMap:
    """Return the map that takes the mean off, the identity minus a map of rank one."""
    one, column = Space("one", 1), np.ones((space.size, 1))
    mean = compose(Dense(column, space, one), Dense(column.T / space.size, one, space))
    return add(Identity(space), scale(-1.0, mean))


def has_token_space(config: Config) -> bool:
    """Whether tables between tokens can be read off the weights: not where norms stand on the stream."""
    return config.norm_placement != "post" or not (config.n_layers or config.transform)


def require_token_space(config: Config) -> None:
    """Raise PathexpError for a model whose norms stand on the stream, where no table is read off the weights."""
    if not has_token_space(config):
        raise PathexpError(
            "token tables cannot be read off the weights of a post-norm model: the norms on its stream stand "
            "between tokens and heads. Expand a run instead: px.expand(trace)['E L0H0 U'].weight"
        )
