"""Gains and biases of norms, folded into what reads through the norm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ...errors import RewriteError
from ..config import Config
from ..model import Model, check_model
from ..weights import Array, expected
from .draft import Draft
from .proof import Step, rewritten

_HEADS = (
    ("W_Q", "b_Q"), ("W_K", "b_K"), ("W_V", "b_V"), ("W_DQ", "b_DQ"), ("W_DKV", "b_DKV"), ("W_KR", "b_KR"),
)  # fmt: skip
"""What of attention reads the stream, each with its bias; of latent attention what compresses, and the shared key."""
MLP = (
    ("W_in", "b_in"), ("W_gate", "b_gate"), ("W_in_experts", "b_in_experts"), ("W_gate_experts", "b_gate_experts"),
    ("W_in_shared", "b_in_shared"), ("W_gate_shared", "b_gate_shared"), ("W_router", "b_router"),
    ("W_shared_gate", "b_shared_gate"),
)  # fmt: skip
"""What reads behind the attention, of MLPs and of experts, each with its bias."""


LATENTS = {"kv_latent": (("W_UK", "b_UK"), ("W_UV", "b_UV")), "q_latent": (("W_UQ", "b_UQ"),)}
"""What reads the latents of latent attention; their norms have no bias, and these maps take none."""


def fold_norms(model: Model, norms: Sequence[str] | None = None) -> Model:
    """Fold the gains and biases of norms into the maps that read through them; what remains only normalizes.

    W (g ∘ y + b) = (W diag(g)) y + W b, for every reader: W_Q, W_K, W_V; W_in and W_gate, routers; W_U. A tied
    unembedding is untied first. RMSNorm has a gain only, and nothing is centered.

    norms: which, of "attn", "mlp", "final", "before_transform", and of latent attention "kv_latent" and "q_latent" (default: all
    that have a gain or a bias).

    Raises RewriteError, naming the norm, where that cannot be: a norm that writes to the stream (post-norm,
    branch norms, the norm after the embedding), and the gain of a norm after which positions are added.
    Elhage et al. 2021, "Technical Details", "Handling Layer Normalization".

    >>> import pathexp as px
    >>> folded = px.rewrite.fold_norms(px.random_model(norm="layernorm", biases=True))
    >>> folded.weights.g_attn is None, folded.history
    (True, ('fold_norms(attn, final)',))
    """
    check_model(model, "rewrite.fold_norms")
    chosen = [name for name in _known(model, norms) if _has(model, name)]
    if problems := [problem for name in chosen for problem in _problems(model, name)]:
        foldable = [name for name in chosen if not list(_problems(model, name))]
        rest = f" The others can: norms={foldable!r}." if foldable else ""
        raise RewriteError(f"fold_norms: {' '.join(problems)}{rest}{multiplied(model, chosen)}")
    steps = [step for name in chosen for step in _steps(model, name)]
    return rewritten(model, f"fold_norms({', '.join(chosen)})", steps)


def readers(config: Config, norm: str) -> tuple[tuple[str, str], ...]:
    """The maps that read through a norm, each with the name of its bias."""
    places = expected(config)
    mlp = tuple(pair for pair in MLP if pair[0] in places)
    if norm == "final":
        return (("W_U", "b_U"),)
    if norm == "before_transform":
        return (("W_transform", "b_transform"),)
    if norm == "mlp":
        return mlp
    if norm in LATENTS:
        return LATENTS[norm]
    heads = tuple(pair for pair in _HEADS if pair[0] in places)
    return heads + (mlp if config.parallel == "shared" else ())


def all_norms(config: Config) -> tuple[str, ...]:
    """The norms of a model in the order in which they act, by the names of their weights."""
    ends = ("before_transform",) * config.transform_norm + ("final",) * config.final_norm
    return ("embed",) * config.embed_norm + config.block_norms + ends


def _known(model: Model, norms: Sequence[str] | None) -> Sequence[str]:
    latents = [name for name in LATENTS if f"g_{name}" in expected(model.config)]
    there = (*all_norms(model.config), *latents)
    unknown = [name for name in norms or () if name not in there]
    if isinstance(norms, str) or unknown:
        raise RewriteError(
            f"fold_norms: norms={norms!r} is not known; this model has {', '.join(there) or 'none'}"
        )
    return there if norms is None else [name for name in there if name in norms]


def _has(model: Model, name: str) -> bool:
    return any(getattr(model.weights, f"{kind}_{name}", None) is not None for kind in "gb")


def _problems(model: Model, name: str) -> Iterator[str]:
    if name == "embed":
        yield "the norm after the embedding (embed) writes to the stream: many read it, and none is next to it."
    elif name.endswith("_post"):
        placement = model.config.norm_placement
        where = "the stream itself" if placement == "post" else "what a branch writes to the stream"
        yield (
            f"the norm {name} stands on {where} (norm_placement={placement!r}): no map follows into which its gain "
            "and bias could go, and in the map before it they would change the scale."
        )
    elif name == "attn" and model.config.positions == "qk" and model.weights.g_attn is not None:
        yield (
            "positions are added to what queries and keys read after the norm attn (positions='qk'): "
            "folded into W_Q and W_K, its gain would scale the positions too."
        )


def multiplied(model: Model, names: Sequence[str]) -> str:
    """What to do where gains on branches came from fold_multipliers, or nothing."""
    behind = any(name.endswith("_post") for name in names)
    if not behind or not any(step.startswith("fold_multipliers") for step in model.history):
        return ""
    return (
        " fold_multipliers puts the multiplier of branches into the gains of norms behind them, and makes gains where "
        "there were none: do this before it."
    )


def _steps(model: Model, name: str) -> Iterator[Step]:
    pairs = readers(model.config, name)
    if name in ("final", "before_transform"):
        yield Step(f"fold_norms {name}", partial(_fold, pairs, name, ()))
    else:
        for layer in range(model.config.n_layers):
            yield Step(f"fold_norms L{layer}.{name}", partial(_fold, pairs, name, (layer,)))
    yield Step(f"fold_norms {name}: leave out what is one or zero", partial(_leave_out, name))


def _fold(pairs: Sequence[tuple[str, str]], name: str, place: tuple[int, ...], draft: Draft) -> None:
    if name == "final":
        draft.untie()
    for weight, bias in pairs:
        _fold_into(draft, weight, bias, name, place)
    for kind, neutral in (("g", 1.0), ("b", 0.0)):
        if f"{kind}_{name}" in draft:
            draft.edit(f"{kind}_{name}")[place] = neutral


def _fold_into(draft: Draft, weight: str, bias: str, name: str, place: tuple[int, ...]) -> None:
    if f"b_{name}" in draft:
        draft.bias(bias, weight)[place] += draft[weight][place] @ draft[f"b_{name}"][place]
    if f"g_{name}" in draft:
        draft.edit(weight)[place] *= draft[f"g_{name}"][place]


def _leave_out(name: str, draft: Draft) -> None:
    for array, neutral in ((f"g_{name}", 1.0), (f"b_{name}", 0.0)):
        if array in draft and _is_all(draft[array], neutral):
            draft.drop(array)


def _is_all(array: Array, value: float) -> bool:
    return bool(np.all(array == value))
