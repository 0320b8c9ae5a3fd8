"""One question asked of one case: its tables and checks as plain values, and how the run, target and options are made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...answer import Answer, Check, Facts, Table
from ...arguments import shown
from ...errors import PathexpError
from ...graph import contrast
from ...model import Model
from .case import Case

Question: TypeAlias = Callable[..., Answer]
ROLE = "@"
"""An option such as query="@S2" is the position that has this role in the case."""


@dataclass(frozen=True)
class Measured:
    """What a question found in one case."""

    kind: str
    tables: Mapping[str, Table]
    checks: tuple[Check, ...]
    value: float | None
    """The value of the target in the run."""


@dataclass(frozen=True)
class Ask:
    """A question with its options, asked of the run of a case, or of the contrast with its corrupted run.

    `takes_target`: whether the question is asked about a run and a target, or about the run alone.
    """

    question: Question
    options: Mapping[str, Any]
    contrast: bool = False
    takes_target: bool = True

    def __call__(self, model: Model, case: Case) -> Measured:
        return measured(self.answer(model, case))

    def answer(self, model: Model, case: Case) -> Answer:
        """Return what the question answers of one case."""
        trace = model.run(case.tokens)
        what = contrast(trace, model.run(corrupted_tokens(case))) if self.contrast else trace
        about = [what, case.target(trace)] if self.takes_target else [what]
        found = self.question(*about, **self.options_of(model, case))
        if not isinstance(found, Answer):
            raise PathexpError(
                f"{name_of(self.question)}() gave {shown(found)}, no answer: an average is one of answers"
            )
        return found

    def options_of(self, model: Model, case: Case) -> dict[str, Any]:
        """Return the options for one case: roles as positions, values that are made from the case made."""
        return {name: _of_case(value, model, case) for name, value in self.options.items()}


class FromCase:
    """An option whose value is another one in each case."""

    def of(self, model: Model, case: Case) -> Any:
        """Return the value for a case."""
        raise NotImplementedError


@dataclass(frozen=True)
class CorruptedRun(FromCase):
    """The run of the corrupted prompt."""

    def of(self, model: Model, case: Case) -> Any:
        """Return the run."""
        return model.run(corrupted_tokens(case))


@dataclass(frozen=True)
class CorruptedTokens(FromCase):
    """The token ids of the corrupted prompt."""

    def of(self, model: Model, case: Case) -> Any:
        """Return the ids."""
        return list(corrupted_tokens(case))


def corrupted_tokens(case: Case) -> tuple[int, ...]:
    """Return the ids of the corrupted prompt. Raises PathexpError where a case has none."""
    if case.corrupted is None or isinstance(case.corrupted, str):
        raise PathexpError("it has no corrupted prompt, which is asked for here")
    return case.corrupted


def _of_case(value: Any, model: Model, case: Case) -> Any:
    if isinstance(value, FromCase):
        return value.of(model, case)
    if isinstance(value, str) and value.startswith(ROLE):
        role = value.removeprefix(ROLE)
        if role not in case.roles:
            raise PathexpError(f"it has no role {role!r}; its roles are {', '.join(case.roles) or 'none'}")
        return case.roles[role]
    return value


def measured(answer: Answer) -> Measured:
    """Return the parts of an answer that can be averaged."""
    document = answer.document
    tables = {table.name: table for table in document.of(Table) if table.key}
    facts = {name: value for part in document.of(Facts) for name, value in part.values.items()}
    values = [facts.get("target_value"), facts.get("value")]
    number = next((float(each) for each in values if isinstance(each, int | float)), None)
    return Measured(document.kind, tables, tuple(document.of(Check)), number)


def name_of(question: object) -> str:
    """Return the name of a question."""
    return str(getattr(question, "__name__", type(question).__name__))


def takes_target(question: Question) -> bool:
    """Whether a question has a parameter `target`."""
    try:
        return "target" in inspect.signature(question).parameters
    except (TypeError, ValueError):
        return True
