"""A case: one prompt, the answer that it should get, and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ...arguments import TEXT, check, refuse_masked, shown, whole
from ...errors import PathexpError, TokenError
from ...model import Model, Target, Trace

Prompt: TypeAlias = str | tuple[int, ...]
Answers: TypeAlias = tuple[int | str, ...]

TARGET = "target"
"""The role of the position at which the answer is read; the last one where no case says otherwise."""


@dataclass(frozen=True)
class Case:
    """A prompt, the token that answers it, and what stands against it.

    Parameters
    ----------
    prompt: a text, or token ids.
    answer, wrong: a token as an id or as a text that is one token of the model, or several: then the mean of their
        logits counts. Without `wrong` the target is the logit of the answer, else the difference of both.
    corrupted: a prompt of as many tokens, in which what matters is changed.
    roles: positions by name, such as {"S2": 10}; the answer is read at the role "target", else at the last position.
    name: what errors call the case.

    A case of texts gets its token ids from a model: see `on`. Raises PathexpError for fields of another kind.

    >>> case = Case([5, 7, 5], answer=7, wrong=[3, 4], corrupted=[6, 7, 5])
    >>> case.tokens, case.answer
    ((5, 7, 5), 7)
    """

    prompt: Prompt
    answer: int | str | Answers
    wrong: int | str | Answers | None = None
    corrupted: Prompt | None = None
    roles: Mapping[str, int] = field(default_factory=dict)
    name: str = ""

    def __init__(
        self,
        prompt: str | Sequence[int],
        answer: int | str | Sequence[int | str],
        wrong: int | str | Sequence[int | str] | None = None,
        corrupted: str | Sequence[int] | None = None,
        roles: Mapping[str, int] | None = None,
        name: str = "",
    ) -> None:
        check("Case, name", name, TEXT)
        made: dict[str, Any] = {
            "prompt": _prompt("prompt", prompt),
            "answer": _answer("answer", answer),
            "wrong": None if wrong is None else _answer("wrong", wrong),
            "corrupted": None if corrupted is None else _prompt("corrupted", corrupted),
            "roles": _roles(roles),
            "name": name,
        }
        for each, value in made.items():
            object.__setattr__(self, each, value)

    def __hash__(self) -> int:
        return hash(
            (self.prompt, self.answer, self.wrong, self.corrupted, tuple(self.roles.items()), self.name)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Case, (self.prompt, self.answer, self.wrong, self.corrupted, dict(self.roles), self.name)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The token ids of the prompt. Raises PathexpError for a text: `on(model)` has them."""
        if isinstance(self.prompt, str):
            raise PathexpError(
                f"token ids of the text {shown(self.prompt)} come with a model: case.on(model).tokens"
            )
        return self.prompt

    @property
    def label(self) -> str:
        """The name, or the beginning of the prompt."""
        return self.name or shown(self.prompt)

    def on(self, model: Model) -> Case:
        """Return the case in token ids of a model, everything checked.

        Raises TokenError for a text that the model cannot read, an answer that is several tokens or none, a prompt
        and a corrupted one of unequal length, and roles that are no positions of the prompt.
        """
        prompt = _ids(model, self.prompt)
        corrupted = None if self.corrupted is None else _ids(model, self.corrupted)
        if corrupted is not None and len(corrupted) != len(prompt):
            raise TokenError(
                f"the prompt has {len(prompt)} tokens and the corrupted one {len(corrupted)}: make them equally long"
            )
        for role, place in self.roles.items():
            if not -len(prompt) <= place < len(prompt):
                raise TokenError(f"role {role!r} is position {place}, of a prompt of {len(prompt)} tokens")
        roles = {role: place % len(prompt) for role, place in self.roles.items()}
        wrong = None if self.wrong is None else _outputs(model, self.wrong)
        answer = _outputs(model, self.answer)
        return replace(self, prompt=prompt, corrupted=corrupted, roles=roles, answer=answer, wrong=wrong)

    @property
    def place(self) -> int:
        """The position at which the answer is read."""
        return self.roles.get(TARGET, -1)

    def target(self, trace: Trace) -> Target:
        """Return the logit of the answer, minus that of what is wrong, in a run; several are averaged."""
        wanted = _logits(trace, self.answer, self.place)
        return wanted if self.wrong is None else wanted - _logits(trace, self.wrong, self.place)


def _prompt(name: str, given: object) -> Prompt:
    if isinstance(given, str):
        return given
    refuse_masked(f"Case, {name}", given)
    members = list(given) if isinstance(given, Sequence | np.ndarray) else []
    if not members or not all(map(whole(0).holds, members)):
        raise PathexpError(f"Case, {name}: expected a text or token ids, got {shown(given)}")
    return tuple(map(int, members))


def _answer(name: str, given: object) -> int | str | Answers:
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    members: list[Any] = list(given) if several else [given]  # type: ignore[call-overload]
    if not members or not all(isinstance(each, str) or whole(0).holds(each) for each in members):
        raise PathexpError(
            f"Case, {name}: expected a token as an id or a text, or several, got {shown(given)}"
        )
    found = tuple(each if isinstance(each, str) else int(each) for each in members)
    return found if several and len(found) > 1 else found[0]


def _roles(given: Mapping[str, int] | None) -> Mapping[str, int]:
    found = {} if given is None else given
    if not isinstance(found, Mapping) or not all(
        isinstance(role, str) and role and whole().holds(place) for role, place in found.items()
    ):
        raise PathexpError(
            f"Case, roles: expected positions by name, such as {{'S2': 10}}, got {shown(given)}"
        )
    return MappingProxyType({role: int(place) for role, place in sorted(found.items())})


def _ids(model: Model, prompt: Prompt) -> tuple[int, ...]:
    ids = tuple(model.encode(prompt)) if isinstance(prompt, str) else prompt
    if not ids:
        raise TokenError("the prompt has no tokens")
    outside = [token for token in ids if token >= model.config.d_vocab]
    if outside:
        raise TokenError(f"token id {outside[0]} is not in the vocabulary of {model.config.d_vocab}")
    return ids


def _outputs(model: Model, answer: int | str | Answers) -> int | Answers:
    if isinstance(answer, tuple):
        return tuple(model.output_id(each) for each in answer)
    return model.output_id(answer)


def _logits(trace: Trace, answer: int | str | Answers, place: int) -> Target:
    several = answer if isinstance(answer, tuple) else (answer,)
    found = [trace.logit(each, position=place) for each in several]
    return found[0] if len(found) == 1 else Target.mean(found)
