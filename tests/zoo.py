"""Tiny models by name, each made on demand.

``ZOO`` has every switch of the attention-only transformer, ``FAMILIES`` one model as each published family
has it, and the switches that only those have.

Shapes are adversarial on purpose: d_head != d_model / n_heads, fewer key/value heads than heads, nothing
square or symmetric, gains that are not constant, biases that are not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from pathexp.model.handmade import induction_model, random_model, zero_layer_bigram
from pathexp.model.latent import Latent
from pathexp.model.model import Model
from pathexp.model.rotary import Dynamic, Linear, Llama3, LongRope, Rotary, Yarn
from pathexp.model.routing import Experts

Maker = Callable[[], Model]


def bigram() -> Model:
    """Zero layers, a table that is not symmetric."""
    return zero_layer_bigram(np.random.default_rng(5).standard_normal((7, 7)))


_small = partial(random_model, d_model=14, d_head=3, d_vocab=11, n_ctx=40)

ZOO: Mapping[str, Maker] = {
    "bigram": bigram,
    "induction": partial(induction_model, d_vocab=6, n_ctx=12),
    "0L": partial(_small, layers=0, heads=1, biases=True, seed=1),
    "0L-final-layernorm": partial(_small, layers=0, heads=2, norm="layernorm", biases=True, seed=2),
    "1L-none": partial(_small, layers=1, heads=1, positions="none", seed=3),
    "1L-qk-biases": partial(_small, layers=1, heads=3, positions="qk", biases=True, seed=4),
    "1L-layernorm": partial(_small, layers=1, heads=2, norm="layernorm", biases=True, seed=5),
    "1L-bidirectional": partial(_small, layers=1, heads=2, causal=False, biases=True, seed=6),
    "2L-plain": partial(_small, layers=2, heads=2, seed=7),
    "2L-qk": partial(_small, layers=2, heads=3, positions="qk", seed=8),
    "2L-qk-rmsnorm-biases": partial(
        _small, layers=2, heads=2, positions="qk", norm="rmsnorm", biases=True, seed=9
    ),
    "2L-layernorm-no-gain": partial(_small, layers=2, heads=2, norm="layernorm", seed=10),
    "2L-layernorm-no-final": partial(
        _small, layers=2, heads=2, norm="layernorm", final_norm=False, biases=True, seed=11
    ),
    "2L-gqa": partial(_small, layers=2, heads=4, kv_heads=2, norm="rmsnorm", biases=True, seed=12),
    "2L-mqa-no-positions": partial(
        _small, layers=2, heads=3, kv_heads=1, positions="none", biases=True, seed=13
    ),
    "2L-scale": partial(
        _small, layers=2, heads=2, attention_scale=0.9, norm_eps=0.1, norm="rmsnorm", seed=14
    ),
    "3L-layernorm": partial(_small, layers=3, heads=2, norm="layernorm", biases=True, seed=15),
    "3L-one-head": partial(_small, layers=3, heads=1, positions="none", biases=True, seed=16),
}

_block = partial(_small, layers=2, heads=2, d_mlp=17, biases=True)
_turned = partial(_block, heads=4, kv_heads=2, d_head=4, positions="rotary", norm="rmsnorm")
_llama = partial(_turned, gated=True, activation="silu")
_mixture = partial(_llama, d_mlp=0)

FAMILIES: Mapping[str, Maker] = {
    "gpt2": partial(_block, norm="layernorm", activation="gelu_tanh", tied=True, seed=31),
    "original": partial(
        _block, positions="sinusoidal", norm="layernorm", norm_placement="post", activation="relu", seed=32
    ),
    "bert": partial(
        _block, norm="layernorm", norm_placement="post", embed_norm=True, causal=False, tied=True, seed=33
    ),
    "bert-masked-token-head": partial(
        _block, norm="layernorm", norm_placement="post", embed_norm=True, causal=False, tied=True,
        transform=True, final_norm=True, seed=51,
    ),
    "bert-pooler": partial(
        _block, norm="layernorm", norm_placement="post", embed_norm=True, causal=False, transform=True,
        transform_activation="tanh", final_norm=False, seed=59,
    ),
    "modernbert": partial(
        _block, d_head=4, norm="layernorm", embed_norm=True, first_norm=False, causal=False, gated=True, tied=True,
        positions="rotary", rotaries=(Rotary(base=500.0), Rotary(base=20.0)), windows=(None, 3), transform=True,
        transform_norm=True, seed=60,
    ),
    "neox": partial(
        _block, d_head=6, positions="rotary", rotary=Rotary(dims=2), norm="layernorm", parallel="separate", seed=34
    ),
    "neox-sequential": partial(
        _block, d_head=6, positions="rotary", rotary=Rotary(dims=4), norm="layernorm", seed=35
    ),
    "gptj": partial(
        _block, d_head=6, positions="rotary", rotary=Rotary(dims=4, pairing="adjacent"), norm="layernorm",
        parallel="shared", activation="gelu_tanh", seed=36,
    ),
    "bloom": partial(
        _block, heads=3, positions="alibi", norm="layernorm", embed_norm=True, activation="gelu_tanh", seed=37
    ),
    "mpt": partial(
        _block, heads=3, positions="alibi", head_slopes=(0.0625, 0.7, 0.004), norm="layernorm", tied=True, seed=52
    ),
    "nemotron": partial(_turned, rotary=Rotary(dims=2), norm="layernorm", activation="relu2", seed=53),
    "llama": partial(_llama, seed=38),
    "llama3": partial(_llama, rotary=Rotary(base=500.0, scaling=Llama3(
        factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=30)), seed=39),
    "yarn": partial(_llama, rotary=Rotary(scaling=Yarn(factor=4.0, original_n_ctx=10)), seed=40),
    "linear": partial(_llama, rotary=Rotary(scaling=Linear(factor=2.0), pairing="adjacent"), seed=41),
    "dynamic": partial(_llama, rotary=Rotary(base=50.0, scaling=Dynamic(factor=3.0, original_n_ctx=4)), seed=55),
    "longrope": partial(_llama, rotary=Rotary(base=50.0, scaling=LongRope(
        short=(1.0, 1.5), long=(1.2, 6.0), original_n_ctx=4, attention_factor=1.3)), seed=56),
    "smollm3": partial(_llama, rotaries=(Rotary(base=50.0), None), tied=True, seed=57),
    "gemma3": partial(
        _turned, gated=True, activation="gelu_tanh", norm_placement="sandwich", qk_norm="head", windows=(4, None),
        rotaries=(Rotary(base=20.0), Rotary(base=500.0, scaling=Linear(factor=2.0))), tied=True, seed=58,
    ),
    "mistral": partial(_llama, windows=5, seed=42),
    "qwen3": partial(_llama, qk_norm="head", seed=43),
    "gemma2": partial(
        _turned, gated=True, activation="gelu_tanh", norm_placement="sandwich", attention_cap=2.0, logit_cap=3.0,
        windows=(4, None), embedding_multiplier=14**0.5, attention_scale=0.4, tied=True, seed=44,
    ),
    "cohere": partial(
        _turned, rotary=Rotary(dims=4, pairing="adjacent"), qk_norm="layernorm", norm="layernorm", parallel="shared",
        gated=True, activation="silu", logit_multiplier=0.125, tied=True, seed=54,
    ),
    "olmo2": partial(_llama, norm_placement="branch", qk_norm="projection", seed=45),
    "granite": partial(
        _llama, embedding_multiplier=3.0, residual_multiplier=0.22, logit_multiplier=0.125,
        attention_scale=0.3, seed=46,
    ),
    "microgpt": partial(
        _block, heads=4, d_head=4, d_model=16, norm="rmsnorm", embed_norm=True, final_norm=False,
        activation="relu", biases=False, seed=47,
    ),
    "mixtral": partial(_mixture, experts=Experts(count=3, chosen=2, width=7, normalized=True), seed=61),
    "qwen-moe": partial(
        _llama, qk_norm="head",
        experts=Experts(count=3, chosen=2, width=6, layers=(0,), shared=8, shared_gate=True), seed=62,
    ),
    "sinks": partial(_block, sinks=True, windows=(3, None), norm="layernorm", activation="relu", seed=68),
    "gpt-oss": partial(
        _mixture, sinks=True, windows=(4, None), activation="quick_gelu", rotary=Rotary(scaling=Yarn(factor=4.0, original_n_ctx=10)),
        experts=Experts(count=3, chosen=2, width=6, normalized=True, limit=0.9, shift=1.0), seed=69,
    ),
    "deepseek-v2": partial(
        _llama, kv_heads=4, d_head=7, rotary=Rotary(pairing="adjacent"),
        latent=Latent(rank=6, d_shared=4, d_value=5, query_rank=8, eps=1e-3),
        experts=Experts(count=3, chosen=2, width=6, layers=(1,), shared=4), seed=70,
    ),
    "latent-as-wide-as-the-stream": partial(
        _block, heads=2, d_head=5, positions="alibi", norm="layernorm", latent=Latent(rank=14, d_shared=2, d_value=5), seed=71,
    ),
    "relu-gated-no-norm": partial(_block, activation="relu", gated=True, positions="qk", seed=48),
    "parallel-no-norm": partial(_block, parallel="shared", positions="none", seed=49),
    "bidirectional-window": partial(_block, causal=False, windows=(3, None), norm="layernorm", seed=50),
}  # fmt: skip

MORE_EXPERTS: Mapping[str, Maker] = {
    "experts-with-limits": partial(
        _mixture, norm="layernorm", experts=Experts(count=3, chosen=2, width=7, limit=0.4, shift=1.0), seed=64,
    ),
    "experts-parallel": partial(
        _mixture, norm="layernorm", parallel="shared", experts=Experts(count=3, chosen=2, width=7, shared=3, shared_gate=True),
        seed=67,
    ),
    "experts-in-groups": partial(
        _llama, experts=Experts(
            count=6, chosen=3, width=5, layers=(1,), shared=4, scoring="sigmoid", normalized=True, multiplier=2.5,
            groups=3, chosen_groups=2, by_two=True,
        ), seed=63,
    ),
    "experts-between-norms": partial(
        _mixture, gated=False, activation="gelu", norm="layernorm", norm_placement="sandwich", residual_multiplier=0.3,
        experts=Experts(count=3, chosen=1, width=7), seed=65,
    ),
    "experts-post-norm": partial(
        _block, d_mlp=0, norm="layernorm", norm_placement="post", experts=Experts(count=3, chosen=1, width=7, shared=3),
        seed=66,
    ),
}  # fmt: skip
"""More mixtures of experts: other routers, other norms. They go through the laws of tests/graph/test_paths_through_experts.py alone."""

_latent = partial(_turned, kv_heads=4, d_head=7, latent=Latent(rank=6, d_shared=4, d_value=5, query_rank=8))

MORE_LATENTS: Mapping[str, Maker] = {
    "latent-no-query-rank": partial(_latent, latent=Latent(rank=9, d_shared=2, d_value=8), d_mlp=0, layers=3, seed=72),
    "latent-parallel": partial(_latent, norm="layernorm", parallel="shared", gated=True, seed=73),
    "latent-between-norms": partial(
        _latent, norm="layernorm", norm_placement="sandwich", residual_multiplier=0.3, attention_cap=2.0, logit_cap=3.0, seed=74,
    ),
    "latent-post-norm": partial(_latent, norm="layernorm", norm_placement="post", causal=False, windows=(3, None), seed=75),
    "latent-branch-norm-sinks": partial(_latent, norm_placement="branch", sinks=True, embed_norm=True, seed=76),
    "latent-no-norm": partial(_latent, norm=None, positions="learned", tied=True, seed=77),
    "latent-no-biases": partial(_latent, biases=False, seed=78),
    "latent-experts": partial(
        _latent, gated=True, rotary=Rotary(pairing="adjacent", scaling=Yarn(factor=4.0, original_n_ctx=10)),
        experts=Experts(
            count=6, chosen=3, width=5, layers=(1,), shared=4, scoring="sigmoid", normalized=True, multiplier=2.5,
            groups=3, chosen_groups=2, by_two=True,
        ), seed=79,
    ),
}  # fmt: skip
"""More of latent attention: every placement of norms. They go through the laws of tests/graph/test_paths_through_latents.py alone."""
