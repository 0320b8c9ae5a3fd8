"""Whether a head is an induction head, and whether a model has any: in words, with the evidence, "undecided" allowed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .head_types import HeadType, HeadTypes
from .losses import CopyLosses
from .removal import Removal
from .repeated_tokens import INDUCTION

YES, NO, UNDECIDED = "induction", "none", "undecided"
COPIED = 0.25
"""At which share of queries a head must raise the next token most of all of the copy, and at twice the share of chance."""
FALL, ERRORS = 0.1, 4.0
"""From how many nats per token, and standard errors, the second copy counts as better predicted."""


@dataclass(frozen=True)
class HeadVerdict:
    """Whether one head is an induction head, and why: "induction", "none" or "undecided"."""

    head: str
    verdict: str
    because: str


def copies(found: HeadType, types: HeadTypes) -> bool:
    """Whether a head copies straight to the logits."""
    return found.copied is not None and found.copied >= max(COPIED, 2 / min(types.lengths))


def head_verdict(
    found: HeadType, types: HeadTypes, by_weights: bool, removal: Removal | None = None
) -> HeadVerdict:
    """Return whether a head is an induction head: prefix matching at every length, and copying, on repeated tokens.

    Olsson et al. 2022, "Key Concepts", define induction heads by these two. A head that does not copy straight to the logits
    may do so through later layers: then what its `removal` costs decides. At one length alone a fixed offset looks the
    same, and weights alone, or one of the two alone, leave it undecided.
    """
    weights = ", by the weights too" if by_weights else ", not by the weights"
    said = f"prefix matching {found.attention[INDUCTION]:.2f}"
    if found.only_at:
        return HeadVerdict(found.label, UNDECIDED, _at_some(found))
    if found.type != INDUCTION:
        why = f"by the weights, but {said}" if by_weights else said
        return HeadVerdict(found.label, UNDECIDED if by_weights else NO, why)
    straight = "" if found.copied is None else f", copies at {found.copied:.0%} of queries"
    cost = "" if removal is None else f"; {removal.said()}"
    if not copies(found, types) and not _needed(removal):
        return HeadVerdict(found.label, UNDECIDED, f"{said}{straight or ', copying not known'}{cost}")
    if len(types.lengths) == 1:
        why = f"{said}{straight}; one length cannot tell it from a fixed offset"
        return HeadVerdict(found.label, UNDECIDED, why)
    return HeadVerdict(found.label, YES, f"{said}{straight}{weights}{cost}")


def _needed(removal: Removal | None) -> bool:
    """Whether removing a head costs more than noise."""
    return removal is not None and removal.fall >= max(FALL, ERRORS * removal.standard_error)


def _at_some(found: HeadType) -> str:
    by = ", ".join(f"{each[INDUCTION]:.2f} at {n}" for n, each in found.by_length.items())
    return f"at length {' and '.join(map(str, found.only_at))} only ({by}): by position, or by what is there alone"


def model_verdict(
    heads: Sequence[HeadVerdict], losses: Sequence[CopyLosses], by_weights: Collection[str]
) -> tuple[str, str]:
    """Return whether a model has induction heads, and why.

    Without any, the loss decides between "none" and "undecided": a second copy that is predicted better needs a
    mechanism, which was then not found here.
    """
    yes = [each.head for each in heads if each.verdict == YES]
    if yes:
        differ = sorted(set(yes) ^ set(by_weights))
        weights = f"the weights differ on {', '.join(differ)}" if differ else "the weights name the same"
        return YES, f"prefix matching at every length, and copying, on repeated random tokens; {weights}"
    open_heads = [each.head for each in heads if each.verdict == UNDECIDED]
    falling = [each for each in losses if falls(each)]
    if open_heads:
        return UNDECIDED, f"{', '.join(open_heads)}: see why below"
    if falling:
        return UNDECIDED, (
            f"no head attends to the induction position, but the loss falls by {falling[0].fall:.3f} nats per token at "
            f"length {falling[0].length}: give a prefix, other lengths, or cases with roles (px.heads(cases=…))"
        )
    if not losses:
        return NO, "no head attends to the induction position; this model has no next-token loss to compare"
    return NO, f"no head attends to the induction position, and the loss does not fall ({_falls(losses)})"


def falls(losses: CopyLosses) -> bool:
    """Whether the second copy is predicted better, by more than noise over texts."""
    error = losses.standard_error
    return losses.fall >= FALL and (error is None or losses.fall >= ERRORS * error)


def _falls(losses: Sequence[CopyLosses]) -> str:
    return ", ".join(f"{each.fall:+.3f} at length {each.length}" for each in losses)
