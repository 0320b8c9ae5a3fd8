"""Bigrams and skip-trigrams as a person reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..circuits.bigrams import Bigrams
from ..circuits.raised import Raised
from ..circuits.skip_trigrams import Bug, SkipTrigram
from ..model import Model
from .text import count_of, table, visible


@dataclass(frozen=True)
class BigramReport:
    """Everything that `pathexp bigrams` shows."""

    model: Model
    found: Bigrams
    top: int

    def text(self) -> str:
        """Return the report for a terminal."""
        return "\n\n".join(["\n".join(self._head()), self._table()])

    def _head(self) -> Iterator[str]:
        found = self.found
        whose = "its table of bigrams" if self.model.config.n_layers == 0 else "its direct path alone"
        rank = "undefined" if found.rank_correlation is None else f"{found.rank_correlation:.4f}"
        yield f"{self.model.name}: {whose}, beside {count_of(found.total, 'bigram')} of the corpus"
        yield (
            f"rank correlation {rank} over {count_of(int(found.kept.sum()), 'bigram')} "
            f"seen at least {found.at_least} times"
        )
        yield (
            f"KL(corpus ‖ model) {found.kl:.4f} nats a token: the best table's loss is {found.entropy:.4f}, "
            f"this one's {found.entropy + found.kl:.4f}"
        )

    def _table(self) -> str:
        rows = [
            [visible(first), visible(second), f"{count:,}", f"{corpus:.3f}", f"{model:.3f}"]
            for first, second, count, corpus, model in self._rows()
        ]
        return table(["token", "next", "times", "corpus log p", "model log p"], rows, "<<>>>")

    def _rows(self) -> Iterator[tuple[str, str, int, float, float]]:
        found, name = self.found, self.model.token_string
        for i in range(min(self.top, len(found.counts))):
            yield (
                name(int(found.first[i])), name(int(found.second[i])), int(found.counts[i]),
                float(found.corpus[i]), float(found.model[i]),
            )  # fmt: skip

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        found = self.found
        names = ("token", "next", "count", "corpus", "model")
        return {
            "model": self.model.name, "bigrams": found.total, "kl": found.kl, "entropy": found.entropy,
            "rank_correlation": found.rank_correlation, "compared": int(found.kept.sum()),
            "top": [dict(zip(names, row, strict=True)) for row in self._rows()],
        }  # fmt: skip


@dataclass(frozen=True)
class SkipTrigramReport:
    """Everything that `pathexp skip-trigrams` shows: the largest, and bugs measured in the running model."""

    model: Model
    largest: tuple[SkipTrigram, ...]
    bugs: tuple[tuple[Bug, tuple[Raised, ...]], ...]

    def text(self) -> str:
        """Return the report for a terminal."""
        header = ["head", "source … destination → output", "attention", "adds"]
        rows = [[t.head, self._written(t), f"{t.attention:.3f}", f"{t.adds:+.3f}"] for t in self.largest]
        return "\n\n".join(
            [
                "read off the weights (logit above the mean of all tokens):\n" + table(header, rows, "<<>>"),
                *self._bugs(),
            ]
        )

    def _written(self, trigram: SkipTrigram) -> str:
        source, destination, output = (
            visible(self.model.token_string(token))
            for token in (trigram.source, trigram.destination, trigram.output)
        )
        return f"{source} … {destination} → {output}"

    def _bugs(self) -> Iterator[str]:
        if self.bugs:
            yield (
                "bugs: where two are asked of one head and source, two more are forced;\n"
                "rises of the output's logit in the running model when the source stands before:"
            )
        for bug, measured in self.bugs:
            rows = [
                [
                    "asked" if each.trigram in bug.asked else "forced",
                    self._written(each.trigram),
                    f"{each.trigram.adds:+.3f}",
                    f"{each.mean:+.3f} ± {_error(each)}",
                    "rises" if each.happens else "does not rise",
                ]
                for each in measured
            ]
            yield table(
                [bug.asked[0].head, "source … destination → output", "tables say", "model does", ""],
                rows,
                "<<>><",
            )

    def data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON."""
        return {
            "largest": [self._data(trigram) for trigram in self.largest],
            "bugs": [
                {
                    "asked": [self._data(trigram) for trigram in bug.asked],
                    "forced": [self._data(trigram) for trigram in bug.forced],
                    "measured": [_plain(each) for each in measured],
                }
                for bug, measured in self.bugs
            ],
        }

    def _data(self, trigram: SkipTrigram) -> dict[str, Any]:
        return asdict(trigram) | {"text": self._written(trigram)}


def _error(rise: Raised) -> str:
    return "unknown" if math.isnan(rise.error) else f"{rise.error:.3f}"


def _plain(rise: Raised) -> dict[str, Any]:
    error = None if math.isnan(rise.error) else rise.error
    return {"mean": rise.mean, "error": error, "happens": rise.happens}
