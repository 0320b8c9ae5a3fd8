"""What every check of a list of the largest is made of: checks, and one line on what comes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...answer import Answer, Check, Part


@dataclass(frozen=True, eq=False, repr=False)
class RankingCheck(Answer):
    """What was checked of a ranking by code that shares only the graph with the search; true if all of it holds."""

    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return self.ok

    def ranked(self) -> str:
        """Return what is ranked, as it follows "the ranking"."""
        raise NotImplementedError(f"{type(self).__name__} needs to say what is ranked")

    def headline(self) -> str:
        """Return what was checked, and whether all of it holds; what cannot be told does not thereby fail."""
        outcomes = {check.outcome for check in self.checks}
        undecided = "could not be checked" if "undecided" in outcomes else "holds"
        outcome = "does not hold" if "fails" in outcomes else undecided
        return f"the ranking {self.ranked()} {outcome}, checked without the search"

    def parts(self) -> Iterator[Part]:
        """Yield what was checked."""
        yield from self.checks
