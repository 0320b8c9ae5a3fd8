"""Skip-trigrams of a one-layer model, "source … destination → output", and the bugs that its heads force.

Elhage et al. 2021, "Interpretation as Skip-Trigrams", with its subsection "Skip-Trigram 'Bugs'".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...answer import Answer, Facts, Figure, Note, Part, Table, columns, visible
from ...arguments import TEXT, TOKEN, expect, index_of, whole
from ...expansion.header import counted, model_facts
from ...graph import Array
from ...model import Model
from ...model.model import check_model
from ..corpus.limits import NO_LIMITS, Limits
from ..corpus.tally import Tally
from ..heads.head import head as head_of
from .skip_trigram_effects import (
    EFFECT,
    KEY,
    NAMED,
    SkipTrigramEffects,
    contexts_of,
    effect_row,
    named,
    skip_trigram_effects,
)
from .skip_trigram_tables import Bug, SkipTrigram, largest_skip_trigrams
from .skip_trigram_tables import bugs as largest_bugs


@dataclass(frozen=True, eq=False, repr=False)
class SkipTrigrams(Answer):
    """The largest skip-trigrams of a one-layer model, and its bugs with their effects; a sequence of the former.

    `heat` (rows, outputs): what every (head, source, destination) that is listed adds to every listed output.
    """

    live: ClassVar[frozenset[str]] = frozenset({"model"})

    model: Model
    trigrams: tuple[SkipTrigram, ...]
    heat: Array
    bugs: tuple[Bug, ...]
    effects: SkipTrigramEffects

    @property
    def tally(self) -> Tally | None:
        """The running sums of the effects, to save and to go on from."""
        return self.effects.tally

    def __len__(self) -> int:
        return len(self.trigrams)

    def __iter__(self) -> Iterator[SkipTrigram]:
        return iter(self.trigrams)

    def __getitem__(self, index: int) -> SkipTrigram:
        """Return one of them. Raises PathexpError if there is none of that number."""
        expect("__getitem__", index=(index, index_of(self.trigrams)))
        return self.trigrams[index]

    def headline(self) -> str:
        """Return whose skip-trigrams are listed."""
        return f"{counted(len(self), 'skip-trigram')} of {self.model.name or 'model'}, read off the weights"

    def parts(self) -> Iterator[Part]:
        """Yield the largest, the bugs with their effects, and a heat map."""
        yield model_facts(self.model)
        yield Facts({"contexts": self.tally.windows if self.tally else 0})
        rows = [(*named(self.model, t), t.attention, t.adds) for t in self]
        yield Table(
            (*NAMED, columns.share("attention"), columns.number("adds", "contribution", "logits", 3)),
            rows, "skip_trigrams", "contribution: to the output's logit, above the mean of all tokens",
            KEY, "adds", shown=None,
        )  # fmt: skip
        if self.bugs:
            yield Note(
                "bugs: where a head and a source serve two intended skip-trigrams, two more are forced\n"
                f"measured: how much the output's logit rises in the running model, {contexts_of(self.tally)}"
            )
            yield self._bugs()
        yield self._heat_map()

    def _bugs(self) -> Table:
        effects = iter(self.effects)
        rows = [
            (number, "intended" if trigram in bug.intended else "forced", *named(self.model, trigram), *effect_row(next(effects)))
            for number, bug in enumerate(self.bugs, 1)
            for trigram in bug.all
        ]  # fmt: skip
        head = (columns.count("bug"), columns.text("part"), *NAMED, *EFFECT)
        return Table(head, rows, "bugs", "", ("bug", "part", *KEY), "measured", shown=None)

    def _heat_map(self) -> Figure:
        rows, outputs = axes(self.trigrams)
        name = self.model.token_string
        return Figure(
            "heatmap", "skip_trigrams",
            {
                "rows": [f"{head} {visible(name(a))} … {visible(name(b))}" for head, a, b in rows],
                "columns": [visible(name(output)) for output in outputs], "values": self.heat,
            },
            "contribution of skip-trigrams", "logits",
        )  # fmt: skip


def axes(trigrams: tuple[SkipTrigram, ...]) -> tuple[list[tuple[str, int, int]], list[int]]:
    """Return the different (head, source, destination) and the different outputs of skip-trigrams."""
    rows = dict.fromkeys((t.head, t.source, t.destination) for t in trigrams)
    return list(rows), list(dict.fromkeys(t.output for t in trigrams))


def skip_trigrams(
    model: Model,
    *,
    k: int = 12,
    head: str | None = None,
    source: int | str | None = None,
    bugs: int = 3,
    contexts: int = 64,
    limits: Limits = NO_LIMITS,
) -> SkipTrigrams:
    """Read the skip-trigrams of a one-layer model off its weights, and show the bugs they force in the running model.

    Positions, scales of norms and biases are left out of the tables. Elhage et al. 2021, "Interpretation as
    Skip-Trigrams".

    Parameters
    ----------
    k: how many skip-trigrams to list, those that add most first: the best of each (head, source).
    head: only one head, such as "L0H3".
    source: only one source, an id or a text that is one token: every output, with the destination that attends to it
        most.
    bugs: how many bugs to measure, those whose weakest skip-trigram adds most first, one per source.
    contexts: in how many random contexts each skip-trigram of a bug is measured; see `skip_trigram_effects`.
    limits: when to stop measuring, and the sums to go on from.

    Raises PathexpError for a model that does not have exactly one layer. Costs O(d_vocab²) memory, and 8 · contexts
    runs of the model per bug.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, heads=2, d_vocab=6, positions="none", seed=1)
    >>> best = px.skip_trigrams(model, k=1, bugs=0)[0]
    >>> best.head, best.source, best.destination, best.output
    ('L0H0', 0, 0, 2)
    """
    expect(
        "skip_trigrams", k=(k, whole(0)), head=(head, TEXT.or_none), source=(source, TOKEN.or_none),
        bugs=(bugs, whole(0)),
    )  # fmt: skip
    check_model(model, "skip_trigrams")
    largest = largest_skip_trigrams(model, k, head, source)
    found = largest_bugs(model, bugs) if bugs else ()
    every = [trigram for bug in found for trigram in bug.all]
    effects = skip_trigram_effects(model, every, contexts=contexts, limits=limits)
    return SkipTrigrams(model, largest, _heat(model, largest), found, effects)


def _heat(model: Model, trigrams: tuple[SkipTrigram, ...]) -> Array:
    rows, outputs = axes(trigrams)
    attention = {(t.head, t.source, t.destination): t.attention for t in trigrams}
    found = np.zeros((len(rows), len(outputs)))
    for place, (label, source, destination) in enumerate(rows):
        one = np.zeros(model.config.d_vocab)
        one[source] = 1.0
        adds = head_of(model, label).ov_table.apply(one)
        found[place] = attention[label, source, destination] * (adds - adds.mean())[outputs]
    return found
