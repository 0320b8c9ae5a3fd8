"""Why two texts get different predictions: the exact difference of a target, its shares, its largest parts, the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ...answer import Facts, Figure, Note, Part, Table
from ...arguments import expect, whole
from ...errors import PathexpError, TokenError
from ...expansion import expand
from ...expansion.header import counted, model_line, prediction_line, run_facts, text_line
from ...expansion.summary import FEW, PathSummary, shown_inside
from ...graph import Contrast, contrast
from ...model import Model, Target, Trace, load
from ...model.trace import check_trace
from .attribution import Attribution, attribution
from .beside import check_methods

TEXT = "Macbeth shall sleep no more. Macbeth shall"
OTHER_TEXT = "Macbeth doth sleep no more. Macbeth shall"
"""What a text that repeats itself is compared with: the earlier copy of its last token replaced."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ContrastSummary(PathSummary):
    """Everything that `pathexp contrast` shows; each part is computed when it is first read.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    >>> found = contrast_summary(trace, trace.logit(" sleep"))
    >>> found.ok, found.shares["keys"] / found.shares.target.value > 0.8
    (True, True)
    """

    beside: tuple[str, ...] = ()

    @property
    def graph(self) -> Contrast:
        """The difference of both runs."""
        assert isinstance(self.terms.graph, Contrast), "a summary of a contrast"
        return self.terms.graph

    @cached_property
    def shares(self) -> Attribution:
        """What runs through values alone, through keys, through queries, through both."""
        return attribution(self.graph, self.target, by="port")

    @cached_property
    def sources(self) -> Attribution:
        """What each source adds by all its paths: tokens, and of two models every weight that differs."""
        return attribution(self.graph, self.target, by="source")

    @cached_property
    def heads(self) -> Attribution:
        """What each head writes that the sink reads, and what the other methods of `beside` say of the largest `k`."""
        return attribution(self.graph, self.target, by="head", beside=self.beside, k=self.k)

    def headline(self) -> str:
        """Return what the target differs by, and through how many paths."""
        change = self.graph.difference(self.target)
        routed = any(component.port == "router" for component in self.graph.components())
        through = "values, keys, queries and routers" if routed else "values, keys and queries"
        return (
            f"{self.target.label} at position {self.target.position} differs by {change.value:+.4f}: "
            f"the sum of {counted(self.terms.count(), 'path')} through {through}"
        )

    def parts(self) -> Iterator[Part]:
        """Yield the other run, what is replaced by secants, the verdict, the shares, heads, and the tree or the paths."""
        here, there = self.graph.runs
        yield run_facts(here, self.graph.difference(self.target))
        yield Facts(
            {"other_tokens": " ".join(str(int(token)) for token in there.tokens), "count": self.terms.count()}
        )
        yield Note("\n".join(self.against()), "against")
        yield Note("\n".join(self.graph.frozen or ("nothing: this model is linear",)), "secants")
        yield self.verdict.check
        for found in (self.shares, self.heads, *((self.sources,) if self.two_models else ())):
            yield from (_named(part, f"by_{found.unit}") for part in shown_inside(found))
        yield from self.grown()
        if self.terms.count() <= FEW:
            yield self.ranking.table(f"the {len(self.ranking)} largest in absolute value:")

    @property
    def two_models(self) -> bool:
        """Whether the runs are of two models: weights that differ are sources."""
        here, there = self.graph.runs
        return here.model is not there.model

    def against(self) -> Iterator[str]:
        """Yield the other run in lines: its model if it is another, its text, its prediction."""
        _, there = self.graph.runs
        if self.two_models:
            yield model_line(there.model)
        yield text_line(there)
        yield prediction_line(there, self.target.position)


def contrast_summary(
    trace: Trace,
    target: Target,
    *,
    other: str | Sequence[int] | None = None,
    against: Model | str | Path | None = None,
    measure: str = "logit",
    split: str = "midpoint",
    beside: str | Sequence[str] = (),
    k: int = 10,
    nodes: int = 200,
    seconds: float | None = None,
    progress: bool = False,
) -> ContrastSummary:
    """Say why a run and another predict differently, exactly: `px.contrast`, taken apart.

    Parameters
    ----------
    other: the text to compare with, of as many tokens, or its token ids. Without it the text of the run itself, on
        another model; on one model the text of the default example.
    against: the model that the other run is made on, or its name or file; the run's own if not given.
    measure: the target, a token's logit, as it is ("logit"), as its "log-probability" or its "probability".
    split: how the mixed part of products is divided: see `px.contrast`.
    beside: other methods for the `k` largest heads, "gradient", "path patching", "live": see `px.attribution`. They patch
        one run into the other, so both are unedited runs of one model.
    k, nodes: how many paths are listed where they are few, how many nodes of the tree are opened.

    Raises PathexpError where nothing to compare with is given, FreezeError for texts of unequal length in tokens or
    models of unequal shape, LoadError for a model that cannot be read, TargetError for a target of another run.

    >>> import pathexp as px
    >>> trace = px.load("attn-2l").run("To be, or not to be")
    >>> print(contrast_summary(trace, trace.logit(" the"), other="To be, or not to do").headline()[:28])
    logit of ' the' at position
    """
    check_trace(trace, "contrast_summary")
    expect("contrast_summary", k=(k, whole(1)), nodes=(nodes, whole(1)))
    graph = contrast(trace, other_run(trace, other, against), split=split)
    return ContrastSummary(
        terms=expand(graph), target=graph.measured(target, measure), beside=check_methods(beside, "head"), k=k, nodes=nodes, seconds=seconds,
        progress=progress,
    )  # fmt: skip


def other_run(trace: Trace, other: str | Sequence[int] | None, against: Model | str | Path | None) -> Trace:
    """Return the run that a run is compared with, by the rules of `contrast_summary`."""
    if against is not None:
        model = against if isinstance(against, Model) else load(against)
        return model.run(trace.tokens.tolist() if other is None else other)
    if other is None and not is_default(trace):
        raise PathexpError(
            f"nothing to compare this run of {len(trace)} tokens with: give the other text, of as many tokens "
            "(`other`), or another model (`against`)"
        )
    return trace.model.run(OTHER_TEXT if other is None else other)


def _named(part: Part, name: str) -> Part:
    """A table or a picture of shares by its unit; three stand in one answer."""
    return replace(part, name=name) if isinstance(part, Figure | Table) else part


def is_default(trace: Trace) -> bool:
    """Return whether a run is of the default example's text."""
    tokenizer = trace.model.tokenizer
    if tokenizer is None:
        return False
    try:
        return bool(trace.model.encode(TEXT) == trace.tokens.tolist())
    except TokenError:
        return False
