"""Models written by hand that do induction another way, or only seem to."""

from __future__ import annotations

import math

import numpy as np

from pathexp import Config, Model, Weights

BEGIN = 0


def pointer_induction(d_vocab=12, n_ctx=24, reach=None):
    """Induction by Q-composition, with a sink: token 0 begins a text, and is attended to where nothing is found.

    The stream is token | position | constant | place of the earlier copy | prediction. L0H0 attends to the earlier copy of
    this token, or to the begin token, and writes its place; L1H0's queries ask for the place after it, its OV copies the
    token there. `reach`: only places below it are ever asked for.
    """
    place, token = np.arange(n_ctx), np.arange(d_vocab)
    position, constant = d_vocab, d_vocab + n_ctx
    earlier, prediction = constant + 1, constant + 1 + n_ctx
    size, sharp = prediction + d_vocab, math.log(n_ctx) + 12
    d_head = d_vocab + n_ctx + 1
    Q, K, V = (np.zeros((2, 1, d_head, size)) for _ in range(3))
    O = np.zeros((2, 1, size, d_head))

    Q[0, 0, token, token] = 2 * sharp  # the same token …
    K[0, 0, token, token] = 1
    Q[0, 0, d_vocab + place, position + place] = -2 * sharp  # … but not this one
    K[0, 0, d_vocab + place, position + place] = 1
    Q[0, 0, -1, constant] = sharp  # or the sink
    K[0, 0, -1, BEGIN] = 1
    V[0, 0, place, position + place] = 1
    O[0, 0, earlier + place, place] = 1

    asked = place[: reach or n_ctx][:-1]
    Q[1, 0, np.where(asked == 0, 0, asked + 1), earlier + asked] = sharp
    K[1, 0, place, position + place] = 1
    V[1, 0, token, token] = 1
    O[1, 0, prediction + token, token] = 1

    W_E, W_pos, W_U = np.zeros((size, d_vocab)), np.zeros((size, n_ctx)), np.zeros((d_vocab, size))
    W_E[token, token] = 1
    W_pos[position + place, place] = W_pos[constant, place] = 1
    W_U[token, prediction + token] = sharp
    config = Config(
        n_layers=2, n_heads=1, d_model=size, d_head=d_head, d_vocab=d_vocab, n_ctx=n_ctx, positions="learned",
        attention_scale=1.0,
    )  # fmt: skip
    return Model(config, Weights(W_E=W_E, W_pos=W_pos, W_Q=Q, W_K=K, W_V=V, W_O=O, W_U=W_U), name="pointer")


def looks_back(offset, d_vocab=12, n_ctx=24):
    """One head that attends `offset` tokens back, whatever they are, and copies what it finds."""
    place, token, sharp = np.arange(n_ctx), np.arange(d_vocab), math.log(n_ctx) + 12
    size, d_head = 2 * d_vocab + n_ctx, max(n_ctx, d_vocab)
    Q, K, V = (np.zeros((1, 1, d_head, size)) for _ in range(3))
    O = np.zeros((1, 1, size, d_head))
    Q[0, 0, np.maximum(place - offset, 0), d_vocab + place] = sharp
    K[0, 0, place, d_vocab + place] = 1
    V[0, 0, token, token] = 1
    O[0, 0, d_vocab + n_ctx + token, token] = 1
    W_E, W_pos, W_U = np.zeros((size, d_vocab)), np.zeros((size, n_ctx)), np.zeros((d_vocab, size))
    W_E[token, token] = W_pos[d_vocab + place, place] = 1
    W_U[token, d_vocab + n_ctx + token] = sharp
    config = Config(
        n_layers=1, n_heads=1, d_model=size, d_head=d_head, d_vocab=d_vocab, n_ctx=n_ctx, positions="learned",
        attention_scale=1.0,
    )  # fmt: skip
    return Model(
        config, Weights(W_E=W_E, W_pos=W_pos, W_Q=Q, W_K=K, W_V=V, W_O=O, W_U=W_U), name="looks back"
    )
