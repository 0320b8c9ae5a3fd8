"""Small models made from a seed or by hand."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import TEXT, TRUTH, check, check_names, expect, whole
from ..errors import ConfigError
from .config import Config
from .model import Model
from .weights import Array, Expected, Weights, expected


def random_model(
    *,
    layers: int = 2,
    heads: int = 3,
    d_model: int = 24,
    d_head: int = 5,
    d_vocab: int = 11,
    n_ctx: int = 40,
    kv_heads: int | None = None,
    norm: str | None = None,
    positions: str = "learned",
    biases: bool = False,
    seed: int = 0,
    name: str = "random",
    **switches: Any,
) -> Model:
    """A model of random weights, scaled so that activations stay of the order of one at any size.

    With ``biases``, every bias is nonzero and every norm gain differs from one; without, they are left out.
    ``switches`` are further fields of Config. The same arguments give the same numbers.

    Raises ConfigError as Config does.

    >>> model = random_model(layers=1, heads=4, kv_heads=2, norm="rmsnorm", biases=True, seed=3)
    >>> model.weights.W_K.shape, model.weights.g_attn.shape
    ((1, 2, 5, 24), (1, 24))
    """
    expect("random_model", biases=(biases, TRUTH))
    for name_in_config, ours in _RENAMED.items():
        if name_in_config in switches:
            raise ConfigError(
                f"random_model takes {ours}=, not {name_in_config}=, which is its name in Config."
            )
    check_names(
        "random_model", switches, (_RENAMED.get(field.name, field.name) for field in fields(Config)), ()
    )
    int(check("seed", seed, whole(0), ConfigError))
    config = Config(
        n_layers=layers, n_heads=heads, n_kv_heads=kv_heads, d_model=d_model, d_head=d_head,  # type: ignore[arg-type]
        d_vocab=d_vocab, n_ctx=n_ctx, norm=norm, positions=positions, **switches,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    places = {n: p for n, p in expected(config).items() if p.required or biases}
    arrays = {name: _draw(name, place, config, rng) for name, place in places.items()}
    if config.tied:
        arrays["W_U"] = arrays["W_E"].T
    return Model(config, Weights(**arrays), name=name)


_RENAMED = {"n_layers": "layers", "n_heads": "heads", "n_kv_heads": "kv_heads"}


def _draw(name: str, place: Expected, config: Config, rng: np.random.Generator) -> Array:
    values = rng.standard_normal(place.shape)
    made: Array = _around(name) + _spread(name, place, config) * values
    if place.layers is not None:
        made[[layer for layer in range(config.n_layers) if layer not in place.layers]] = 0.0
    return made


def _around(name: str) -> float:
    return 1.0 if name.startswith("g_") else 0.0


def _spread(name: str, place: Expected, config: Config) -> float:
    """The standard deviation that keeps what an array makes of order one."""
    if name in ("W_E", "W_pos"):
        small = config.tied and config.norm is not None  # W_U is as large, and the norm brings the stream up
        return 1 / math.sqrt(config.d_model) if small else math.sqrt(0.5)
    if name.startswith(("g_", "b_")):
        return 0.3
    if name == "sinks":
        return 1.0
    inputs = place.shape[-1]
    if name == "W_O":
        heads = config.n_heads * max(config.n_layers, 1)
        return 1 / math.sqrt(inputs * heads)  # all heads together add order one
    if name.startswith("W_out"):
        return 1 / math.sqrt(inputs * max(config.n_layers, 1))
    return 1 / math.sqrt(inputs)


def zero_layer_bigram(table: npt.ArrayLike, *, n_ctx: int = 64, name: str = "bigram") -> Model:
    """The zero-layer model whose logits are a given table, (next token, this token), in nats.

    W_E is the identity and W_U the table, so that W_U W_E is the table. Elhage et al. 2021,
    "Zero-Layer Transformers".

    Raises ConfigError if the table is not square, WeightsError if it is not finite.

    >>> zero_layer_bigram([[0.0, 2.0], [1.0, 0.0]]).run([1]).logits.tolist()
    [[2.0, 0.0]]
    """
    values = np.asarray(table)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise ConfigError(f"a bigram table is square, (next token, this token); found shape {values.shape}.")
    size = len(values)
    config = Config(n_layers=0, n_heads=1, d_model=size, d_head=1, d_vocab=size, n_ctx=n_ctx)
    unused = np.zeros((0, 1, 1, size))
    weights = Weights(
        W_E=np.eye(size), W_Q=unused, W_K=unused, W_V=unused, W_O=np.zeros((0, 1, size, 1)), W_U=values
    )
    return Model(config, weights, name=name)


def induction_model(*, d_vocab: int = 8, n_ctx: int = 16, name: str = "induction") -> Model:
    """An induction circuit built by hand: two attention-only layers of one head, learned positions, no norm.

    The stream is four blocks of one-hot vectors: this token | position | previous token | prediction.

    * L0H0, the previous-token head: the query at position i is the one-hot of i - 1, the key that of the
      key's own position, so that it looks one back (position 0 can only see itself); it copies the
      token it finds into the block "previous token".
    * L1H0, the induction head: the query is this token, the key the block "previous token"
      (K-composition with L0H0), so that it looks at what followed this token before. Position 0, whose
      "previous token" is not true, is kept out by a score of its own. It copies the token it finds into
      the block "prediction".
    * W_U reads "prediction" alone. Where this token has not been seen before, attention and prediction are
      spread evenly over the tokens read so far, the first apart.

    Scores are log(n_ctx) + 12, large enough for attention above .9999. Elhage et al. 2021,
    "Induction Heads"; Olsson et al. 2022.

    >>> model = induction_model()
    >>> model.run([5, 2, 7, 3, 5, 2]).top_token()
    7
    """
    expect("induction_model", d_vocab=(d_vocab, whole(1)), n_ctx=(n_ctx, whole(1)), name=(name, TEXT))
    blocks = _Blocks(d_vocab, n_ctx)
    config = Config(
        n_layers=2, n_heads=1, d_model=blocks.size, d_head=max(n_ctx, d_vocab + 1),
        d_vocab=d_vocab, n_ctx=n_ctx, positions="learned", attention_scale=1.0,
    )  # fmt: skip
    sharp = math.log(n_ctx) + 12
    Q, K = np.zeros((2, 2, 1, config.d_head, config.d_model))
    V, O = np.zeros((2, 1, config.d_head, config.d_model)), np.zeros((2, 1, config.d_model, config.d_head))
    place, token = np.arange(n_ctx), np.arange(d_vocab)

    Q[0, 0, place[:-1], blocks.position + place[1:]] = sharp  # i asks for i - 1
    K[0, 0, place, blocks.position + place] = 1
    V[0, 0, token, blocks.token + token] = 1
    O[0, 0, blocks.previous + token, token] = 1

    Q[1, 0, token, blocks.token + token] = sharp
    K[1, 0, token, blocks.previous + token] = 1
    Q[1, 0, d_vocab, blocks.position + place] = sharp  # the same at every position
    K[1, 0, d_vocab, blocks.position] = -2  # of position 0 alone
    V[1, 0, token, blocks.token + token] = 1
    O[1, 0, blocks.prediction + token, token] = 1

    weights = Weights(
        W_E=blocks.one_hot(blocks.token, d_vocab), W_pos=blocks.one_hot(blocks.position, n_ctx),
        W_Q=Q, W_K=K, W_V=V, W_O=O,
        W_U=(math.log(d_vocab) + 12) * blocks.one_hot(blocks.prediction, d_vocab).T,
    )  # fmt: skip
    return Model(config, weights, name=name)


class _Blocks:
    """Where each block of the stream begins."""

    def __init__(self, d_vocab: int, n_ctx: int) -> None:
        self.token, self.position = 0, d_vocab
        self.previous, self.prediction = d_vocab + n_ctx, 2 * d_vocab + n_ctx
        self.size = 3 * d_vocab + n_ctx

    def one_hot(self, start: int, count: int) -> Array:
        """Unit vectors into a block, (d_model, count)."""
        table = np.zeros((self.size, count))
        table[start + np.arange(count), np.arange(count)] = 1
        return table
