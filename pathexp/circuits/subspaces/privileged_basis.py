"""Privileged bases: spaces of a model whose own basis matters, by the weights and by activations.

By the weights: rotate a space at random, and see whether the logits change. By activations: see `basis_kurtosis`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...answer import Answer, Figure, Note, Part, Table, columns
from ...arguments import SEED, expect
from ...errors import PathexpError
from ...expansion.header import model_facts
from ...model import Model, rewrite
from ...model.model import check_model
from ...model.rewrite.basis import orthogonal, random_rotation, turned_neurons, turned_stream
from ...workers import own_workers
from ..corpus.corpus import Corpus, Source
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from ..heads.head_edits import turned_head
from .basis_kurtosis import MARGIN, STRONG, BasisKurtosis, kurtoses, kurtosis_tally
from .measured import measured, tally_facts

WINDOWS = 20
"""The windows of a corpus that are taken by default."""


@dataclass(frozen=True)
class RotatedSpace:
    """One space of a model, randomly rotated: by how much the logits changed, beside rounding."""

    space: str
    change: float
    tolerance: float
    reason: str

    @property
    def privileged(self) -> bool:
        """Whether the space has a basis of its own: rotating it changed the logits."""
        return self.change > self.tolerance


@dataclass(frozen=True, eq=False, repr=False)
class PrivilegedBasis(Answer):
    """Every space of a model: `weights`, whether a rotation changes the logits; `activations`, with a corpus, their kurtosis.

    `found["L0.out"]` is the row of activations of a space; `tally` holds the running sums behind them.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    weights: tuple[RotatedSpace, ...]
    activations: tuple[BasisKurtosis, ...]
    tally: Tally | None

    def __getitem__(self, space: str) -> BasisKurtosis:
        """Return the activations of a space. Raises PathexpError, naming those there are."""
        for row in self.activations:
            if row.space == space:
                return row
        raise PathexpError(
            f"no space {space!r} was measured; choose from: {', '.join(r.space for r in self.activations) or 'none'}"
        )

    def headline(self) -> str:
        """Return whether weights alone were asked, or activations measured too."""
        return f"spaces with a privileged basis{measured(self.tally) or ', by the weights'}"

    def parts(self) -> Iterator[Part]:
        """Yield what the weights allow, what activations show, and bars."""
        yield model_facts(self.model)
        yield tally_facts(self.tally)
        yield self._by_weights()
        if self.tally is None:
            yield Note("by activations: give a corpus")
            return
        yield self._by_activations()
        yield from self._verdicts()
        yield self._outliers()
        kept = [row for row in self.activations if not np.isnan(row.kurtosis)]
        yield Figure(
            "bars", "kurtosis",
            {
                "rows": [row.space for row in kept], "series": ["own basis", "randomly rotated"],
                "values": [[row.kurtosis, row.baseline] for row in kept],
            },
            "kurtosis over coordinates",
        )  # fmt: skip

    def _by_weights(self) -> Table:
        return Table(
            (
                columns.text("space"), columns.flag("privileged"), columns.number("change", digits=-2, signed=False),
                columns.number("tolerance", digits=-2, signed=False), columns.text("reason", "because of"),
            ),
            [
                (one.space, one.privileged, one.change, one.tolerance, one.reason * one.privileged)
                for one in self.weights
            ],
            "weights", "by the weights: largest change of a logit when the space is randomly rotated",
            key=("space",), value="change", shown=None,
        )  # fmt: skip

    def _by_activations(self) -> Table:
        return Table(
            (
                columns.text("space"), columns.number("kurtosis", digits=2, signed=False),
                columns.number("baseline", digits=2, signed=False), columns.number("deviation", digits=2, signed=False),
                columns.number("ratio", digits=2, signed=False), columns.number("z", digits=1),
                columns.number("carriers", digits=0, signed=False), columns.text("verdict", "privileged"),
            ),
            [
                (row.space, row.kurtosis, row.baseline, row.deviation, row.ratio, row.z, row.carriers, row.verdict)
                for row in self.activations
            ],
            "activations", "by activations: kurtosis over coordinates", key=("space",), value="kurtosis", shown=None,
        )  # fmt: skip

    def _outliers(self) -> Table:
        rows = [
            (row.space, place, value)
            for row in self.activations if not np.isnan(row.kurtosis)
            for place, value in row.outliers()
        ]  # fmt: skip
        return Table(
            (columns.text("space"), columns.count("coordinate"), columns.number("excess", digits=2)), rows,
            "outliers", "coordinates that contribute most to the excess kurtosis", key=("space", "coordinate"),
            value="excess",
        )  # fmt: skip

    def _verdicts(self) -> Iterator[Note]:
        yield Note(
            f"baseline: randomly rotated; none: within {MARGIN:g} deviations of it; strong: {STRONG:g} times it or "
            "more,\ncarried by many coordinates; mild: less, or a few outlier coordinates alone"
        )
        zero = [row.space for row in self.activations if np.isnan(row.kurtosis)]
        if zero:
            yield Note(f"no kurtosis of {', '.join(zero)}: every activation is zero")
        same = [row.space for row in self.activations if np.isnan(row.z) and row.space not in zero]
        if same:
            yield Note(f"no z of {', '.join(same)}: the kurtosis is the same in every basis")
        sides: dict[bool, list[float]] = {True: [], False: []}
        for row in self.activations:
            if not np.isnan(row.ratio):
                sides[row.space.endswith("neurons")].append(row.ratio)
        if all(sides.values()):
            stream, neurons = (f"{min(sides[side]):.2f} to {max(sides[side]):.2f}" for side in (False, True))
            yield Note(f"ratio to the baseline: stream {stream}, neurons {neurons}")


