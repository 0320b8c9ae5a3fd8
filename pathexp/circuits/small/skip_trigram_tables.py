"""One layer: a head's two tables make skip-trigrams "source … destination → output", and the bugs they force.

Where a head attends depends on source and destination, what it writes on the source alone. So a head that makes
A … B → C and A … B' → C' makes A … B → C' and A … B' → C too. Elhage et al. 2021, "One-Layer Attention-Only
Transformers", "Skip-Trigram 'Bugs'".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...arguments import TEXT, TOKEN, expect, sequence_of, whole
from ...errors import PathexpError
from ...graph import Array
from ...model import Model
from ...model.model import check_model, check_predicts_tokens
from ..heads.head import Head, every_head, head

OTHERS = 15
"""How many other tokens, none of them special, a source shares the head's attention with when tables are read."""


@dataclass(frozen=True)
class SkipTrigram:
    """source … destination → output in one head, tokens by id, as its tables say.

    `attention` is what the destination would pay to the source among `OTHERS` average tokens, by content alone;
    `adds` what the head would then add to the output's logit above the mean of all tokens.
    """

    head: str
    source: int
    destination: int
    output: int
    attention: float
    adds: float


@dataclass(frozen=True)
class Bug:
    """Four skip-trigrams that one head cannot have apart: two `intended`, and the two `forced` by them."""

    intended: tuple[SkipTrigram, SkipTrigram]
    forced: tuple[SkipTrigram, SkipTrigram]

    @property
    def all(self) -> tuple[SkipTrigram, ...]:
        """The intended and the forced."""
        return self.intended + self.forced


@dataclass(frozen=True)
class Tables:
    """The two tables of a head as a reader of skip-trigrams needs them, both (d_vocab, d_vocab).

    `attention` (destination, source): among average others; `adds` (output, source): to the logit, above the
    mean of all outputs.
    """

    label: str
    attention: Array
    adds: Array

    def trigram(self, source: int, destination: int, output: int) -> SkipTrigram:
        """Return what the tables say of one skip-trigram."""
        share = float(self.attention[destination, source])
        return SkipTrigram(
            self.label, source, destination, output, share, share * float(self.adds[output, source])
        )


def tables(one: Head) -> Tables:
    """Form both tables of a head. Raises SizeError above 5,800 tokens, FreezeError under rotary positions."""
    scores = one.form.scale * one.qk_table.dense()
    largest = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - largest)
    attention = weights / (weights + OTHERS * weights.mean(axis=1, keepdims=True))
    outputs = one.ov_table.dense()
    return Tables(one.label, attention, outputs - outputs.mean(axis=0))


def _tables_of(model: Model, label: str | None = None) -> Iterator[Tables]:
    """The tables of all heads or of one, one at a time: they are large."""
    check_predicts_tokens(model, "skip_trigrams")
    if model.config.n_layers != 1:
        raise PathexpError(
            f"skip-trigrams are what one layer makes; {model.name or 'this model'} has {model.config.n_layers}. "
            "In deeper models heads read each other: see induction and virtual_heads"
        )
    if model.config.sinks:
        raise PathexpError(
            "skip-trigrams weigh keys against each other alone; these heads have sinks beside them"
        )
    chosen = every_head(model) if label is None else iter([head(model, label)])
    return (tables(each) for each in chosen)


def largest_skip_trigrams(
    model: Model, k: int, head: str | None = None, source: int | str | None = None
) -> tuple[SkipTrigram, ...]:
    """Return the k skip-trigrams of a one-layer model that add most, the largest first: of all sources, the best of each (head, source).

    For one source: every output, with the destination that attends to it most. Raises PathexpError for another
    number of layers.
    """
    chosen = _tables_of(model, head)
    if source is None:
        found = [_best_of(each, token) for each in chosen for token in range(model.config.d_vocab)]
    else:
        token = model.token_id(source)
        found = [
            each.trigram(token, _attending(each, token), output)
            for each in chosen
            for output in range(model.config.d_vocab)
        ]
    return tuple(sorted(found, key=lambda trigram: -trigram.adds)[:k])


def _attending(each: Tables, source: int) -> int:
    """The destination that attends most to a source."""
    return int(each.attention[:, source].argmax())


def _best_of(each: Tables, source: int) -> SkipTrigram:
    return each.trigram(source, _attending(each, source), int(each.adds[:, source].argmax()))


def forced_bug(
    model: Model,
    head: str,
    source: int | str,
    first: tuple[int | str, int | str],
    second: tuple[int | str, int | str],
) -> Bug:
    """Return the bug that two skip-trigrams of one head and source force, from the tables alone.

    `first` and `second` are (destination, output) each: from A … B → C and A … B' → C', that A … B → C' and
    A … B' → C are raised too. Elhage et al. 2021, "Skip-Trigram 'Bugs'".
    """
    check_model(model, "forced_bug")
    pair = sequence_of(TOKEN, "a destination and an output, both tokens", 2)
    expect(
        "forced_bug", head=(head, TEXT), source=(source, TOKEN), first=(first, pair), second=(second, pair)
    )
    (each,) = _tables_of(model, head)
    a = model.token_id(source)
    (b, c), (b2, c2) = ((model.token_id(x), model.token_id(y)) for x, y in (first, second))
    return _bug(each, a, (b, c), (b2, c2))


def _bug(each: Tables, a: int, first: tuple[int, int], second: tuple[int, int]) -> Bug:
    (b, c), (b2, c2) = first, second
    return Bug(
        (each.trigram(a, b, c), each.trigram(a, b2, c2)), (each.trigram(a, b, c2), each.trigram(a, b2, c))
    )


def bugs(model: Model, k: int = 10) -> tuple[Bug, ...]:
    """Return k bugs of a one-layer model, those whose weakest skip-trigram adds most first, one per source.

    For each source of each head: the two destinations that attend most, and the two outputs raised most. Elhage et al.
    2021, "Skip-Trigram 'Bugs'". Raises PathexpError for a model that has not one layer.

    >>> import pathexp as px
    >>> bug = bugs(px.random_model(layers=1, heads=2, d_vocab=6, positions="none", seed=1), 1)[0]
    >>> len(bug.intended), len(bug.forced)
    (2, 2)
    """
    check_model(model, "bugs")
    expect("bugs", k=(k, whole(0)))
    found = (_strongest(each, source) for each in _tables_of(model) for source in range(model.config.d_vocab))
    ranked = sorted(found, key=lambda bug: -min(trigram.adds for trigram in bug.all))
    chosen: dict[int, Bug] = {}
    for bug in ranked:
        chosen.setdefault(bug.intended[0].source, bug)
    return tuple(chosen.values())[:k]


def _strongest(each: Tables, source: int) -> Bug:
    b, b2 = (int(i) for i in np.argsort(-each.attention[:, source], kind="stable")[:2])
    c, c2 = (int(i) for i in np.argsort(-each.adds[:, source], kind="stable")[:2])
    return _bug(each, source, (b, c), (b2, c2))
