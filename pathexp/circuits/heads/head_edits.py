"""Models with heads exchanged or re-based: the same QK with another OV is another head, and Q, K, V are by-products."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...errors import PathexpError, SpaceError
from ...graph import Array
from ...graph.reading import head_place
from ...model import Model, rewrite
from ...model.model import check_model

_OV, _QK = ("W_V", "W_UV", "W_O", "b_V"), ("W_Q", "W_UQ", "W_K", "W_UK", "b_Q", "b_K", "sinks")
_NORMS = ("g_q", "g_k", "b_q", "b_k")


def swap_ov(model: Model, a: str, b: str) -> Model:
    """Return the model in which two heads have exchanged what they write (W_V, W_O, b_V), not where they attend.

    Key/value heads that are shared become one for each head first, so that no third head changes. Norms and
    ALiBi slopes stay with the places. Raises PathexpError for heads of two layers of latent attention. Elhage et al. 2021, "Attention Heads as Information Movement".

    >>> import pathexp as px
    >>> model = px.random_model(layers=2, heads=2)
    >>> other = swap_ov(model, "L0H1", "L1H0")
    >>> bool((px.head(other, "L0H1").OV.dense() == px.head(model, "L1H0").OV.dense()).all())
    True
    """
    check_model(model, "swap_ov")
    _check_latents(model, a, b, "OV")
    return _swapped(model, a, b, _OV, "OV")


def swap_qk(model: Model, a: str, b: str) -> Model:
    """Return the model in which two heads have exchanged where they look (W_Q, W_K, b_Q, b_K, sinks, LayerNorms of their own).

    As `swap_ov`, which of a latent exchanges what each head makes of it; Elhage et al. 2021, "Attention Heads as Information Movement". Raises PathexpError where queries and
    keys are normed by weights that heads share.

    >>> import pathexp as px
    >>> model = px.random_model(layers=2, heads=2)
    >>> other = swap_qk(model, "L0H1", "L1H0")
    >>> bool((px.head(other, "L0H1").QK.dense() == px.head(model, "L1H0").QK.dense()).all())
    True
    """
    check_model(model, "swap_qk")
    _check_latents(model, a, b, "QK")
    if model.config.qk_norm == "projection":
        raise PathexpError(
            f"QK of {a} and {b} cannot be swapped: queries and keys are normed over all heads of a layer "
            "together, so that the other heads would change too"
        )
    if model.config.qk_norm == "head" and head_place(model.config, a)[0] != head_place(model.config, b)[0]:
        raise PathexpError(f"QK of {a} and {b} cannot be swapped: their layers norm queries with other gains")
    own = _NORMS if model.config.qk_norm == "layernorm" else ()
    return _swapped(model, a, b, (*_QK, *own), "QK")


def rebase_ov(model: Model, label: str, basis: ArrayLike) -> Model:
    """Return the model with a head's value vectors in another basis: W_V → M W_V, b_V → M b_V, W_O → W_O M⁻¹.

    `basis` M is (d_head, d_head), (d_value, d_value) of latent attention, and invertible. Nothing that the model computes changes: value vectors are
    by-products of W_OV. Elhage et al. 2021, "Attention Heads as Information Movement".

    The model's history records it, and logits are compared before and after.

    Raises SpaceError if the basis has another shape or cannot be inverted, RewriteError if it is so nearly singular
    that rounding changes the logits.
    """
    check_model(model, "rebase_ov")
    place = head_place(model.config, label)
    M, inverse = _invertible(basis, model.config.d_value, label)
    return rewrite.proven(model, _turned_ov(model, place, M, inverse), f"rebase_ov({label})")


def rebase_qk(model: Model, label: str, basis: ArrayLike) -> Model:
    """Return the model with a head's keys in another basis and its queries in the dual one.

    W_K → M W_K, b_K → M b_K, W_Q → M⁻ᵀ W_Q, b_Q → M⁻ᵀ b_Q, with M (d_head, d_head). Nothing that the model computes
    changes. Elhage et al. 2021, "Attention Heads as Information Movement".

    Raises PathexpError under rotary positions and normed queries, which have a basis of their own; SpaceError
    and RewriteError as `rebase_ov` does.

    >>> import numpy as np, pathexp as px
    >>> model = px.random_model(d_head=5, biases=True)
    >>> M = np.random.default_rng(0).standard_normal((5, 5))
    >>> bool(np.allclose(rebase_qk(model, "L1H2", M).run([1, 2]).logits, model.run([1, 2]).logits))
    True
    """
    check_model(model, "rebase_qk")
    config = model.config
    place = head_place(config, label)
    if config.rotary_of(place[0]) is not None:
        raise PathexpError(
            f"QK of {label} cannot be re-based under rotary positions: pairs of its numbers are turned by angles "
            "of their own between W_Q and W_K, so the basis matters. OV can: rebase_ov"
        )
    if config.latent is not None:
        raise PathexpError(
            f"QK of {label} cannot be re-based: part of its keys is shared by all heads of the layer. OV can: rebase_ov"
        )
    if config.qk_norm is not None:
        raise PathexpError(
            f"QK of {label} cannot be re-based: its queries and keys are normed in their basis"
        )
    M, inverse = _invertible(basis, config.d_head, label)
    return rewrite.proven(model, _turned_qk(model, place, M, inverse), f"rebase_qk({label})")


def turned_head(model: Model, label: str, R: Array, circuit: Literal["QK", "OV"]) -> Model:
    """Return the model with a head's vectors turned by an orthogonal matrix, whether or not that is valid.

    For measuring whether it is; `rebase_qk` and `rebase_ov` refuse or prove.
    """
    turn = _turned_ov if circuit == "OV" else _turned_qk
    return turn(model, head_place(model.config, label), R, R.T)


def _turned_ov(model: Model, place: tuple[int, int], M: Array, inverse: Array) -> Model:
    return _with(
        ungrouped(model), place,
        W_V=lambda w: M @ w, W_UV=lambda w: M @ w, b_V=lambda b: M @ b, W_O=lambda w: w @ inverse,
    )  # fmt: skip


def _turned_qk(model: Model, place: tuple[int, int], M: Array, inverse: Array) -> Model:
    dual = inverse.T
    if model.config.latent is not None:
        return _turned_own_part(model, place, M, dual)
    return _with(
        ungrouped(model), place,
        W_K=lambda w: M @ w, b_K=lambda b: M @ b, W_Q=lambda w: dual @ w, b_Q=lambda b: dual @ b,
    )  # fmt: skip


def _turned_own_part(model: Model, place: tuple[int, int], M: Array, dual: Array) -> Model:
    """Latent attention: the part of keys and queries that is the head's own, in another basis."""

    def own(w: Array) -> Array:
        turned = np.array(w)
        turned[-len(M) :] = dual @ w[-len(M) :]
        return turned

    return _with(model, place, W_UK=lambda w: M @ w, W_Q=own, W_UQ=own, b_Q=own)


