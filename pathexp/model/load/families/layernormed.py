"""Relatives of Llama whose norms are LayerNorms: StarCoder2, OLMo, Nemotron, StableLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...config import Config
from ..gather import Piece, Turn, as_it_is, one_more
from ..keys import Keys
from ..options import Options
from ..rope import rotary
from .head_norms import one_by_one, stacked
from .plan import Family, Plan, activation, windows
from .projections import GATED, LAYER, ROTARY_BUFFERS, mlp, projections, sizes

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """How a relative differs.

    ``fields``: configuration fields of its own; ``biases``: which of the projections "qkvo" have one, and
    whether the MLP has; ``gain``: how gains are stored, None where norms have no parameters; ``share`` of a
    head that turns where the configuration does not say.
    """

    fields: Callable[[Keys], Fields]
    biases: Callable[[Keys], tuple[str, bool]]
    epsilon_key: str | None
    activation: str
    mlp: Mapping[str, str] = field(default_factory=lambda: GATED)
    gain: Turn | None = as_it_is
    share: float = 1.0
    partial: bool = True


def _plan(kind: Kind, keys: Keys, options: Options) -> Plan:
    found = sizes(keys)
    config = Config(
        **{
            **found,
            "positions": "rotary",
            "rotary": rotary(keys, found["d_head"], share=kind.share, partial=kind.partial),
            "norm": "layernorm",
            "norm_eps": keys.assumed_number(kind.epsilon_key, 1e-5) if kind.epsilon_key else 1e-5,
            "activation": activation(keys, "hidden_act", kind.activation),
            "gated": "gate" in kind.mlp,
            **kind.fields(keys),
        }
    )
    projected, mlp_biased = kind.biases(keys)
    pieces = [*projections(config, projected), *mlp(config, dict(kind.mlp), mlp_biased)]
    pieces += _norms(config, kind.gain)
    if config.qk_norm is None:
        return Plan(config, pieces, ROTARY_BUFFERS)
    pieces += one_by_one(config, LAYER + "self_attn.{side}_layernorm.norms.{head}")
    return Plan(config, pieces, ROTARY_BUFFERS, finish=stacked)


def _norms(c: Config, gain: Turn | None) -> Iterator[Piece]:
    if gain is None:
        return
    names = {"attn": LAYER + "input_layernorm", "mlp": LAYER + "post_attention_layernorm"}
    for ours, theirs in ({name: names[name] for name in c.block_norms} | {"final": "model.norm"}).items():
        yield Piece(f"{theirs}.weight", (c.d_model,), {f"g_{ours}": gain})
        yield Piece(f"{theirs}.bias", (c.d_model,), {f"b_{ours}": as_it_is})


def _starcoder2(keys: Keys) -> Fields:
    keys.must_be("norm_type", "layer_norm", "another norm is not known here")
    keys.must_be("mlp_type", "default", "another MLP is not known here")
    for unread in ("activation_function", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"):
        keys.get(unread)  # stored beside hidden_act, and read by nothing
    keys.must_be("scale_attn_weights", True, "scores without their scale are not known here")
    width = keys.get("sliding_window")
    return {"windows": windows(keys, keys.size("num_hidden_layers"), width, lambda layer: True)}


def _starcoder2_biases(keys: Keys) -> tuple[str, bool]:
    biased = keys.switch("use_bias", True)
    return "qkvo" * biased, biased


def _olmo(keys: Keys) -> Fields:
    keys.must_be_off("clip_qkv", "queries, keys and values that are clipped are no linear maps of the stream")
    return {}


def _attention_and_mlp_biases(keys: Keys) -> tuple[str, bool]:
    return "qkvo" * keys.switch("attention_bias", False), keys.switch("mlp_bias", False)


def _nemotron(keys: Keys) -> Fields:
    keys.must_be("kv_channels", sizes(keys)["d_head"], "it must be head_dim")
    return {}


def _stablelm(keys: Keys) -> Fields:
    return {
        "parallel": "shared" if keys.switch("use_parallel_residual", False) else None,
        "qk_norm": "layernorm" if keys.switch("qk_layernorm", False) else None,
    }


def _stablelm_biases(keys: Keys) -> tuple[str, bool]:
    return "qkv" * keys.switch("use_qkv_bias", False), False


def _family(kind: Kind, tied: bool = False) -> Family:
    return Family("model.", "model.embed_tokens.weight", "lm_head.weight", tied, partial(_plan, kind))


STARCODER2 = _family(
    Kind(
        _starcoder2, _starcoder2_biases, "norm_epsilon", "gelu_pytorch_tanh",
        mlp={"in": "c_fc", "out": "c_proj"}, partial=False,
    ),
    tied=True,
)  # fmt: skip
OLMO = _family(
    Kind(
        _olmo,
        lambda keys: ("qkvo" * keys.switch("attention_bias", False), False),
        None,
        "silu",
        gain=None,
        partial=False,
    )
)
NEMOTRON = _family(
    Kind(
        _nemotron, _attention_and_mlp_biases, "norm_eps", "relu2",
        mlp={"in": "up_proj", "out": "down_proj"}, gain=one_more, share=0.5,
    )
)  # fmt: skip
STABLELM = _family(Kind(_stablelm, _stablelm_biases, "layer_norm_eps", "silu", share=0.25))
