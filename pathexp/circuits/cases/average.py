"""An average of answers is an answer: one question over many cases, row by row, with standard errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...answer import Answer, Facts, Figure, Part, Table
from ...arguments import SHARE, TRUTH, Kind, expect, instance, sequence_of
from ...errors import PathexpError
from ...expansion import tree
from ...expansion.header import counted
from ...expansion.search import interrupts
from ...graph import freeze
from ...model import Model
from ...model.model import check_model
from ..interventions.intervene import intervene
from ..interventions.kept_paths import INPUTS
from .case import Case
from .checked_cases import Cases, checked_cases
from .journal import Journal, asked_of
from .mean_tree import mean_tree
from .measured import Ask, Question, name_of, takes_target
from .steps import MEASURED, Step
from .sums import Averaged, Sums
from .workers import Workers, naming
from .zero_point import zero_options

PATH = instance((str, Path), "a path").or_none
EXECUTOR = instance(Executor, "an executor of concurrent.futures").or_none
_DEFAULTS = {"zero": "zero", "inputs": INPUTS}
"""Options of `intervene` that say what it does without them."""
QUANTILES = sequence_of(SHARE, "shares from 0 to 1")


@dataclass(frozen=True, eq=False, repr=False)
class Average(Answer):
    """The means of an answer's tables over cases, with standard errors; every table has the key of the question's.

    Checks are the worst of each kind: of the case in which it came closest to failing.
    """

    question: str
    model: str
    requested: int
    found: Averaged

    @property
    def cases(self) -> int:
        """How many cases were averaged."""
        return self.found.cases

    @property
    def value(self) -> float | None:
        """The mean of the target."""
        return self.found.value.mean

    @property
    def value_error(self) -> float | None:
        """Its standard error."""
        return self.found.value.error

    def headline(self) -> str:
        """Return what was averaged over how many cases."""
        said = "" if self.value is None else f": {self.value:+.4f}"
        error = "" if self.value_error is None else f" ± {self.value_error:.4f}"
        short = "" if self.complete else f", of {self.requested:,} (interrupted)"
        return f"{self.question}, the mean over {counted(self.cases, 'case')}{short}{said}{error}"

    @property
    def complete(self) -> bool:
        """Whether all cases were averaged."""
        return self.cases == self.requested

    def parts(self) -> Iterator[Part]:
        """Yield the tables, what rows are missing in some cases, the worst checks, and bars."""
        yield Facts(
            {"question": self.question, "model": self.model, "cases": self.cases, "requested": self.requested,
             "value": self.value, "value_error": self.value_error}
        )  # fmt: skip
        found = self.found
        yield from (part for part in found.more if not isinstance(part, Figure))
        yield from (*found.tables, *found.notes, *found.checks)
        pictures = [part for part in found.more if isinstance(part, Figure)]
        yield from pictures or [
            _bars(table, self.headline()) for table in found.tables[:1] if table.value == "mean"
        ]


def average(
    question: Question, model: Model, cases: Cases, *, contrast: bool = False,
    executor: Executor | None = None, quantiles: Sequence[float] = (), folder: str | Path | None = None,
    progress: bool = False, resume: str | Path | None = None, **options: Any,
) -> Average:  # fmt: skip
    """Ask a question of every case, and return the mean of the answers, row by row.

    In each case the question is called as question(run, target, **options): the target is the logit of the answer,
    minus that of the wrong one if there is one. Rows are joined by the key of their table. Its value becomes `mean`
    and `error` (the standard error of the mean), another number `x` becomes `x_mean` and `x_error`. Rows that are
    missing in a case are zero where the question says so; else means are over the cases that have them, which the
    column `cases` counts. Sums are exact: no order of the cases and no executor changes a digit. Memory does not
    grow with the number of cases.

    Parameters
    ----------
    question: any function that returns an answer, such as px.attribution. One without a parameter `target` is asked
        about the run alone. The mean of `px.tree` is one tree: opened by |mean|, a wave at a time over all cases.
    contrast: ask about the contrast of each run with that of the corrupted prompt.
    executor: any executor of `concurrent.futures`; the model goes to each worker once.
    quantiles: also these quantiles of the value, such as (0.1, 0.5, 0.9): eight bytes a row and case.
    folder: where workers find the model, on machines that share a file system; by default this machine's own.
    resume: a file that keeps what each case gave, as it is found. An average that died goes on from it, and a longer
        list of cases asks only those that are new (of trees: as far as the same nodes are opened). Refused where it
        holds another question, model or version.
    options: those of the question. A text "@S2" is the position of the role S2 in each case. `zero` is "zero",
        "corrupted" (the corrupted run) or "mean": the mean of what the cases write there, by role, and where lengths
        differ over positions. px.intervene of each component in turn computes all of them live unless `live` says how
        many: those of largest effect are others in each case, and their means would be too large.

    Ctrl-C ends it after the case at hand, with what there is. Raises PathexpError that names the case for whatever a question refuses.

    >>> import pathexp as px
    >>> model = px.load("attn-2l")
    >>> cases = [px.Case("To be, or not to be", " the"), px.Case("Macbeth shall", " not")]
    >>> mean = px.average(px.attribution, model, cases, by="layer")
    >>> mean.cases, sorted(mean.records()[0])
    (2, ['cases', 'error', 'mean', 'name'])
    """
    check_model(model, "average")
    expect(
        "average", question=(question, Kind("a function that returns an answer, such as px.attribution", callable)),
        contrast=(contrast, TRUTH), executor=(executor, EXECUTOR), quantiles=(quantiles, QUANTILES),
        progress=(progress, TRUTH), folder=(folder, PATH), resume=(resume, PATH),
    )  # fmt: skip
    ready = checked_cases(cases, model, corrupted=contrast or options.get("zero") == "corrupted")
    ask = Ask(
        question, _all_live(question, options, contrast, model, ready), contrast, takes_target(question)
    )
    said = None if resume is None else asked_of(question, ask.options, model, ready, contrast=contrast)
    journal = None if resume is None or said is None else Journal(resume, said)
    with Workers(executor, folder, progress) as workers:
        ask = replace(ask, options=zero_options(question, ask.options, model, ready, workers))
        if question is tree:
            made = mean_tree(ask, model, ready, workers, tuple(quantiles), journal)
        else:
            made = _added(ask, model, ready, workers, tuple(quantiles), journal)
    return Average(name_of(question), repr(model), len(ready), made)


def _all_live(
    question: Question, options: dict[str, Any], contrast: bool, model: Model, cases: Sequence[Case]
) -> dict[str, Any]:
    """The options of a question; where it would compute some effects live, chosen by size in each case, all of them."""
    given = [
        name for name, value in options.items() if value is not None and str(value) != _DEFAULTS.get(name)
    ]
    if question is not intervene or contrast or given:
        return options
    return {**options, "live": len(freeze(model.run(cases[0].tokens)).alphabet.components)}


def _added(
    ask: Ask, model: Model, cases: tuple[Case, ...], workers: Workers, quantiles: tuple[float, ...],
    journal: Journal | None,
) -> Averaged:  # fmt: skip
    kept = None if journal is None else Step(journal, MEASURED)
    sums = Sums(quantiles)
    with interrupts() as interrupted:
        try:
            for number, found in enumerate(workers.over(ask, model, cases, kept), 1):
                with naming(number, len(cases), cases[number - 1]):
                    sums.add(found)
                if interrupted():
                    break
        except KeyboardInterrupt:
            if not sums.cases:
                raise
    if not sums.tables:
        raise PathexpError(
            f"{name_of(ask.question)}() has no table with a key by which its rows could be joined over cases"
        )
    return sums.averaged()


def _bars(table: Table, title: str) -> Figure:
    place = len(table.key)
    rows = table.rows[:100]
    return Figure(
        "bars", "means",
        {"rows": [" ".join(map(str, row[:place])) for row in rows], "values": [[row[place]] for row in rows]},
        title,
    )  # fmt: skip
