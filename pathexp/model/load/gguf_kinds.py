"""The architectures of GGUF: what each has of its own, by ``general.architecture``.

Names and meanings: ggml-org/llama.cpp, gguf-py/gguf/constants.py and src/models. Where llama.cpp computes a GELU by its
tanh form, or rounds the ends of YaRN's passage, whatever the family's own is, the family's own is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..rotary import Rotary, Yarn
from .checkpoint import Shape
from .families.llama import embedding_scale
from .families.mpt import slopes
from .gguf_experts import experts_of, gpt_oss_experts
from .gguf_keys import GgufKeys
from .gguf_latent import latent_fields
from .options import Options

Fields = Mapping[str, Any]
Shapes = Mapping[str, Shape]

_PRE = {"attn_norm": "attn", "ffn_norm": "mlp"}
_SHARED = {"attn_norm": "attn"}
_BRANCH = {"post_attention_norm": "attn_post", "post_ffw_norm": "mlp_post"}
_POST = {"attn_output_norm": "attn_post", "layer_output_norm": "mlp_post"}
_QKV = ("attn_q", "attn_k", "attn_v")
_MLP = ("ffn_up", "ffn_down")


def alike(keys: GgufKeys, turned: Rotary) -> Fields:
    """All layers turn alike."""
    return {"rotary": turned}


def nothing(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    """No fields of its own."""
    return {}


@dataclass(frozen=True)
class Kind:
    """One architecture: configuration fields of its own, its norms by their names, what must have a bias.

    ``pairing`` of rotary positions, None where there are none; ``turned``: how its layers turn, by the rotary positions that
    the keys tell; ``turns``: whether frequencies may be divided by stored factors; ``fused_gate``: gate and up are one
    tensor; ``bare``: LayerNorms may have no bias; ``unembedded``: a file without an unembedding means the embedding;
    ``sparse``: it may have experts; ``latent``: its attention is latent. Any map may have a bias.
    """

    fields: Callable[[GgufKeys, Shapes, Options], Fields] = nothing
    turned: Callable[[GgufKeys, Rotary], Fields] = alike
    norms: Mapping[str, str] | None = None
    norm: str = "rmsnorm"
    pairing: str | None = "half"
    positions: str = "rotary"
    activation: str = "silu"
    gated: bool = True
    fused_gate: bool = False
    qk_norm: str | None = None
    biased: tuple[str, ...] = ()
    turns: bool = False
    bare: bool = False
    causal: bool = True
    unembedded: bool = True
    sparse: bool = False
    latent: bool = False

    @property
    def norm_names(self) -> Mapping[str, str]:
        """The norms of a block, by their names in a file, to ours."""
        return _PRE if self.norms is None else self.norms


def _everywhere(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    """One window for all layers, as Mistral and Phi-3 have it."""
    return {"windows": keys.get("attention.sliding_window") or None}


def _gemma(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    return {"embedding_multiplier": embedding_scale(keys.size("embedding_length"), options.embedding_scale)}


def _gemma2(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    return {
        **_gemma(keys, shapes, options),
        "norm_placement": "sandwich",
        "attention_scale": _gemma_scale(keys, 46),
        "attention_cap": keys.assumed_number("attn_logit_softcapping", 50.0),
        "logit_cap": keys.assumed_number("final_logit_softcapping", 30.0),
        "windows": keys.windows(keys.size("attention.sliding_window", 4096), 2),
    }


def _gemma_scale(keys: GgufKeys, largest: int) -> float:
    """One over the root of a head's size; the model of 27 billion, told by its layers, divides d_model by its heads."""
    d_model, n_heads = keys.size("embedding_length"), keys.even("attention.head_count")
    if keys.size("block_count") == largest:
        return float((d_model / n_heads) ** -0.5)
    return float(keys.size("attention.key_length", max(1, d_model // n_heads)) ** -0.5)


def _granite(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    keys.must_be("rope.scaling.finetuned", True, "layers without rotary positions are not known here")
    scale = keys.number("attention.scale", 0.0)
    return {
        "embedding_multiplier": keys.number("embedding_scale", 0.0) or 1.0,
        "residual_multiplier": keys.number("residual_scale", 0.0) or 1.0,
        "logit_multiplier": keys.inverse("logit_scale", 1.0),
        **({"attention_scale": scale} if scale else {}),
    }


def _olmo2(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    return {"norm_placement": "branch", "windows": _sliding(keys, 4)}


def _olmo2_turned(keys: GgufKeys, turned: Rotary) -> Fields:
    """Layers with a window turn as before the context was stretched."""
    return _by_window(
        keys, 4, replace(turned, scaling=None, base=keys.number("rope.freq_base_swa", turned.base)), turned
    )


def _sliding(keys: GgufKeys, period: int) -> tuple[int | None, ...] | None:
    """The windows of the layers, none where no width is told or it is zero."""
    return keys.windows(
        keys.size("attention.sliding_window") if keys.get("attention.sliding_window") else None, period
    )


def _by_window(keys: GgufKeys, period: int, sliding: Rotary | None, full: Rotary | None) -> Fields:
    """One way to turn for layers with a window, another for those without."""
    found = _sliding(keys, period)
    if found is None:
        return {"rotary": full} if full is not None else {"rotaries": (None,) * keys.size("block_count")}
    return {"rotaries": tuple(full if width is None else sliding for width in found)}


def _gemma3(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    return {
        **_gemma(keys, shapes, options),
        "norm_placement": "sandwich",
        "attention_scale": _gemma_scale(keys, 62),
        "logit_cap": keys.number("final_logit_softcapping", 0.0) or None,
        "windows": _sliding(keys, 6),
    }


def _gemma3_turned(keys: GgufKeys, turned: Rotary) -> Fields:
    """Layers with a window turn by a base of their own, and are not stretched."""
    base = keys.number("rope.freq_base_swa", 10000.0)
    return _by_window(keys, 6, replace(turned, base=base, scaling=None), turned)


def _smollm3_turned(keys: GgufKeys, turned: Rotary) -> Fields:
    """Each fourth layer is not turned."""
    return {
        "rotaries": tuple(turned if (layer + 1) % 4 else None for layer in range(keys.size("block_count")))
    }


def _cohere2(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    return {**_command_r(keys, shapes, options), "windows": _sliding(keys, 4)}


def _cohere2_turned(keys: GgufKeys, turned: Rotary) -> Fields:
    """Layers without a window are not turned."""
    return _by_window(keys, 4, turned, None)


def _stablelm(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    keys.switch("use_parallel_residual", True)  # told by the norm of the MLP, which is there or not
    return {**_normed_heads(shapes), "parallel": None if "blk.0.ffn_norm.weight" in shapes else "shared"}


def _normed_heads(shapes: Shapes) -> Fields:
    """Queries and keys pass a LayerNorm of each head where the file has their gains."""
    return {"qk_norm": "layernorm"} if "blk.0.attn_q_norm.weight" in shapes else {}


def _mpt(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    keys.must_be("attention.max_alibi_bias", 8.0, "other slopes are not known here")
    n_heads = keys.even("attention.head_count")
    if n_heads > keys.size("embedding_length"):
        raise keys.error(f"'attention.head_count' is {n_heads}, more than the numbers of the stream")
    return {"head_slopes": slopes(n_heads)}


def _parallel(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    """Attention and MLP beside each other, through two norms, or one after the other, as the file says."""
    return {"parallel": "separate" if keys.switch("use_parallel_residual", True) else None}


def _one_norm(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    """Attention and MLP beside each other, through one norm."""
    return {"parallel": "shared"}


def _falcon(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    keys.get("tensor_data_layout")  # queries, keys and values one after another, as everywhere
    return {"parallel": "separate" if "blk.0.attn_norm_2.weight" in shapes else "shared"}


def _bloom(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    keys.must_be("attention.max_alibi_bias", 8.0, "other slopes are not known here")
    return {"embed_norm": True}


def _command_r(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    return {
        **_normed_heads(shapes),
        "parallel": "shared",
        "logit_multiplier": keys.number("logit_scale", 0.0) or 1.0,
    }


def _llama(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    keys.get("tensor_data_layout")  # told by old files; the same order of rows
    experts = experts_of(keys, normalized=True) if keys.get("expert_count") else {}
    keys.get("expert_used_count")
    return {**_everywhere(keys, shapes, options), **experts}


def _of_experts(
    keys: GgufKeys, shapes: Shapes, options: Options, *, normalized: bool, shared: bool = False
) -> Fields:
    """Experts in every layer."""
    return experts_of(keys, normalized=normalized, shared=shared)


def _gpt_oss(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    """Every other layer has a window, the first one too; gates are z σ(1.702 z)."""
    return {"sinks": True, "windows": _sliding(keys, 2), **gpt_oss_experts(keys)}


def _gpt_oss_turned(keys: GgufKeys, turned: Rotary) -> Fields:
    """The ends of YaRN's passage are no whole pair numbers, as in the family; llama.cpp rounds them."""
    scaling = turned.scaling
    return {
        "rotary": replace(
            turned, scaling=replace(scaling, truncate=False) if isinstance(scaling, Yarn) else scaling
        )
    }


def _bert(keys: GgufKeys, shapes: Shapes, options: Options) -> Fields:
    keys.get("pooling_type")  # what is made of the features afterwards
    return {
        "norm_placement": "post",
        "embed_norm": True,
        "final_norm": False,
    }


_GPT2 = Kind(
    norm="layernorm",
    pairing=None,
    positions="learned",
    activation="gelu_tanh",
    gated=False,
    biased=("attn_qkv", "attn_output", *_MLP),
)

KINDS: Mapping[str, Kind] = {
    "llama": Kind(_llama, pairing="adjacent", turns=True, sparse=True),
    "qwen2": Kind(biased=_QKV),
    "qwen3": Kind(qk_norm="head"),
    "olmoe": Kind(partial(_of_experts, normalized=False), qk_norm="projection", sparse=True),
    "qwen2moe": Kind(partial(_of_experts, normalized=False, shared=True), biased=_QKV, sparse=True),
    "qwen3moe": Kind(partial(_of_experts, normalized=True), qk_norm="head", sparse=True),
    "gpt-oss": Kind(
        _gpt_oss,
        turned=_gpt_oss_turned,
        norms={"attn_norm": "attn", "post_attention_norm": "mlp"},
        activation="quick_gelu",
        biased=(*_QKV, "attn_output"),
        sparse=True,
    ),
    "deepseek2": Kind(latent_fields, pairing="adjacent", sparse=True, latent=True),
    "gemma": Kind(_gemma, activation="gelu_tanh"),
    "gemma2": Kind(_gemma2, norms=_PRE | _BRANCH, activation="gelu_tanh"),
    "phi3": Kind(_everywhere, fused_gate=True, turns=True),
    "granite": Kind(_granite, pairing="adjacent", turns=True),
    "gemma3": Kind(
        _gemma3, turned=_gemma3_turned, norms=_PRE | _BRANCH, activation="gelu_tanh", qk_norm="head"
    ),
    "smollm3": Kind(turned=_smollm3_turned, pairing="adjacent"),
    "olmo": Kind(norms={}, norm="layernorm", pairing="adjacent"),
    "olmo2": Kind(_olmo2, turned=_olmo2_turned, norms=_BRANCH, qk_norm="projection"),
    "starcoder2": Kind(
        norm="layernorm",
        activation="gelu_tanh",
        gated=False,
        biased=(*_QKV, "attn_output", *_MLP),
    ),
    "command-r": Kind(_command_r, norms=_SHARED, norm="layernorm", pairing="adjacent", bare=True),
    "cohere2": Kind(
        _cohere2,
        turned=_cohere2_turned,
        norms=_SHARED,
        norm="layernorm",
        pairing="adjacent",
        bare=True,
    ),
    "nemotron": Kind(norm="layernorm", activation="relu2", gated=False),
    "stablelm": Kind(_stablelm, norm="layernorm"),
    "mpt": Kind(
        _mpt, norm="layernorm", pairing=None, positions="alibi", activation="gelu", gated=False, bare=True
    ),
    "phi2": Kind(
        _one_norm,
        norms=_SHARED,
        norm="layernorm",
        activation="gelu_tanh",
        gated=False,
        biased=("attn_output", *_MLP),
    ),
    "falcon": Kind(_falcon, norms=_SHARED, norm="layernorm", activation="gelu", gated=False),
    "gptneox": Kind(
        _parallel,
        norm="layernorm",
        activation="gelu",
        gated=False,
        biased=("attn_qkv", "attn_output", *_MLP),
    ),
    "gpt2": _GPT2,
    "starcoder": _GPT2,
    "bloom": Kind(
        _bloom,
        norm="layernorm",
        pairing=None,
        positions="alibi",
        activation="gelu_tanh",
        gated=False,
        biased=("attn_qkv", "attn_output", *_MLP),
    ),
    "bert": Kind(
        _bert,
        norms=_POST,
        norm="layernorm",
        pairing=None,
        positions="learned",
        activation="gelu",
        gated=False,
        biased=("attn_output", *_MLP),
        causal=False,
        unembedded=False,
    ),
}
"""The architectures that are known. A missing kind of norm or position of a row is refused by the tensors it leaves."""
