"""Can a model tell order? Permute the tokens: a model that cannot permutes what it says, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arguments import SEED, expect
from ..errors import PathexpError
from ..model import Config, Model
from ..model.model import check_model

SHARE = 1e-9
_LENGTH = 8


@dataclass(frozen=True)
class OrderBlind:
    """Whether permuting the tokens permutes the output, and what in the model could tell order.

    ``changes``: at each place of the permuted text, the largest difference between the logits that its token had and
    has, in nats; ``gives_order``: the switches by which order enters.
    """

    blind: bool
    changes: tuple[float, ...]
    tolerance: float
    tokens: tuple[int, ...]
    permutation: tuple[int, ...]
    gives_order: tuple[str, ...]

    @property
    def change(self) -> float:
        """The largest of the changes, in nats."""
        return max(self.changes)

    def __str__(self) -> str:
        found = (
            f"order-blind: permuting {len(self.tokens)} tokens permutes the output"
            if self.blind
            else f"tells order: permuting {len(self.tokens)} tokens does more than permute the output"
        )
        sign = "≤" if self.blind else ">"
        why = "; ".join(self.gives_order) or "no positions, no causal mask, no window"
        return f"{found} (largest change {self.change:.2e} {sign} {self.tolerance:.2e}); {why}"

    def __bool__(self) -> bool:
        return self.blind


def order_blind(model: Model, tokens: Sequence[int] | str | None = None, *, seed: int = 0) -> OrderBlind:
    """Permute the tokens of a text and see whether the output is permuted alike, and no more.

    Attention is a weighted mean over a set: without positions and without a causal mask a transformer sees its
    text as a bag (Vaswani et al. 2017, section 3.5). Costs two runs.

    Parameters
    ----------
    tokens: what to permute (default: up to 8 random tokens); at least two of them differ.
    seed: of the tokens and of the permutation.

    Raises PathexpError if there are no two different tokens to permute.

    >>> import pathexp as px
    >>> print(px.order_blind(px.random_model(positions="none", causal=False)).blind)
    True
    >>> print(px.order_blind(px.random_model(positions="learned", causal=False)).gives_order)
    ("positions='learned'",)
    """
    check_model(model, "order_blind")
    expect("order_blind", seed=(seed, SEED))
    rng = np.random.default_rng(seed)
    ids = _drawn(model.config, rng) if tokens is None else model.run(tokens).tokens
    if len(set(ids.tolist())) < 2:
        raise PathexpError(
            f"order can be told only between different tokens; found {ids.tolist()!r:.60}: give at least two"
        )
    order = _moving(ids, rng)
    before, after = model.run(ids).logits[order], model.run(ids[order]).logits
    changes = tuple(np.abs(before - after).max(axis=-1).tolist())
    tolerance = SHARE * float(np.abs(before).max())
    chosen = tuple(int(token) for token in ids), tuple(int(place) for place in order)
    return OrderBlind(max(changes) <= tolerance, changes, tolerance, *chosen, _gives_order(model.config))


def _drawn(config: Config, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Different tokens, as many as vocabulary and context have room for, up to 8."""
    return rng.permutation(config.d_vocab)[: min(_LENGTH, config.n_ctx)].astype(np.int64)


def _moving(ids: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """A permutation after which the text is another."""
    while True:
        order = rng.permutation(len(ids))
        if not np.array_equal(ids, ids[order]):
            return order


def _gives_order(config: Config) -> tuple[str, ...]:
    found = []
    if config.positions != "none":
        found.append(f"positions={config.positions!r}")
    if config.causal:
        found.append("causal=True")
    if config.windows is not None and any(width is not None for width in config.windows):
        found.append(f"windows={config.windows!r}")
    return tuple(found)
