"""The check of a ranking's claims, from its certificate and the graph alone, with a report of what was checked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...answer import Check, Facts, Part
from ...graph import Walk
from ...model import Target
from .beginnings import Beginnings
from .certificate import Certificate, Word
from .coverage import Coverage
from .endings import Bounded, Endings, dot
from .evaluation import Sure, pulled, stacked
from .ranking_check import RankingCheck


@dataclass(frozen=True)
class Claims:
    """What a ranking says: paths with values and errors, a bound on all others, how many there are, whether proven."""

    words: tuple[Word, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]
    bound: float
    margin: float
    count: int
    exact: bool


@dataclass(frozen=True, eq=False, repr=False)
class ProofCheck(RankingCheck):
    """What was checked of a ranking toward a target, and what it took.

    `sets` inclusions of sets and known beginnings were certified, `cut` endings bounded again, `opened` ones followed into
    all components before them, `paths` listed paths evaluated by pushing forward; in so many `seconds`.
    """

    label: str
    sets: int
    cut: int
    opened: int
    paths: int
    seconds: float

    def ranked(self) -> str:
        """Return toward what paths are ranked."""
        return f"toward {self.label}"

    def parts(self) -> Iterator[Part]:
        """Yield every check, and what it took."""
        yield from super().parts()
        yield Facts(
            {name: getattr(self, name) for name in ("sets", "cut", "opened", "paths")}
            | {"seconds": round(self.seconds, 3)},
            "what was checked",
            shown=True,
        )


def check_ranking(walk: Walk, target: Target, claims: Claims, certificate: Certificate) -> ProofCheck:
    """Check a ranking's claims of the paths of a walk toward a target.

    Costs a factorization of a d × d matrix or two per position and depth, the matrix of every component that is no head at every position,
    and one pull-back of every ending that was cut.
    """
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        beginnings = Beginnings(walk, certificate)
        field = _field(walk, target)
        problems, sets = _counted(_tried(Coverage(beginnings)))
        listed = frozenset(word[:-1] for word in claims.words)
        found = list(Endings(beginnings, field, listed).bounded()) if not problems else []
        checks = (
            _claims(walk, claims),
            _values(beginnings, field, target, claims),
            _inclusions(problems, sets),
            _covered(found, beginnings, target, claims),
            _cuts(found, claims),
        )
    cut = sum(each.cut for each in found)
    return ProofCheck(
        checks, target.label, sets, cut, len(found) - cut, len(claims.words), time.perf_counter() - start
    )


def _tried(coverage: Coverage) -> Iterator[str]:
    try:
        yield from coverage.failures()
    except (KeyError, IndexError, ValueError) as error:
        yield f"the certificate names what the graph does not have ({error})"


def _counted(checked: Iterable[str]) -> tuple[list[str], int]:
    """What does not hold, and how much was checked."""
    found = list(checked)
    return [problem for problem in found if problem], len(found)


def _field(walk: Walk, target: Target) -> Sure:
    """The target's covectors on the final stream."""
    graph = walk.graph
    field = np.zeros((graph.sizes[0], len(target.direction)))
    field[target.position] = target.direction
    exact = Sure.exactly(field)
    return pulled(graph.sink.operator, exact) if target.at == graph.at else exact


def _claims(walk: Walk, claims: Claims) -> Check:
    """Whether a ranking agrees with itself: paths of the walk, each once, by size, enough of them, and a bound that fits."""
    sizes = np.abs(claims.values)
    least = float(sizes.min(initial=np.inf))
    wrong = [
        len(set(claims.words)) < len(claims.words),
        not all(walk.automaton.accepts(word) for word in claims.words),
        bool(np.any(np.diff(sizes) > 0)),
        claims.count != sum(walk.count_by_order),
        not np.isfinite([claims.bound, *sizes]).all(),
        len(claims.words) != len(claims.values) or len(claims.words) > claims.count,
        claims.exact and not claims.bound <= least + claims.margin * (1 + 1e-12),
        claims.exact and not claims.words,
    ]
    return _check("the ranking agrees with itself", float(sum(wrong)), "paths, order, count and bound")


def _check(what: str, error: float, source: str, detail: str = "", reason: str = "") -> Check:
    error = error if error == error else float("inf")
    return Check(what, error, 0.0, source, detail, reason, name=what.replace(" ", "_"))


