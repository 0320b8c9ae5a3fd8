"""Skip-trigrams in the running model: how much an output rises when its source occurs before.

Elhage et al. 2021, "Skip-Trigram 'Bugs'": what the tables force is seen in the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...answer import Answer, Column, Facts, Part, Table, columns
from ...arguments import SEED, expect, index_of, instance, sequence_of, whole
from ...errors import PathexpError
from ...expansion.header import counted, model_facts
from ...model import Model
from ...model.model import check_model, check_predicts_tokens
from ...workers import one_thread
from ..corpus.accumulate import accumulate
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally, Tokens, question_of
from .skip_trigram_tables import Bug, SkipTrigram


@dataclass(frozen=True)
class SkipTrigramEffect:
    """How much a skip-trigram's output rises in the running model when its source occurs before.

    `mean` and `error` (standard error) of the rise of the output's logit above the mean of all logits, over
    random contexts, versus the same contexts with another random token in the source's place. The error of a single
    context, where time was over, is NaN, and nothing is significant then.
    """

    trigram: SkipTrigram
    mean: float
    error: float

    @property
    def significant(self) -> bool:
        """Whether the rise is above zero by more than three standard errors."""
        return bool(self.mean > 3 * self.error)


@dataclass(frozen=True, eq=False, repr=False)
class SkipTrigramEffects(Answer):
    """The effects of several skip-trigrams in the same contexts; a sequence. `tally` holds the running sums."""

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    effects: tuple[SkipTrigramEffect, ...]
    tally: Tally | None

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[SkipTrigramEffect]:
        return iter(self.effects)

    def __getitem__(self, index: int) -> SkipTrigramEffect:
        """Return one of them. Raises PathexpError if there is none of that number."""
        expect("__getitem__", index=(index, index_of(self.effects)))
        return self.effects[index]

    def headline(self) -> str:
        """Return what was measured."""
        return f"{counted(len(self), 'skip-trigram')} in the running model, {contexts_of(self.tally)}"

    def parts(self) -> Iterator[Part]:
        """Yield the effects."""
        yield model_facts(self.model)
        yield Facts({"contexts": self.tally.windows if self.tally else 0})
        rows = [(*named(self.model, each.trigram), *effect_row(each)) for each in self]
        yield Table((*NAMED, *EFFECT), rows, "effects", key=KEY, value="measured")


KEY = ("head", "source", "destination", "output")
NAMED: tuple[Column, ...] = (columns.text("head"), *(columns.token(name) for name in KEY[1:]))
"""The columns of a skip-trigram, and those of its effect."""
EFFECT: tuple[Column, ...] = (
    columns.number("predicted", "predicted", "logits", 3), columns.number("measured", "measured", "logits", 3),
    columns.number("error", "standard error", "logits", 3, signed=False), columns.flag("significant"),
)  # fmt: skip


def named(model: Model, trigram: SkipTrigram) -> tuple[str, str, str, str]:
    """Return the head and the three tokens of a skip-trigram."""
    source, destination, output = map(
        model.token_string, (trigram.source, trigram.destination, trigram.output)
    )
    return trigram.head, source, destination, output


def effect_row(effect: SkipTrigramEffect) -> tuple[float, float, float, bool]:
    """Return the predicted and the measured rise, its error, and whether it is significant."""
    return effect.trigram.adds, effect.mean, effect.error, effect.significant


def contexts_of(tally: Tally | None) -> str:
    """Return in how many contexts effects were measured."""
    return counted(tally.windows if tally else 0, "random context")


def skip_trigram_effects(
    model: Model,
    trigrams: SkipTrigram | Bug | Sequence[SkipTrigram],
    *,
    contexts: int = 64,
    length: int = 12,
    gap: int = 3,
    seed: int = 0,
    limits: Limits = NO_LIMITS,
) -> SkipTrigramEffects:
    """Run a model with and without the source of each skip-trigram, and measure how much its output rises, in logits.

    Contexts are `length` random tokens, the source `gap` positions before the destination, which comes last. The
    whole model runs, all heads, patterns and positions included. One skip-trigram, all four of a bug, or several are
    measured in the same contexts, with one tally. Costs 2 · contexts runs of the model per skip-trigram. Elhage et
    al. 2021, "Skip-Trigram 'Bugs'".

    Raises PathexpError for fewer than 2 contexts, or a gap that does not fit.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, heads=2, d_vocab=6, positions="none", seed=1)
    >>> two = px.skip_trigrams(model, k=2, bugs=0)
    >>> some = skip_trigram_effects(model, list(two), contexts=3)
    >>> more = skip_trigram_effects(model, list(two), contexts=8, limits=px.Limits(start=some.tally))
    >>> len(more), more.tally.windows, more[0].error > 0
    (2, 8, True)
    """
    if isinstance(trigrams, SkipTrigram | Bug):
        trigrams = trigrams.all if isinstance(trigrams, Bug) else (trigrams,)
    _check(model, trigrams, contexts, length, gap, seed)
    if len(trigrams) == 0:
        return SkipTrigramEffects(model, (), None)
    with one_thread():  # threads of BLAS wait for each other in runs as short as these
        found = accumulate(
            _contexts(model, length, seed),
            lambda tokens: {_SUMS: np.array([_rise(model, trigram, tokens, gap) for trigram in trigrams])},
            question_of(
                f"rise by {', '.join(map(_ids, trigrams))}, gap {gap}, random seed {seed},", model, length
            ),
            most=contexts,
            limits=limits,
        )
    effects = (SkipTrigramEffect(trigram, *_mean_and_error(found, i)) for i, trigram in enumerate(trigrams))
    return SkipTrigramEffects(model, tuple(effects), found)


_TRIGRAMS = sequence_of(
    instance(SkipTrigram, "a SkipTrigram"),
    "a SkipTrigram, a Bug or a list of SkipTrigrams, of skip_trigrams(model)",
)
_SUMS = "rise, squared"


def _mean_and_error(found: Tally, index: int) -> tuple[float, float]:
    mean, square = (float(value) for value in found.mean(_SUMS)[index])
    variance = max(square - mean**2, 0.0)
    spread = variance / (found.windows - 1) if found.windows > 1 else np.nan
    return mean, float(np.sqrt(spread))


def _check(model: Model, trigrams: object, contexts: int, length: int, gap: int, seed: int) -> None:
    expect(
        "skip_trigram_effects",
        trigrams=(trigrams, _TRIGRAMS),
        contexts=(contexts, whole(2)),
        length=(length, whole(2)),
        gap=(gap, whole(1)),
        seed=(seed, SEED),
    )
    check_model(model, "skip_trigram_effects")
    check_predicts_tokens(model, "skip_trigram_effects")
    if not 1 <= gap < length <= model.config.n_ctx:
        raise PathexpError(
            f"a source is 1 to length - 1 positions before the end of at most {model.config.n_ctx} tokens; "
            f"got gap {gap} in {length}"
        )


def _ids(trigram: SkipTrigram) -> str:
    return f"{trigram.source} … {trigram.destination} → {trigram.output}"


def _contexts(model: Model, length: int, seed: int) -> Iterator[Tokens]:
    """Random tokens, without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield rng.integers(0, model.config.d_vocab, length)


def _rise(model: Model, trigram: SkipTrigram, tokens: Tokens, gap: int) -> tuple[float, float]:
    """The rise of the output in one context, and its square."""
    without = tokens.copy()
    without[-1] = trigram.destination
    with_source = without.copy()
    with_source[-1 - gap] = trigram.source
    after, before = (model.run(each).logits[-1] for each in (with_source, without))
    rise = float((after - after.mean())[trigram.output] - (before - before.mean())[trigram.output])
    return rise, rise**2
