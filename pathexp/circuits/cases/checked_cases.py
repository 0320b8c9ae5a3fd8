"""Cases as they come in: checked once, before any work, all that is wrong said together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from ...arguments import shown
from ...errors import PathexpError, TokenError
from ...model import Model
from .case import Case
from .read_cases import read_cases

Cases: TypeAlias = str | Path | Iterable[Case]
"""Cases, or the path of a .jsonl or .csv file of them."""


def checked_cases(cases: Cases, model: Model, *, corrupted: bool = False) -> tuple[Case, ...]:
    """Return cases, or those of a file, in token ids of a model; all that is wrong with any of them is said at once.

    `corrupted`: whether each needs a corrupted prompt. Raises PathexpError that names every case that is refused.
    """
    if isinstance(cases, str | Path):
        cases = read_cases(cases)
    if not isinstance(cases, Iterable):
        raise PathexpError(
            f"expected cases, a list of px.Case, or the path of a .jsonl or .csv file, got {shown(cases)}"
        )
    found, wrong = [], []
    for number, case in enumerate(cases, 1):
        try:
            found.append(_usable(case, model, corrupted))
        except PathexpError as error:
            wrong.append(f"case {number} ({case.label if isinstance(case, Case) else shown(case)}): {error}")
    if wrong:
        more = f"\n… and {len(wrong) - _LISTED:,} more" if len(wrong) > _LISTED else ""
        of = len(found) + len(wrong)
        raise PathexpError(
            f"{len(wrong):,} of {of:,} cases cannot be used:\n" + "\n".join(wrong[:_LISTED]) + more
        )
    if not found:
        raise PathexpError("there are no cases to average over; give at least one px.Case")
    return tuple(found)


_LISTED = 10


def _usable(case: object, model: Model, corrupted: bool) -> Case:
    if not isinstance(case, Case):
        raise PathexpError("expected a px.Case")
    if corrupted and case.corrupted is None:
        raise PathexpError("it has no corrupted prompt, which is asked for here")
    found = case.on(model)
    for each in filter(None, (found.prompt, found.corrupted)):
        if len(each) > model.config.n_ctx:
            raise TokenError(
                f"it has {len(each)} tokens, the model takes at most {model.config.n_ctx} (n_ctx)"
            )
    return found
