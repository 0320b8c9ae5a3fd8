"""The page as one file that opens without a server: what was computed, the same controls, what is missing says so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import Any, ClassVar

from ..answer import Answer, Facts, Note, Part
from ..arguments import TRUTH, expect
from ..errors import AnswerError, PathexpError
from ..expansion.header import counted
from ..model import Target, Trace
from ..replaced_file import replaced_file
from .bundle import bundled
from .computed import computed
from .explore import session_of
from .session import Session


@dataclass(frozen=True, eq=False, repr=False)
class PageReport(Answer):
    """A page with what was computed; `save` writes it as one HTML file, `html` is that file's text."""

    live: ClassVar[frozenset[str]] = frozenset({"session"})

    session: Session
    progress: bool = False
    name: str = field(default="")

    @cached_property
    def held(self) -> dict[str, Any]:
        """What the page begins with, and its answers by key; computed when first read."""
        return computed(self.session, once_a_second() if self.progress else lambda _: None)

    @cached_property
    def html(self) -> str:
        """The page as one HTML file."""
        run = self.held["answers"].get("run []", {})
        return bundled(f"pathexp: {run.get('model', self.name)}", self.held)

    def headline(self) -> str:
        """Return how large the page is, and how many answers it holds."""
        answers = counted(len(self.held["answers"]), "answer")
        return f"a page of {len(self.html.encode()) / 1e6:.1f} MB with {answers}"

    def parts(self) -> Iterator[Part]:
        """Yield the size, what was refused, and what a file can do."""
        refused = [key for key, found in self.held["answers"].items() if "refused" in found]
        yield Facts({"bytes": len(self.html.encode()), "answers": len(self.held["answers"])})
        if refused:
            yield Note("\n".join(refused), f"{counted(len(refused), 'question')} refused")
        yield Note("It opens in any browser without a server; what was not computed says so on the page.")

    def save(self, file: str, figure: str | None = None, *, dark: bool = False) -> None:
        """Write the page as one .html file; the browser's settings choose between light and dark.

        Raises AnswerError for another ending, or a file that cannot be written.
        """
        if not file.lower().endswith(".html"):
            raise AnswerError(f"expected a file that ends in .html, got {file!r}")
        try:
            with replaced_file(file) as beside:
                beside.write(self.html.encode())
        except OSError as error:
            raise AnswerError(f"cannot write the page to {file!r}: {error}") from None


def once_a_second() -> Callable[[str], None]:
    """Return what says on stderr what is being computed, at most once a second."""
    last = -1.0

    def say(what: str) -> None:
        nonlocal last
        if (now := monotonic()) - last >= 1:
            print(f"report: {what}", file=sys.stderr, flush=True)
            last = now

    return say


def report(
    trace: Trace, target: Target | None = None, *, name: str = "", progress: bool = False
) -> PageReport:
    """Return the page of a run as one file: the tree, the largest branches, paths, flow, heads, lens, cuts.

    The same page as `explore` serves, with the answers inside; it needs no server and fetches nothing.

    Parameters
    ----------
    target: the logit, or the difference of two, that is explained; the predicted token's if not given.
    name: what the model was loaded from, for the code that the page hands out.
    progress: say on stderr what is being computed, once a second; Ctrl-C writes what there is.

    Raises PathexpError for a target that is no logit or difference of two. Costs about 400 questions: seconds for a
    small model, half a minute of a processor for one of 100 million parameters.

    >>> import pathexp as px
    >>> page = report(px.load("attn-1l").run("To be"))
    >>> page.html[:15], len(page.html) < 5e6
    ('<!doctype html>', True)
    """
    if not isinstance(trace, Trace):
        raise PathexpError(f"report() takes a run, got {trace!r:.60}; use model.run(text)")
    expect("report", progress=(progress, TRUTH))
    return PageReport(session_of(trace, "", target, name), progress, trace.model.name)
