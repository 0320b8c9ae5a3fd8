"""Where heads attend on sequences of the user's own: from the position of the answer to positions that have roles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...answer import Figure, Part, Table, columns
from ...errors import PathexpError
from ...expansion.header import counted
from ...graph import Array
from ...labels import head_label
from ...model import Model
from ..cases.case import TARGET, Case
from ..cases.checked_cases import Cases, checked_cases
from ..cases.read_cases import read_cases

ELSEWHERE = "elsewhere"


@dataclass(frozen=True, eq=False)
class RoleAttention:
    """Mean attention of every head from the position of the answer to the roles of cases, and the rest.

    `mean` and `error` are (L, H, roles + 1), the last entry all positions that have no role; `error` is the standard
    error over the cases that have the role, NaN for one. `cases` counts them by role.
    """

    roles: tuple[str, ...]
    mean: Array
    error: Array
    cases: tuple[int, ...]

    def of(self, label: str, role: str) -> float:
        """Return the mean attention of a head to a role. Raises PathexpError for one that is not there."""
        if role not in self.roles:
            raise PathexpError(f"no case has the role {role!r}; there are: {', '.join(self.roles)}")
        for place in np.ndindex(self.mean.shape[:2]):
            if head_label(*place) == label:
                return float(self.mean[place][self.roles.index(role)])
        raise PathexpError(f"no head {label!r} among the {self.mean.shape[0] * self.mean.shape[1]} heads")

    def parts(self) -> Iterator[Part]:
        """Yield one row a head, those that attend most to one role first, and a heat map."""
        order = sorted(np.ndindex(self.mean.shape[:2]), key=lambda place: -self.mean[place][:-1].max())
        head = (
            columns.text("head"),
            *(columns.number(_name(role), role, digits=3, signed=False) for role in self.roles),
            columns.number(ELSEWHERE, digits=3, signed=False),
            columns.number("error", "largest standard error", digits=3, signed=False),
        )
        rows = [
            (head_label(*place), *self.mean[place].tolist(), _largest(self.error[place])) for place in order
        ]
        said = ", ".join(f"{role} in {n}" for role, n in zip(self.roles, self.cases[:-1], strict=True))
        yield Table(
            head, rows, "roles",
            f"mean attention from the position of the answer, {counted(self.cases[-1], 'case')} (roles: {said})",
            key=("head",), value=_name(self.roles[0]), shown=24,
        )  # fmt: skip
        labels = [head_label(*place) for place in np.ndindex(self.mean.shape[:2])]
        values = self.mean[..., :-1].reshape(len(labels), -1)
        data = {"rows": labels, "columns": self.roles, "values": values.tolist()}
        yield Figure("heatmap", "role_attention", data, "attention from the answer's position to roles")


def _name(role: str) -> str:
    return f"to_{role}"


def _largest(errors: Array) -> float | None:
    known = errors[np.isfinite(errors)]
    return float(known.max()) if len(known) else None


def role_attention(model: Model, cases: Cases) -> RoleAttention:
    """Return the mean attention of every head from where the answer is read to every role of cases, and elsewhere.

    Roles that two names give to one position both count there. A role that some cases lack is averaged over those
    that have it. Raises PathexpError for cases without roles, and as `Case.on`. Cost: one forward pass a case.

    >>> import pathexp as px
    >>> cases = [px.Case([5, 2, 7, 3, 5], 2, roles={"copy": 0, "answer": 1}), px.Case([1, 4, 1], 4, roles={"answer": 1})]
    >>> found = role_attention(px.induction_model(), cases)
    >>> found.roles, found.cases, round(found.of("L1H0", "answer"), 3)
    (('answer', 'copy'), (2, 1, 2), 1.0)
    """
    given = read_cases(cases) if isinstance(cases, str | Path) else cases
    checked = checked_cases(given, model)
    roles = tuple(sorted({role for case in checked for role in case.roles if role != TARGET}))
    if not roles:
        raise PathexpError(
            'none of the cases has a role: give positions by name, such as px.Case(tokens, answer, roles={"key": 3})'
        )
    seen = np.array([_seen(model, case, roles) for case in checked])
    there = (~np.isnan(seen[:, 0, 0])).sum(axis=0)
    mean = np.nanmean(seen, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.nansum((seen - mean) ** 2, axis=0) / (there * (there - 1)))
    return RoleAttention(roles, mean, error, tuple(map(int, there)))


def _seen(model: Model, case: Case, roles: tuple[str, ...]) -> Array:
    """The attention of every head to each role, NaN for one that the case lacks, and to all other positions."""
    patterns = model.run(case.tokens).patterns[:, :, case.place]
    found = np.full((*patterns.shape[:2], len(roles) + 1), np.nan)
    named = {place for role, place in case.roles.items() if role != TARGET}
    for at, role in enumerate(roles):
        if role in case.roles:
            found[..., at] = patterns[..., case.roles[role]]
    others = [place for place in range(len(case.tokens)) if place not in named]
    found[..., -1] = patterns[..., others].sum(axis=-1)
    return found