def _check_latents(model: Model, a: str, b: str, what: str) -> None:
    if model.config.latent is not None and len({head_place(model.config, label)[0] for label in (a, b)}) > 1:
        raise PathexpError(
            f"{what} of {a} and {b} cannot be swapped: their layers compress what they read to latents of their own. Name "
            "two heads of one layer"
        )


def ungrouped(model: Model) -> Model:
    """Return the same model with a key/value head for every query head, each a copy of the shared one."""
    check_model(model, "ungrouped")
    c, w = model.config, model.weights
    if c.n_kv_heads == c.n_heads:
        return model
    index = [c.kv_head(head) for head in range(c.n_heads)]
    arrays = {name: getattr(w, name) for name in ("W_K", "W_V", "b_K", "b_V")}
    if c.qk_norm in ("projection", "layernorm"):
        arrays |= {"g_k": w.g_k, "b_k": w.b_k}
    repeated = {name: array[:, index] for name, array in arrays.items() if array is not None}
    return replace(model, config=replace(c, n_kv_heads=c.n_heads), weights=replace(w, **repeated))


def _swapped(model: Model, a: str, b: str, names: tuple[str, ...], what: str) -> Model:
    first, second = (head_place(model.config, label) for label in (a, b))
    if first == second:
        raise PathexpError(f"{what} of {a} was to be swapped with its own; name two heads")
    model = ungrouped(model)
    changed = {}
    for name in names:
        array = getattr(model.weights, name)
        if array is not None:
            changed[name] = np.array(array)
            changed[name][first], changed[name][second] = array[second], array[first]
    return replace(model, weights=replace(model.weights, **changed))


def _with(model: Model, place: tuple[int, int], **edits: object) -> Model:
    """The model with some arrays of one head changed; those that are not there stay so."""
    changed = {}
    for name, edit in edits.items():
        array = getattr(model.weights, name)
        if array is not None:
            changed[name] = np.array(array)
            changed[name][place] = edit(array[place])  # type: ignore[operator]
    return replace(model, weights=replace(model.weights, **changed))


def _invertible(basis: ArrayLike, d_head: int, label: str) -> tuple[Array, Array]:
    try:
        M = np.array(basis, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpaceError(f"a basis for {label} is an array of numbers, found {basis!r:.60}") from None
    if M.shape != (d_head, d_head):
        raise SpaceError(f"a basis for {label} has shape ({d_head}, {d_head}), found {M.shape}")
    condition = float(np.linalg.cond(M)) if np.isfinite(M).all() else np.inf
    if not condition < 1e12:
        raise SpaceError(f"the basis for {label} cannot be inverted: its condition number is {condition:.3g}")
    return M, np.asarray(np.linalg.inv(M), dtype=np.float64)
