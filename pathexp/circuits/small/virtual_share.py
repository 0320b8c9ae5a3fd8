"""How much virtual heads reduce the loss on a corpus, with what stands in their place, and what of it is a constant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...answer import Facts, Note, Part, Table, columns
from ...errors import PathexpError
from ...expansion import expand
from ...graph import Array
from ...model import Model
from ...model.softmax import next_token_loss
from ..corpus.corpus import Corpus
from ..corpus.limits import Limits
from ..corpus.tally import Sums, Tally, Tokens
from ..corpus.zero_points import ZeroPoint, windows_of, zero_point


@dataclass(frozen=True)
class VirtualShare:
    """How much the virtual heads reduce the loss, patterns frozen; losses are means in nats per token.

    `loss` of the model; `without` paths through two heads or more; `direct` of the direct path (and constants) alone.
    `zero` says what stands in place of what is removed; `zeroed` are `without` and `direct` where that is nothing.
    `error` is the standard error of the reduction over windows, None for one. `counts` are the numbers of paths by
    order; `tally` holds the running sums, to save and to go on from.
    """

    loss: float
    without: float
    direct: float
    zeroed: tuple[float, float]
    zero: str
    error: float | None
    counts: tuple[int, ...]
    tally: Tally

    @property
    def tokens(self) -> int:
        """How many tokens were predicted."""
        return self.tally.tokens - self.tally.windows

    @property
    def reduction(self) -> float:
        """How much the virtual heads reduce the loss, in nats per token."""
        return self.without - self.loss

    @property
    def share(self) -> float | None:
        """Their share of what all heads reduce the loss beyond the direct path; None where that is nothing."""
        return _share_of(self.reduction, self.direct - self.loss)

    @property
    def zeroed_share(self) -> float | None:
        """The same with removed paths set to zero, so that what is constant counts as theirs."""
        return _share_of(self.zeroed[0] - self.loss, self.zeroed[1] - self.loss)

    @property
    def constant(self) -> float:
        """How much of the reduction with paths set to zero is that of a constant, which acts as a bias."""
        return self.zeroed[0] - self.without


def _share_of(reduction: float, whole: float) -> float | None:
    return reduction / whole if whole else None


def share_parts(share: VirtualShare) -> Iterator[Part]:
    orders = ", ".join(f"{count:,} of order {order}" for order, count in enumerate(share.counts))
    yield Facts(
        {
            "tokens": share.tokens,
            "windows": share.tally.windows,
            "zero": share.zero,
            "reduction": share.reduction,
            "error": share.error,
            "share": share.share,
            "zeroed_share": share.zeroed_share,
            "constant": share.constant,
        }
    )
    yield Table(
        (
            columns.text("kept"), columns.number("loss", "loss", "nats per token", signed=False),
            columns.number("zeroed", "set to zero", "nats per token", signed=False),
        ),
        [
            ("direct path and constants", share.direct, share.zeroed[1]),
            ("paths through one head at most", share.without, share.zeroed[0]), ("all paths", share.loss, share.loss),
        ],
        "losses", f"loss in nats per token over {share.tokens:,} tokens{share.tally.drawn}, patterns frozen, others {share.zero} (paths: {orders})",
        ("kept",), "loss", shown=None,
    )  # fmt: skip
    error = "" if share.error is None else f" ± {share.error:.4f}"
    yield Note(
        f"virtual heads reduce the loss by {share.reduction:.4f}{error}, {_said(share.share)} of what all heads reduce it "
        f"beyond the direct path; set to zero: by {share.zeroed[0] - share.loss:.4f}, {_said(share.zeroed_share)}, of which "
        f"{share.constant:.4f} is a constant"
    )


def _said(share: float | None) -> str:
    return "an undefined share" if share is None else f"{share:.1%}"


def virtual_share(model: Model, corpus: Corpus, zero: str, limits: Limits) -> VirtualShare:
    """How much the virtual heads of an attention-only model reduce the loss."""
    if model.config.has_mlps:
        raise PathexpError(
            "virtual heads are weighed in attention-only models; this one has MLPs between heads"
        )
    windows = windows_of(corpus, model) if zero != "zero" else []
    point = zero_point(zero, partial(_parts, model), windows)
    what = f"loss reduction by virtual heads, removed paths {point.said()},"
    found = corpus.accumulate(model, lambda window: _measured(point, window), what, limits, taken=windows)
    loss, without, direct, zeroed, zeroed_direct = (float(each) for each in found.mean("losses"))
    error = found.error("reduction")
    return VirtualShare(
        loss, without, direct, (zeroed, zeroed_direct), point.said(), None if error is None else float(error),
        expand(model.run([0])).count_by_order(), found,
    )  # fmt: skip


def _parts(model: Model, window: Tokens) -> Iterator[tuple[str, Array]]:
    """What the direct path, single heads, and virtual heads add to the logits of a window."""
    orders = expand(model.run(window)).by_order()
    yield from (
        ("direct", orders[0]),
        ("single", orders[1:2].sum(axis=0)),
        ("virtual", orders[2:].sum(axis=0)),
    )


def _measured(point: ZeroPoint, window: Tokens) -> Sums:
    """The losses of all paths, of those through one head at most, and of those through none; the others set to zero too."""
    (direct, _), (single, no_single), (virtual, no_virtual) = point.pairs(window)
    kept = (
        direct + single + virtual, direct + single + no_virtual, direct + no_single + no_virtual,
        direct + single, direct,
    )  # fmt: skip
    losses = np.array([next_token_loss(logits, window) for logits in kept])
    reduction = losses[1] - losses[0]
    return {"losses": losses, "reduction": np.asarray(reduction), "reduction²": np.asarray(reduction**2)}
