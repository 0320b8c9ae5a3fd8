"""Does a head copy? The eigenvalues of a token table, the sign of their sum, and who wins each row.

Elhage et al. 2021, "Detecting Copying Behavior": a head that raises the logits of the tokens it attends to has an
OV circuit W_U W_OV W_E with positive eigenvalues; a head that looks for its own token, a QK circuit with such.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...algebra import LinearMap, waist
from ...algebra.operations import endomorphism
from ...arguments import expect, instance, whole
from ...graph import Array
from ...model import Model
from ...model.model import check_model
from ..composition.rescaled import rescaled, scales
from .head import Head, head
from .token_grams import keys_read, queries_read, token_grams, values_read, written

NO_EIGENVALUES = "no nonzero eigenvalues"


@dataclass(frozen=True)
class Spectrum:
    """The eigenvalues of a map of a space to itself, zeros left out, and what their signs say.

    `eigenvalues` are complex, by descending magnitude; `size` is the dimension of the space, all other
    eigenvalues being zero. `score` is Σλ / Σ|λ|, from -1 to 1, and `positive` the share of Σ|λ| that
    eigenvalues of positive real part hold; both are None, with a `reason`, where that is 0/0. Of weights of
    extreme size (beyond 2^±40) the eigenvalues are `eigenvalues` · 2^`exponent`, which float64 may not hold.
    """

    eigenvalues: NDArray[np.complex128]
    size: int
    exponent: int = 0

    @property
    def total(self) -> float:
        """Σ|λ|."""
        return float(np.abs(self.eigenvalues).sum())

    @property
    def score(self) -> float | None:
        """The copying score Σλ / Σ|λ|; real, since eigenvalues come in conjugate pairs."""
        return None if self.reason else float(self.eigenvalues.real.sum()) / self.total + 0.0

    @property
    def positive(self) -> float | None:
        """The share of Σ|λ| with positive real part."""
        if self.reason:
            return None
        return float(np.abs(self.eigenvalues[self.eigenvalues.real > 0]).sum()) / self.total

    @property
    def reason(self) -> str | None:
        """Why the scores are undefined, or None where they are defined."""
        return None if len(self.eigenvalues) else NO_EIGENVALUES

    def __repr__(self) -> str:
        found = self.reason if self.score is None else f"score {self.score:+.4f}"
        return f"<Spectrum: {len(self.eigenvalues)} of {self.size} eigenvalues, {found}>"


def spectrum(map: LinearMap) -> Spectrum:
    """Return the eigenvalues of a map that can be told from zero.

    They are those of the smallest cyclic rotation, r × r for a map of rank r. An eigenvalue no larger than its
    own rounding error (its condition number times ε times the norm) counts as zero, so that a nilpotent map has
    none instead of a ring of tiny ones. Raises SpaceError unless the map goes from a space to itself.
    O((size) r² + r³).

    >>> from pathexp.algebra import Dense, Space
    >>> plane = Space("plane", 2)
    >>> spectrum(Dense([[0, -1], [1, 0]], plane, plane)).score  # a quarter turn: λ = ±i
    0.0
    >>> spectrum(Dense([[0, 1], [0, 0]], plane, plane))  # nilpotent
    <Spectrum: 0 of 2 eigenvalues, no nonzero eigenvalues>
    """
    expect("spectrum", map=(map, instance(LinearMap, "a linear map")))
    endomorphism(map, "spectrum")
    left, right = waist(map)
    return turned_spectrum(right @ left, float(np.linalg.norm(left) * np.linalg.norm(right)), map.target.size)


def turned_spectrum(turned: Array, scale: float, size: int) -> Spectrum:
    """Return the spectrum of a map of a space of `size` dimensions from its cyclic rotation, (r, r).

    `scale` is the product of the norms of what was multiplied to `turned`: its entries are known to about ε times
    that.
    """
    values, errors = _values_and_errors(turned, scale)
    kept = values[np.abs(values) > errors]
    order = np.lexsort((-kept.imag, -kept.real, -np.abs(kept).round(12)))
    return Spectrum(kept[order].astype(np.complex128), size)


def _values_and_errors(turned: Array, scale: float) -> tuple[NDArray[np.complex128], Array]:
    """Eigenvalues, and how far rounding may have moved each: scale · ε / |yᴴ x| (Golub & Van Loan, 7.2.2)."""
    if not turned.size or not turned.any():
        return np.zeros(0, dtype=np.complex128), np.zeros(0)
    values, right = np.linalg.eig(turned)
    condition = _conditions(right)
    rounding = len(turned) * np.finfo(np.float64).eps
    return values.astype(np.complex128), rounding * condition * scale


def _conditions(right: NDArray[np.complex128]) -> Array:
    """The condition number of each eigenvalue, from unit right eigenvectors; infinite where they are dependent."""
    try:
        left = np.linalg.inv(right)
    except np.linalg.LinAlgError:
        return np.full(len(right), np.inf)
    with np.errstate(over="ignore"):  # an infinite condition number is one
        return np.asarray(np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=0))


def ov_spectrum(head: Head) -> Spectrum:
    """Return the spectrum of a head's full OV circuit, W_U W_OV W_E. O(d_model² d_head) after the model's first.

    Elhage et al. 2021, "Copying / Primitive in-context learning": eigenvalues, in nats per unit of attention, whose
    real parts are positive copy. Raises PathexpError for a model that has no token tables (post-norm).

    >>> import pathexp as px
    >>> round(ov_spectrum(px.head(px.induction_model(), "L1H0")).score, 6)
    1.0
    """
    expect("ov_spectrum", head=(head, instance(Head, "a head, as px.head(model, label) gives it")))
    head, exponent = _rescaled(head, _ON_THE_WAY_OV)
    grams, read, write = token_grams(head.model), values_read(head), written(head)
    scale = grams.in_size * grams.out_size * float(np.linalg.norm(read) * np.linalg.norm(write))
    found = turned_spectrum(read @ grams.copying @ write, scale, head.model.config.d_vocab)
    return replace(found, exponent=exponent)


_ON_THE_WAY_OV = ("W_E", "g_embed", "g_attn", "W_V", "W_O", "g_attn_post", "g_final", "W_U")
_ON_THE_WAY_QK = ("W_E", "g_embed", "g_attn", "W_Q", "W_K", "g_attn", "g_embed", "W_E")


def _rescaled(head: Head, names: tuple[str, ...]) -> tuple[Head, int]:
    """The head with weights of extreme size brought near one, and by which power of two their product shrank."""
    model = rescaled(head.model)
    if model is head.model:
        return head, 0
    layer, query, key = (
        (head.layer,),
        (head.layer, head.index),
        (head.layer, model.config.kv_head(head.index)),
    )
    place = {"g_attn": layer, "g_attn_post": layer, "W_Q": query, "W_O": query, "W_K": key, "W_V": key}
    found = scales(head.model)
    shrunk = sum(int(found[name][place.get(name, ())].sum()) for name in names if name in found)
    return replace(head, model=model), shrunk


def qk_spectrum(head: Head, distance: int | None = None) -> Spectrum:
    """Return the spectrum of a head's full QK circuit, W_Eᵀ W_QK W_E, under rotary at a distance. Cost as above.

    Elhage et al. 2021, "Detecting Copying Behavior": the same measure of matching, an entry times the scale is a
    score. Raises FreezeError under rotary positions without a distance.
    """
    expect("qk_spectrum", head=(head, instance(Head, "a head, as px.head(model, label) gives it")))
    if distance is None:
        _ = head.QK  # which refuses rotary positions
    head, exponent = _rescaled(head, _ON_THE_WAY_QK)
    grams, query, key = token_grams(head.model), queries_read(head), keys_read(head)
    turn = None if distance is None else head.form.rotation(distance)
    key = key if turn is None else turn.numbers().dense() @ key
    scale = grams.in_size**2 * float(np.linalg.norm(query) * np.linalg.norm(key))
    found = turned_spectrum(key @ grams.matching @ query.T, scale, head.model.config.d_vocab)
    return replace(found, exponent=exponent)


def row_maximum_on_diagonal(map: LinearMap, block: int = 2**22) -> float:
    """Return the share of rows whose largest entry stands on the diagonal; ties count for the diagonal.

    For an OV table: of how many tokens the logit is raised most by attending to that token itself. The table
    is formed `block` entries at a time. Raises SpaceError unless the map goes from a space to itself.

    >>> from pathexp.algebra import Dense, Space
    >>> three = Space("three", 3)
    >>> row_maximum_on_diagonal(Dense([[5, 1, 0], [9, 2, 0], [0, 0, 1]], three, three))
    0.6666666666666666
    """
    expect("row_maximum_on_diagonal", block=(block, whole(1)))
    expect("row_maximum_on_diagonal", map=(map, instance(LinearMap, "a linear map")))
    endomorphism(map, "row maximum on the diagonal")
    left, right = waist(map)
    step = max(1, block // max(1, map.source.size))
    wins = [_wins(left[at : at + step] @ right, at) for at in range(0, len(left), step)]
    return float(np.concatenate(wins).mean())


def _wins(rows: Array, start: int) -> NDArray[np.bool_]:
    diagonal = rows[np.arange(len(rows)), start + np.arange(len(rows))]
    return np.asarray(diagonal >= rows.max(axis=1))


@dataclass(frozen=True, eq=False)
class Copying:
    """What the spectra of a head's two circuits say; QK is None under rotary positions, where it is many."""

    head: Head
    ov: Spectrum
    qk: Spectrum | None

    @property
    def label(self) -> str:
        """The head's label."""
        return self.head.label

    @cached_property
    def ov_on_diagonal(self) -> float:
        """Of how many tokens the logit is raised most by attending to that token itself, as a share.

        O(d_vocab² d_head): minutes for a large vocabulary.
        """
        return row_maximum_on_diagonal(self.head.ov_table)


def copying(model: Model) -> tuple[Copying, ...]:
    """Return the spectra of every head of a model.

    Elhage et al. 2021, "Detecting Copying Behavior". O(d_vocab d_model²) once, O(d_model² d_head) a head.

    >>> import pathexp as px
    >>> found = copying(px.induction_model())
    >>> [(each.label, each.ov.score) for each in found]
    [('L0H0', None), ('L1H0', 1.0)]
    """
    check_model(model, "copying")
    return tuple(_copying(each) for each in heads(model))


def heads(model: Model) -> Iterator[Head]:
    """Iterate over the heads of a model, layer by layer."""
    for layer in range(model.config.n_layers):
        for index in range(model.config.n_heads):
            yield head(model, f"L{layer}H{index}")


def _copying(each: Head) -> Copying:
    return Copying(each, ov_spectrum(each), None if each.form.by_distance else qk_spectrum(each))
