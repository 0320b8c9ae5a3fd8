"""The stream has no basis of its own: turn every map that touches it, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import isqrt

import numpy as np
import numpy.typing as npt

from ...errors import RewriteError
from ...workers import for_each
from ..model import Model, check_model
from ..rounding import CONFIDENCE, UNIT
from ..weights import Array
from .draft import Draft
from .norms import MLP, all_norms, multiplied
from .proof import Step, rewritten

_WRITE = ("W_E", "W_pos", "W_O", "W_out", "W_out_experts", "W_out_shared")
_READ = ("W_Q", "W_K", "W_V", "W_DQ", "W_DKV", "W_KR", *(weight for weight, _ in MLP))
_VECTORS = ("b_O", "b_out", "b_out_experts", "b_out_shared")


def rotate(model: Model, basis: npt.ArrayLike | int) -> Model:
    """Turn the residual stream by an orthogonal matrix R: what writes becomes R W, what reads W Rᵀ.

    basis: R, (d_model, d_model), or a seed for a random one. Sinusoidal positions become a table; a tied model
    stays tied. Neurons are not turned: they have a basis of their own, their activation's.

    Raises RewriteError if R is not orthogonal, or where a norm has a basis: gains and biases not folded, or
    LayerNorm, which takes off the mean along one fixed direction. ``fold_norms``, ``center_writing`` and
    ``layernorm_to_rmsnorm`` remove both. Elhage et al. 2021, "Virtual Weights and the Residual Stream as a
    Communication Channel".

    >>> import numpy as np, pathexp as px
    >>> model = px.random_model(norm="rmsnorm")
    >>> turned = px.rewrite.rotate(model, 1)
    >>> px.rewrite.compare(model, turned).equal, np.allclose(model.weights.W_E, turned.weights.W_E)
    (True, False)
    """
    check_model(model, "rewrite.rotate")
    if problems := list(_privileged(model)):
        raise RewriteError(
            f"rotate: the stream of this model has a basis of its own: {'; '.join(problems)}.{multiplied(model, model.config.block_norms)}"
        )
    turn = Rotation((orthogonal(model.config.d_model, basis),))
    return rewritten(model, "rotate", [Step("rotate", partial(_rotate, turn))])


def turned_stream(model: Model, turn: Rotation) -> Model:
    """The model with its stream turned, whether or not that is valid: for measuring whether it is."""
    draft = Draft(model)
    _rotate(turn, draft)
    return draft.model(model.history)


def turned_neurons(model: Model, turn: Rotation) -> Model:
    """The model with the neurons of every MLP turned, which their activation does not allow: for measuring."""
    draft = Draft(model)
    for name in ("W_in", "W_gate"):
        _put(draft, name, turn.of_rows)
    for name in ("b_in", "b_gate", "W_out"):
        _put(draft, name, turn.of_columns)
    return draft.model(model.history)


@dataclass(frozen=True)
class Rotation:
    """An orthogonal matrix, (d, d), as the Kronecker product of others: itself, or two of which each turns one digit of a coordinate's number.

    To turn a vector takes d (a + b) multiplications for sizes a and b, where the matrix takes d².

    >>> turn, W = random_rotation(6, 0), np.arange(12.0).reshape(6, 2)
    >>> R = np.kron(*turn.factors)
    >>> bool(np.allclose(turn.of_rows(W), R @ W)), bool(np.allclose(turn.of_columns(W.T), W.T @ R.T))
    (True, True)
    """

    factors: tuple[Array, ...]

    def of_rows(self, W: Array) -> Array:
        """R W of maps (…, d, n)."""
        if len(self.factors) == 1:
            return np.asarray(self.factors[0] @ W)
        outer, inner = self.factors
        split = inner @ W.reshape(*W.shape[:-2], len(outer), len(inner), W.shape[-1])
        return np.asarray(outer @ split.reshape(*W.shape[:-2], len(outer), -1)).reshape(W.shape)

    def of_columns(self, W: Array) -> Array:
        """W Rᵀ of maps (…, d), or R b of vectors."""
        if len(self.factors) == 1:
            return np.asarray(W @ self.factors[0].T)
        outer, inner = self.factors
        split = (W.reshape(-1, len(inner)) @ inner.T).reshape(-1, len(outer), len(inner))
        return np.asarray(outer @ split).reshape(W.shape)


def random_rotation(size: int, seed: int) -> Rotation:
    """A random rotation, the Kronecker product of two of nearly equal sizes; of a prime size one that is uniform (Haar)."""
    small = next(a for a in range(isqrt(size), 0, -1) if size % a == 0)
    if small == 1:
        return Rotation((orthogonal(size, seed),))
    return Rotation((orthogonal(small, seed), orthogonal(size // small, seed + 1)))


def orthogonal(size: int, basis: npt.ArrayLike | int) -> Array:
    """An orthogonal matrix, (size, size): as given, once it is checked, or at random from a seed (Haar).

    Rows of R have length one: R Rᵀ is off by u √d for the rounding of R, made by products, and as much for this product.
    """
    if isinstance(basis, int | np.integer) and not isinstance(basis, bool) and basis >= 0:
        q, r = np.linalg.qr(np.random.default_rng(basis).standard_normal((size, size)))
        return np.asarray(q * np.sign(np.diagonal(r)), dtype=np.float64)
    R = _real(basis)
    if R.shape != (size, size):
        raise RewriteError(f"rotate: a basis of this stream has shape ({size}, {size}), found {R.shape}")
    error = float(np.abs(R @ R.T - np.eye(size)).max(initial=0.0))
    if not error <= (rounding := 2 * CONFIDENCE * UNIT * float(np.sqrt(size))):
        raise RewriteError(
            f"rotate: the basis is not orthogonal: R Rᵀ differs from the identity by {error:.3g}, rounding explains "
            f"{rounding:.3g}. In single precision? Make it orthogonal in double: np.linalg.qr(R)[0]"
        )
    return R


def _real(basis: npt.ArrayLike) -> Array:
    try:
        found = np.array(basis)
    except ValueError:
        found = np.array(None)
    if found.dtype.kind not in "iuf" or not found.ndim:
        raise RewriteError(
            f"rotate: a basis is a matrix of real numbers, or a seed of at least 0; found {basis!r:.60}"
        )
    return found.astype(np.float64)


def _privileged(model: Model) -> Iterator[str]:
    c = model.config
    on_stream = [name for name in all_norms(c) if not (name == "final" and c.transform)]
    owned = [
        name
        for name in on_stream
        if any(getattr(model.weights, f"{kind}_{name}", None) is not None for kind in "gb")
    ]
    if owned:
        yield f"norms have a number per coordinate, gain or bias ({', '.join(owned)}); use fold_norms, where it is valid"
    if c.norm == "layernorm" and on_stream:
        yield (
            "LayerNorm takes off the mean over coordinates; use center_writing and layernorm_to_rmsnorm first, "
            "if they are valid"
        )


def _rotate(turn: Rotation, draft: Draft) -> None:
    draft.learn_positions()
    reads = (*_READ, "W_transform" if draft.config.transform else "W_U")
    for name in _WRITE:
        _put(draft, name, turn.of_rows)
    for name in (*reads, *_VECTORS):
        _put(draft, name, turn.of_columns)
    if draft.config.tied and not draft.config.transform:
        draft.put("W_U", draft["W_E"].T)
    elif draft.config.tied:
        draft.switch(tied=False)


def _put(draft: Draft, name: str, turn: Callable[[Array], Array]) -> None:
    if name in draft:
        draft.put(name, _by_layers(draft.stored(name), turn), fresh=True)


def _by_layers(array: Array, turn: Callable[[Array], Array]) -> Array:
    """An array turned, a layer at a time where it has layers, so that it is not held whole as it was."""
    if array.ndim < 3:
        return turn(np.asarray(array))
    turned = np.empty(array.shape)

    def work(layer: int) -> None:
        turned[layer] = turn(array[layer])

    for_each(work, len(array))
    return turned
