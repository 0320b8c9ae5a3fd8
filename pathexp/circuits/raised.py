"""Skip-trigrams in the running model: how much an output rises when its source stands before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import SEED, expect, instance, sequence_of, whole
from ..errors import PathexpError
from ..model import Model
from ..model.model import check_model
from .corpus import Tokens
from .running import Tally, asked, tally
from .skip_trigrams import Bug, SkipTrigram


@dataclass(frozen=True)
class Raised:
    """How much a skip-trigram's output rises in the running model when its source stands before.

    `mean` and `error` (standard error) of the rise of the output's logit above the mean of all logits, over
    random contexts, against the same contexts with another random token in the source's place; in nats.
    The error of a single context, where time was over, is NaN, and nothing is said to happen. `tally` holds the
    running sums over contexts of all that were measured together, to save and to go on from.
    """

    trigram: SkipTrigram
    mean: float
    error: float
    tally: Tally

    @property
    def happens(self) -> bool:
        """Whether the rise is above zero by more than three standard errors."""
        return bool(self.mean > 3 * self.error)


def raised(
    model: Model,
    trigram: SkipTrigram,
    *,
    contexts: int = 64,
    length: int = 12,
    gap: int = 3,
    seed: int = 0,
    start: Tally | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> Raised:
    """Run a model with and without a skip-trigram's source, and measure what happens to its output, in nats.

    Contexts are `length` random tokens, the source `gap` positions before the destination, which stands last.
    The whole model runs, all heads, patterns and positions included. `start`, `seconds`, `progress` as for `tally`.

    Elhage et al. 2021, "Skip-Trigram Bugs": what the tables force is seen in the model.

    Raises PathexpError for fewer than 2 contexts, or a gap that does not fit.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, heads=2, d_vocab=6, positions="none", seed=1)
    >>> found = raised(model, px.skip_trigrams(model, 1)[0], contexts=8)
    >>> found.tally.windows, found.error > 0
    (8, True)
    """
    expect("raised", trigram=(trigram, _TRIGRAM))
    _check("raised", model, contexts, length, gap, seed)
    (found,) = all_raised(
        model, [trigram], contexts=contexts, length=length, gap=gap, seed=seed, start=start, seconds=seconds,
        progress=progress,
    )  # fmt: skip
    return found


def all_raised(
    model: Model,
    trigrams: Sequence[SkipTrigram],
    *,
    contexts: int = 64,
    length: int = 12,
    gap: int = 3,
    seed: int = 0,
    start: Tally | None = None,
    seconds: float | None = None,
    progress: bool = False,
) -> tuple[Raised, ...]:
    """Measure several skip-trigrams in the same contexts, with one tally for all; everything else as in `raised`.

    Costs 2 · contexts runs of the model a skip-trigram. Elhage et al. 2021, "Skip-Trigram Bugs".

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, heads=2, d_vocab=6, positions="none", seed=1)
    >>> two = px.skip_trigrams(model, 2)
    >>> some = all_raised(model, two, contexts=3)[0].tally
    >>> [rise.tally.windows for rise in all_raised(model, two, contexts=8, start=some)]
    [8, 8]
    """
    kind = sequence_of(_TRIGRAM, "SkipTrigrams, as skip_trigrams(model) gives,")
    expect("all_raised", trigrams=(trigrams, kind))
    _check("all_raised", model, contexts, length, gap, seed)
    if len(trigrams) == 0:
        return ()
    found = tally(
        _contexts(model, length, seed),
        lambda tokens: {_SUMS: np.array([_rise(model, trigram, tokens, gap) for trigram in trigrams])},
        asked(f"rise by {', '.join(map(_ids, trigrams))}, gap {gap}, random seed {seed},", model, length),
        start=start,
        limit=contexts,
        seconds=seconds,
        progress=progress,
    )
    return tuple(Raised(trigram, *_mean_and_error(found, i), found) for i, trigram in enumerate(trigrams))


_TRIGRAM = instance(SkipTrigram, "a SkipTrigram, one of skip_trigrams(model)")
_SUMS = "rise, squared"


def _mean_and_error(found: Tally, index: int) -> tuple[float, float]:
    mean, square = (float(value) for value in found.mean(_SUMS)[index])
    variance = max(square - mean**2, 0.0)
    spread = variance / (found.windows - 1) if found.windows > 1 else np.nan
    return mean, float(np.sqrt(spread))


def _check(name: str, model: Model, contexts: int, length: int, gap: int, seed: int) -> None:
    expect(
        name,
        contexts=(contexts, whole(2)),
        length=(length, whole(2)),
        gap=(gap, whole(1)),
        seed=(seed, SEED),
    )
    check_model(model, name)
    if not 1 <= gap < length <= model.config.n_ctx:
        raise PathexpError(
            f"a source stands 1 to length - 1 positions before the end of at most {model.config.n_ctx} tokens; "
            f"asked gap {gap} in {length}"
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


def happens(model: Model, bug: Bug, **how: Any) -> tuple[Raised, ...]:
    """Measure all four skip-trigrams of a bug in the same contexts, in nats; keyword arguments as in `all_raised`.

    Elhage et al. 2021, "Skip-Trigram Bugs". Raises PathexpError as `raised` does, and for what is no bug.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, heads=2, d_vocab=6, positions="none", seed=1)
    >>> from pathexp.circuits import bugs
    >>> len(happens(model, bugs(model, 1)[0], contexts=4))
    4
    """
    expect("happens", bug=(bug, instance(Bug, "a bug, one of bugs(model)")))
    return all_raised(model, bug.all, **how)