def _values(beginnings: Beginnings, field: Sure, target: Target, claims: Claims) -> Check:
    """Whether every listed path, pushed forward from its source, has its value, up to the errors of both."""
    worst, where, unknown = 0.0, "", 0
    for word, value, error in zip(claims.words, claims.values, claims.errors, strict=True):
        found, off = _value(beginnings, field, target, word)
        excess = abs(found - value) - (error + off)
        unknown += not off < np.inf
        if not excess <= worst:
            worst, where = excess, f"{' '.join(word)}: {found:.9g}, listed as {value:.9g}"
    reason = _no_bound(unknown) if worst <= 0.0 else ""
    return _check("listed paths have their values", worst, "rounding of both, path by path", where, reason)


def _no_bound(unknown: int) -> str:
    """Why nobody can tell; nothing where every value's rounding is bounded."""
    return f"of {unknown:,} values the checker has no bound on the rounding" if unknown else ""


def _value(beginnings: Beginnings, field: Sure, target: Target, word: Word) -> tuple[float, float]:
    """The value of one path, and how far it may be off."""
    walk = beginnings.walk
    try:
        if len(word) == 2 and (straight := beginnings.straight(word[0])) is not None:
            if target.at != walk.graph.at:
                return 0.0, 0.0
            here, read = straight.at(target.position), Sure.exactly(target.direction[None])
            return _dotted(Sure(read.value, read.off), Sure(here.value[None], here.off[None]))
        return _dotted(field, beginnings.stream(len(walk.graph.blocks), word[:-1]))
    except (KeyError, IndexError):
        return float("nan"), 0.0


def _dotted(field: Sure, stream: Sure) -> tuple[float, float]:
    value = float(np.tensordot(field.value, stream.value, axes=2))
    _, off = dot(Sure(field.value[None], field.off[None]), stacked([stream]))
    return value, float(off[0, 0])


def _inclusions(problems: list[str], sets: int) -> Check:
    """Whether all inclusions could be certified; what cannot be certified is not thereby false."""
    reason = (
        f"{len(problems):,} of {sets:,} could not be certified: {'; '.join(problems[:3])}" if problems else ""
    )
    return Check(
        "every beginning is known or in a set", float(len(problems)), 0.0,
        f"{sets:,} inclusions by shifted Cholesky factorizations, or look-ups", reason=reason, name="inclusions",
    )  # fmt: skip


def _covered(found: list[Bounded], beginnings: Beginnings, target: Target, claims: Claims) -> Check:
    """Whether no known path that is not listed exceeds the bound, as far as rounding lets anybody tell."""
    what, source = "known paths that are not listed stay below the bound", "rounding of the worst one's value"
    every = [(each.largest, each.off, f"into … {' '.join(each.word)}") for each in found]
    every += list(_straight(beginnings, target, claims))
    if not found:
        return Check(what, 0.0, 0.0, source, reason="nothing was followed", name="known_paths")
    unknown = sum(each.unknown for each in found) + sum(not off < np.inf for _, off, _ in every)
    excess = [_excess(size, claims.bound) - off if size == size else np.inf for size, off, _ in every]
    size, off, where = every[int(np.argmax(excess))]
    reason = _no_bound(unknown) if max(excess) <= 0.0 else ""
    return Check(
        what, _excess(size, claims.bound), off, source, f"{where}: {size:.6g}", reason, name="known_paths"
    )


def _straight(beginnings: Beginnings, target: Target, claims: Claims) -> Iterator[tuple[float, float, str]]:
    """The constants that go straight into the sink and are not listed: sizes, rounding, names."""
    sink = beginnings.walk.graph.sink.label
    for source, state in beginnings.walk.starts():
        word = (source.label, sink)
        if beginnings.walk.straight(source, state) and word not in claims.words:
            value, off = _value(beginnings, Sure.exactly(np.zeros((1, 1))), target, word)
            yield abs(value), off, " ".join(word)


def _cuts(found: list[Bounded], claims: Claims) -> Check:
    """Whether every ending that was cut stays below the bound; one that may not refutes nothing: it is bounded, not known."""
    cut = [each for each in found if each.cut]
    worst = max(cut, key=lambda each: each.bound, default=None)
    where = f"… {' '.join(worst.word)}: {worst.bound:.6g}" if worst else "no ending was cut"
    excess = _excess(worst.bound, claims.bound) if worst else 0.0
    reason = f"the checker's own bound is looser than {claims.bound:.6g}" if excess > 0.0 else ""
    what = "endings that were cut stay below the bound"
    return _check(what, excess, f"{len(cut):,} bounded again", where, reason)


def _excess(most: float, bound: float) -> float:
    return max(0.0, most - bound) if most == most else float("inf")
