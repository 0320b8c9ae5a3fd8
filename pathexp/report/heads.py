"""Heads as a person reads them: what each does and copies, one or two side by side, and a model's induction heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..algebra import LinearMap, top_entries
from ..algebra.operations import singular_values
from ..circuits.heads.copying import Copying, Spectrum, spectrum
from ..circuits.heads.head import Head
from ..circuits.heads.head_types import HeadKinds
from ..circuits.heads.induction import Induction, InductionPair
from ..circuits.heads.induction_score import KeyPath
from ..circuits.heads.repeated_tokens import KINDS
from .text import table, visible


def score_text(value: float | None) -> str:
    """Return a score with its sign, or "undefined"."""
    return "undefined" if value is None else f"{value:+.3f}"


def spectrum_data(found: Spectrum | None) -> dict[str, Any] | None:
    """Return what a spectrum says as plain data; undefined scores are null."""
    if found is None:
        return None
    return {"score": found.score, "positive": found.positive, "reason": found.reason, "size": found.size}


@dataclass(frozen=True)
class HeadsReport:
    """Everything that `pathexp heads` shows: kinds by attention, copying by spectra where they can be read."""

    kinds: HeadKinds
    copies: tuple[Copying, ...] | None

    def text(self) -> str:
        """Return the report for a terminal."""
        header = ["head", "kind", *KINDS, *(("OV copies", "QK matches") if self.copies else ())]
        rows = [
            [head.label, head.kind, *(f"{head.attention[kind]:.3f}" for kind in KINDS), *self._spectra(row)]
            for row, head in enumerate(self.kinds.heads)
        ]
        kinds = self.kinds
        head = (
            f"mean attention from the second copy of {kinds.length} random tokens said twice ({kinds.runs} texts)\n"
            f"loss {kinds.first_loss:.3f} in the first copy, {kinds.second_loss:.3f} in the second (nats a token)"
        )
        return f"{head}\n\n{table(header, rows, '<<' + '>' * (len(header) - 2))}"

    def _spectra(self, row: int) -> list[str]:
        if self.copies is None:
            return []
        found = self.copies[row]
        return [score_text(found.ov.score), "by distance" if found.qk is None else score_text(found.qk.score)]

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        copies = self.copies or (None,) * len(self.kinds.heads)
        rows = [
            {"head": head.label, "kind": head.kind, "attention": head.attention}
            | ({} if copy is None else {"ov": spectrum_data(copy.ov), "qk": spectrum_data(copy.qk)})
            for head, copy in zip(self.kinds.heads, copies, strict=True)
        ]
        kinds = self.kinds
        return {
            "heads": rows, "first_loss": kinds.first_loss, "second_loss": kinds.second_loss,
            "length": kinds.length, "runs": kinds.runs,
        }  # fmt: skip


@dataclass(frozen=True)
class InductionReport:
    """Everything that `pathexp induction` shows."""

    found: Induction
    explained: tuple[KeyPath, ...]

    def text(self) -> str:
        """Return the report for a terminal."""
        return "\n\n".join(["\n".join(self._lists()), self._pairs(), *self._shares()])

    def _lists(self) -> Iterator[str]:
        found, kinds = self.found, self.found.kinds
        yield f"induction heads by the weights  {_names(found.from_weights)}"
        yield f"induction heads by attention    {_names(found.from_data)}"
        yield "the two lists agree" if found.agree else "THE TWO LISTS DIFFER"
        yield (
            f"loss {kinds.first_loss:.3f} in the first copy of {kinds.length} random tokens, "
            f"{kinds.second_loss:.3f} in the second"
        )

    def _pairs(self) -> str:
        pairs = self._strongest()
        header = [
            "head",
            "keys by",
            "attends back",
            "QK matches",
            "best match is itself",
            "OV copies",
            "attention",
            "induction",
        ]
        return (
            table(header, [self._row(pair) for pair in pairs], "<<>>>>><")
            if pairs
            else "no head has an earlier one"
        )

    def _strongest(self) -> list[InductionPair]:
        """The strongest pair of every head that has an earlier one."""
        labels = [head.label for head in self.found.kinds.heads]
        return [pair for label in labels if (pair := self.found.before(label))]

    def _row(self, pair: InductionPair) -> list[str]:
        measured = self.found.kinds[pair.head].attention["induction"]
        return [
            pair.head, pair.before, f"{pair.previous:.3f}", score_text(pair.matching.score), f"{pair.on_diagonal:.3f}",
            score_text(pair.copying.score), f"{measured:.3f}", "yes" if pair.is_induction else "no",
        ]  # fmt: skip

    def _shares(self) -> Iterator[str]:
        for each in self.explained:
            kinds = ", ".join(f"{kind} {value:+.2f}" for kind, value in each.by_kind.items())
            yield (
                f"{each.head} scores the induction position {each.advantage:+.2f} above the other keys; keys made by "
                f"{each.before} bring {each.through:+.2f} of it ({each.share:.1%})\n  {kinds}"
            )

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        found = self.found
        pairs = [
            {
                "head": pair.head, "before": pair.before, "previous": pair.previous,
                "matching": spectrum_data(pair.matching), "on_diagonal": pair.on_diagonal,
                "copying": spectrum_data(pair.copying),
                "is_induction": pair.is_induction,
            }
            for pair in self._strongest()
        ]  # fmt: skip
        return {
            "from_weights": list(found.from_weights), "from_data": list(found.from_data), "agree": found.agree,
            "first_loss": found.kinds.first_loss, "second_loss": found.kinds.second_loss, "pairs": pairs,
            "explained": [{name: getattr(each, name) for name in _EXPLAINED} for each in self.explained],
        }  # fmt: skip


_EXPLAINED = ("head", "before", "advantage", "through", "by_kind", "queries", "share")


def _names(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "none"


@dataclass(frozen=True)
class CircuitsReport:
    """One head, or more side by side: both circuits of each, and the largest entries of their token tables."""

    heads: tuple[Head, ...]
    distance: int | None
    top: int

    def text(self) -> str:
        """Return the report for a terminal."""
        return "\n\n".join(
            [self._sizes(), *(self._entries(head, what) for head in self.heads for what in ("QK", "OV"))]
        )

    def _sizes(self) -> str:
        names = [f"{head.label} {what}" for head in self.heads for what in ("QK", "OV")]
        facts = [self._facts(head, what) for head in self.heads for what in ("QK", "OV")]
        rows = [[name, *(fact[name] for fact in facts)] for name in facts[0]]
        return table(["", *names], rows, "<" + ">" * len(names))

    def _facts(self, head: Head, what: str) -> dict[str, str]:
        on_stream = self._on_stream(head, what)
        values, found = singular_values(on_stream), spectrum(self.table(head, what))
        return {
            "rank at most": str(on_stream.rank_bound),
            "norm on the stream": f"{on_stream.norm():.4f}",
            "trace on the stream": f"{on_stream.trace():+.4f}",
            "largest singular values": " ".join(f"{value:.3g}" for value in values[:3]),
            "Σλ/Σ|λ| between tokens": score_text(found.score),
            "positive share": score_text(found.positive),
        }

    def _on_stream(self, head: Head, what: str) -> LinearMap:
        if what == "OV":
            return head.OV
        return head.QK if self.distance is None else head.QK_at(self.distance)

    def table(self, head: Head, what: str) -> LinearMap:
        """A head's token table, QK (destination, source) or OV (output, source)."""
        if what == "OV":
            return head.ov_table
        return head.qk_table if self.distance is None else head.qk_table_at(self.distance)

    def _entries(self, head: Head, what: str) -> str:
        header = (
            ["looks from", "looks at", "adds to score"]
            if what == "QK"
            else ["from", "raises", "adds to logit"]
        )
        rows = [
            [visible(one), visible(other), f"{value:+.4f}"] for one, other, value in self._named(head, what)
        ]
        title = f"{head.label} {what}: " + ("where it looks" if what == "QK" else "what it brings")
        return f"{title}\n{table(header, rows, '<<>')}"

    def _named(self, head: Head, what: str) -> Iterator[tuple[str, str, float]]:
        """The largest entries with their tokens as text."""
        name = head.model.token_string
        for first, second, value in self.entries(head, what):
            yield name(first), name(second), value

    def entries(self, head: Head, what: str) -> Iterator[tuple[int, int, float]]:
        """The largest entries: QK (destination, source, score), OV (source, output, logit)."""
        found = top_entries(self.table(head, what), self.top, "positive")
        for row, column, value in zip(*found, strict=True):
            first, second = (row, column) if what == "QK" else (column, row)
            yield int(first), int(second), self.scale(head, what) * float(value)

    def scale(self, head: Head, what: str) -> float:
        """What an entry of a table is multiplied by: the attention scale where it becomes a score."""
        return head.form.scale if what == "QK" else 1.0

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return {head.label: {what: self._data(head, what) for what in ("QK", "OV")} for head in self.heads}

    def _data(self, head: Head, what: str) -> dict[str, Any]:
        on_stream = self._on_stream(head, what)
        return {
            "rank_bound": on_stream.rank_bound,
            "norm": on_stream.norm(),
            "trace": on_stream.trace(),
            "singular_values": singular_values(on_stream).tolist(),
            "spectrum": spectrum_data(spectrum(self.table(head, what))),
            "top": [list(entry) for entry in self._named(head, what)],
        }
