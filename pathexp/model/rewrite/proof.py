"""A rewrite is a list of named steps, each of which must leave the logits alone; which is checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...errors import RewriteError
from ..model import Model
from .difference import Difference, compare
from .draft import Draft


@dataclass(frozen=True)
class Step:
    """One change of a model that should not change its logits, and a name for it."""

    name: str
    edit: Callable[[Draft], None]


@dataclass(frozen=True)
class Check:
    """What a step did to the logits, compared with just before it."""

    name: str
    ok: bool
    difference: Difference

    def __str__(self) -> str:
        return f"{self.name}: {'PASS' if self.ok else f'FAIL, {self.difference}'}"


def rewritten(
    model: Model, record: str, steps: Sequence[Step], up_to: Callable[[Difference], bool] | None = None
) -> Model:
    """Do all steps and compare the logits of before and after; with no steps, the model itself.

    ``record`` is added to the model's history. ``up_to`` says which difference is allowed (default: none).
    Costs eight runs of up to 9 tokens.

    Raises RewriteError, naming the first step that changed the logits and how all others fared.

    >>> import pathexp as px
    >>> def forgets(draft):
    ...     draft.drop("b_O")
    >>> model = px.random_model(layers=1, biases=True)
    >>> px.rewrite.rewritten(model, "simplify", [px.rewrite.Step("simplify b_O", forgets)])
    Traceback (most recent call last):
        ...
    pathexp.errors.RewriteError: simplify would change what the model computes; the first step that does is simplify b_O...
    """
    if not steps:
        return model
    allowed = up_to or _equal
    draft = Draft(model)
    for step in steps:
        step.edit(draft)
    result = draft.model((*model.history, record))
    found = compare(model, result)
    if allowed(found):
        return result
    checks = check_steps(model, steps, up_to)
    first = next((check.name for check in checks if not check.ok), "none alone, but all together")
    report = "\n  ".join(map(str, checks))
    raise RewriteError(
        f"{record} would change what the model computes; the first step that does is {first}. {found}\n  {report}"
    )


def proven(model: Model, result: Model, record: str) -> Model:
    """Return a model made elsewhere, with the record added to its history, once its logits are those of the first.

    Raises RewriteError if they are not.
    """
    found = compare(model, result)
    if not found.equal:
        raise RewriteError(f"{record} would change what the model computes: {found}")
    return replace(result, history=(*model.history, record))


def check_steps(
    model: Model, steps: Sequence[Step], up_to: Callable[[Difference], bool] | None = None
) -> tuple[Check, ...]:
    """Compare the logits before and after each step by itself. Eight runs, and one copy of the weights, a step."""
    allowed, draft, before, checks = up_to or _equal, Draft(model), model, []
    for step in steps:
        step.edit(draft)
        after = draft.model(())
        found = compare(before, after)
        checks.append(Check(step.name, allowed(found), found))
        before = after
    return tuple(checks)


def _equal(difference: Difference) -> bool:
    return difference.equal