def privileged_basis(
    model: Model,
    corpus: Corpus | Source | None = None,
    *,
    seed: int = 0,
    limits: Limits = NO_LIMITS,
) -> PrivilegedBasis:
    """Rotate every kind of space at random, and see whether the logits change; with a corpus, measure kurtosis too.

    Spaces of the weights: the residual stream; queries and keys, and values, of head L0H0; the neurons of all MLPs.
    Every map into a space is rotated and every map out of it rotated back; norms, activations and rotations inside it
    are not. Spaces of the activations: every depth of the stream, and the neurons of every MLP, in their own basis and
    beside all bases.

    Random rotations come from `seed`; those of the stream and of neurons are Kronecker products of two, which mix all coordinates at
    the cost of a few. Of a corpus 20 windows are taken, or those of a `Corpus`; see `Limits` for
    stopping and resuming. Costs a run of up to 9 tokens per space; on a corpus a run and
    1,024 · n · width per space and window.
    Elhage et al. 2021, "Virtual Weights and the Residual Stream as a Communication Channel"; Elhage et al. 2023,
    "Privileged Bases in the Transformer Residual Stream". Raises PathexpError for what is not a model, a seed below
    0, and a corpus without one whole window.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, d_model=32, d_mlp=64, activation="relu", n_ctx=9)
    >>> texts = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3, 1, 4, 1, 5, 9, 2, 6, 5]]
    >>> found = px.privileged_basis(model, texts)
    >>> [(one.space, one.privileged) for one in found.weights]
    [('residual stream', False), ('queries and keys', False), ('values', False), ('neurons', True)]
    >>> [(row.space, row.verdict) for row in found.activations]
    [('embed', 'none'), ('L0.mid', 'none'), ('L0.out', 'none'), ('L0 neurons', 'strong')]
    """
    check_model(model, "privileged_basis")
    expect("privileged_basis", seed=(seed, SEED))
    sums = None
    if corpus is not None:
        sums = kurtosis_tally(model, Corpus.of(corpus, model, WINDOWS), seed, limits)
    with own_workers():  # short runs
        rotated = tuple(_by_rotation(model, seed))
    return PrivilegedBasis(model, rotated, kurtoses(sums) if sums else (), sums)


def _by_rotation(model: Model, seed: int) -> Iterator[RotatedSpace]:
    for space, rotated, reason in _rotated(model, seed):
        difference = rewrite.compare(model, rotated)
        yield RotatedSpace(space, difference.raw, difference.tolerance, reason)


def _rotated(model: Model, seed: int) -> Iterator[tuple[str, Model, str]]:
    """Yield each space with the model in which it is rotated, and what could give it a basis."""
    c = model.config
    yield (
        "residual stream",
        turned_stream(model, random_rotation(c.d_model, seed)),
        "gains, biases or centering of norms",
    )
    if c.n_layers:
        own = "" if c.latent is None else ", the part of its own"
        yield (
            f"queries and keys{own}",
            turned_head(
                model, "L0H0", orthogonal(c.d_head - (c.latent.d_shared if c.latent else 0), seed + 1), "QK"
            ),
            "none is known" if c.latent else "rotary positions or norms of queries and keys",
        )
        yield "values", turned_head(model, "L0H0", orthogonal(c.d_value, seed + 1), "OV"), "none is known"
    if c.n_layers and c.d_mlp:
        yield (
            "neurons",
            turned_neurons(model, random_rotation(c.d_mlp, seed + 2)),
            "the activation acts on each neuron",
        )
