"""The mean of the stream, which LayerNorm takes off anyway, and the mean logit, which the softmax does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ...errors import RewriteError
from ..config import Config
from ..model import Model, check_model
from ..weights import Array
from .difference import Difference
from .draft import Draft
from .proof import Step, rewritten

_COLUMNS = ("W_E", "W_pos", "W_O", "W_out", "W_out_experts", "W_out_shared")
_ROWS = ("b_O", "b_out", "b_out_experts", "b_out_shared", "b_embed", "b_attn_post", "b_mlp_post")


def center_writing(model: Model) -> Model:
    """Take the mean over d_model off everything that writes to the stream; every reader is a LayerNorm and would.

    Sinusoidal positions become a table. What is centered already stays as it is, to the bit.

    Raises RewriteError where some reader does not center: RMSNorm or no norm, norm_placement "post" or "branch"
    (branches read the stream bare), no final norm.

    >>> import numpy as np, pathexp as px
    >>> centered = px.rewrite.center_writing(px.random_model(norm="layernorm"))
    >>> bool(np.abs(centered.weights.W_E.mean(axis=0)).max() < 1e-15), centered.history
    (True, ('center_writing',))
    """
    check_model(model, "rewrite.center_writing")
    if problem := _bare_reader(model.config):
        raise RewriteError(f"center_writing: the mean of the stream is read: {problem}")
    steps = [
        Step(f"center_writing {name}", partial(_center, name, axis))
        for name, axis in _writers(model)
        if not _is_centered(_array(model, name), axis)
    ]
    return rewritten(model, "center_writing", steps)


def center_unembedding(model: Model) -> Model:
    """Take the mean over the vocabulary off W_U and b_U: logits shift by one constant per position.

    Log-probabilities do not change. A tied unembedding is untied first.

    Raises RewriteError under a soft-cap on the logits, where a constant is not harmless.

    >>> import pathexp as px
    >>> model = px.random_model(biases=True)
    >>> centered = px.rewrite.center_unembedding(model)
    >>> abs(float(centered.run([1, 2]).logits.mean())) < 1e-14
    True
    """
    check_model(model, "rewrite.center_unembedding")
    if model.config.logit_cap is not None:
        raise RewriteError(
            f"center_unembedding: logits are soft-capped at ±{model.config.logit_cap:g}, and a constant added before "
            "the cap changes their differences after it"
        )
    names = [
        name
        for name in ("W_U", "b_U")
        if getattr(model.weights, name) is not None and not _is_centered(getattr(model.weights, name), 0)
    ]
    steps = [Step(f"center_unembedding {name}", partial(_center, name, 0)) for name in names]
    return rewritten(model, "center_unembedding", steps, up_to=_by_constants)


def layernorm_to_rmsnorm(model: Model) -> Model:
    """Return the same model with RMSNorm for LayerNorm, which are one where all that is normed has mean zero.

    Raises RewriteError where it has not: use ``center_writing`` and ``fold_norms`` first.

    >>> import pathexp as px
    >>> model = px.random_model(norm="layernorm", biases=True)
    >>> ready = px.rewrite.center_writing(px.rewrite.fold_norms(model))
    >>> px.rewrite.layernorm_to_rmsnorm(ready).config.norm
    'rmsnorm'
    """
    check_model(model, "rewrite.layernorm_to_rmsnorm")
    if model.config.norm != "layernorm":
        return model
    if problems := list(_not_centered(model)):
        raise RewriteError(
            f"layernorm_to_rmsnorm: {'; '.join(problems)}. Use fold_norms and center_writing first."
        )
    return rewritten(model, "layernorm_to_rmsnorm", [Step("layernorm_to_rmsnorm", _to_rms)])


def _to_rms(draft: Draft) -> None:
    draft.switch(norm="rmsnorm")


def _by_constants(difference: Difference) -> bool:
    return difference.by_constants


def _bare_reader(c: Config) -> str:
    if c.norm != "layernorm":
        found = "no norm at all" if c.norm is None else "RMSNorm, which does not center"
        return f"this model has {found} (norm={c.norm!r})"
    if c.norm_placement in ("post", "branch"):
        return f"its branches read the stream without a norm (norm_placement={c.norm_placement!r})"
    if not c.first_norm and c.n_layers:
        return "the attention of its first layer reads the stream without a norm (first_norm=False)"
    if c.transform:  # through a norm, since its placement is not "post"
        return ""
    return "" if c.final_norm else "its unembedding reads the stream without a norm (final_norm=False)"


def _writers(model: Model) -> Iterator[tuple[str, int]]:
    """What writes to the stream, and along which axis d_model runs."""
    for name in _COLUMNS:
        there = getattr(model.weights, name) is not None or name == "W_pos"
        if there and (name != "W_pos" or model.config.positions in ("learned", "sinusoidal")):
            yield name, -2
    yield from ((name, -1) for name in _ROWS if getattr(model.weights, name) is not None)


def _array(model: Model, name: str) -> Array | None:
    array: Array | None = getattr(model.weights, name)
    return array


def _is_centered(array: Array | None, axis: int) -> bool:
    """Whether every mean along an axis is zero up to rounding; sinusoids, which are no array, are not."""
    return array is not None and bool((_rounding(array, axis) >= np.abs(array.mean(axis=axis))).all())


def _rounding(array: Array, axis: int) -> Array:
    """How large a mean may be by rounding alone."""
    size: Array = 4 * np.finfo(np.float64).eps * np.abs(array).max(axis=axis, initial=0.0)
    return size


def _center(name: str, axis: int, draft: Draft) -> None:
    draft.learn_positions()
    draft.untie()
    array = draft.edit(name)
    array -= array.mean(axis=axis, keepdims=True)


def _not_centered(model: Model) -> Iterator[str]:
    for name, axis in _writers(model):
        if not _is_centered(_array(model, name), axis):
            yield f"{name} writes a mean to the stream"
    if model.config.transform and model.config.final_norm:
        yield "the layer before the final norm (transform=True) writes a mean"
    written = ["embed", *(name for name in model.config.block_norms if name.endswith("_post"))]
    for name in written:
        if getattr(model.weights, f"g_{name}", None) is not None:
            yield f"the norm {name} writes to the stream with a gain"
    for name in ("attn", "mlp", "before_transform", "final"):
        if getattr(model.weights, f"b_{name}") is not None:
            yield f"the norm {name} has a bias, which RMSNorm has not"
