"""Which spaces of a model have a basis of their own: turn each, and see whether the logits change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..arguments import SEED, expect
from ..model import Model, rewrite
from ..model.model import check_model
from ..model.rewrite.basis import orthogonal, turned_neurons, turned_stream
from .heads.head_edits import turned_head


@dataclass(frozen=True)
class Privilege:
    """One space of a model, turned at random: by how much the logits changed, in nats, beside rounding."""

    space: str
    change: float
    tolerance: float
    reason: str

    @property
    def privileged(self) -> bool:
        """Whether the space has a basis of its own: turning it changed what the model says."""
        return self.change > self.tolerance

    def __str__(self) -> str:
        found = f"a basis of its own, {self.reason}" if self.privileged else "no basis of its own"
        return f"{self.space}: {found}; turned, logits change by {self.change:.2g}"


def basis_privilege(model: Model, *, seed: int = 0) -> tuple[Privilege, ...]:
    """Turn every kind of space by a random orthogonal matrix, as if it had no basis, and measure.

    Spaces: the residual stream; queries and keys, and values, of head L0H0; the neurons of all MLPs. Every map into
    a space is turned and every map out of it turned back; norms, activations and rotations inside it are not. Costs
    a run of up to 9 tokens for each. Elhage et al. 2021, "The residual stream has no privileged basis". Raises
    PathexpError for what is no model, and for a seed below 0.

    >>> import pathexp as px
    >>> for found in basis_privilege(px.random_model(d_mlp=16)):
    ...     print(found.space, found.privileged)
    residual stream False
    queries and keys False
    values False
    neurons True
    """
    check_model(model, "basis_privilege")
    expect("basis_privilege", seed=(seed, SEED))
    found = []
    for space, turned, reason in _turned(model, seed):
        difference = rewrite.compare(model, turned)
        found.append(Privilege(space, difference.raw, difference.tolerance, reason))
    return tuple(found)


def _turned(model: Model, seed: int) -> Iterator[tuple[str, Model, str]]:
    """Each space with the model in which it is turned, and what could give it a basis."""
    c = model.config
    yield (
        "residual stream",
        turned_stream(model, orthogonal(c.d_model, seed)),
        "gains, biases or centering of norms",
    )
    if c.n_layers:
        R = orthogonal(c.d_head, seed + 1)
        yield (
            "queries and keys",
            turned_head(model, "L0H0", R, "QK"),
            "rotary positions or norms of queries and keys",
        )
        yield "values", turned_head(model, "L0H0", R, "OV"), "none is known"
    if c.n_layers and c.d_mlp:
        yield (
            "neurons",
            turned_neurons(model, orthogonal(c.d_mlp, seed + 2)),
            "the activation acts on each neuron",
        )
