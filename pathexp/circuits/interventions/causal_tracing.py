"""Causal tracing: corrupt the embedding of some tokens, put one clean state back, and see how much of the answer returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...answer import Answer, Facts, Figure, Note, Part, Table, columns, visible
from ...arguments import SEED, expect, finite, one_of, sequence_of, whole
from ...errors import PathexpError
from ...expansion.header import counted, run_facts
from ...expansion.tolerance import target_tolerance
from ...graph import Array, freeze
from ...model import Target, Trace
from ...model.forward import rerun
from ...model.trace import check_trace

SITES = ("stream", "attention", "mlp")
_POINT = {"stream": "L{}.out", "attention": "L{}.attn_out", "mlp": "L{}.mlp_out"}
Edit = Callable[[Array], Array]


@dataclass(frozen=True, eq=False, repr=False)
class CausalTracing(Answer):
    """How much of a target's value comes back when one clean state is restored in corrupted runs.

    `restored` (layers, positions) and `error`, its standard error over the draws of noise (NaN for one): the mean value of
    the target with the clean state of that layer and position put back. `clean`, `corrupted`: without noise, and with
    noise and nothing put back.
    """

    live: ClassVar[frozenset[str]] = frozenset({"trace"})

    trace: Trace
    target: Target
    site: str
    positions: tuple[int, ...]
    noise: float
    draws: int
    clean: float
    corrupted: float
    restored: Array
    error: Array

    @property
    def recovered(self) -> Array:
        """The share of what corruption took that comes back, (layers, positions); NaN where it took no more than rounding."""
        lost = self.clean - self.corrupted
        return (self.restored - self.corrupted) / (lost if abs(lost) > self._rounding else np.nan)

    @cached_property
    def _rounding(self) -> float:
        return target_tolerance(freeze(self.trace), self.target)

    def headline(self) -> str:
        """Return what is restored, and the values without and with corruption."""
        return (
            f"{self.target.label}: clean {self.clean:+.4f}, corrupted {self.corrupted:+.4f}; one state of the "
            f"{self.site} restored"
        )

    def parts(self) -> Iterator[Part]:
        """Yield one row a layer and position, those that bring most back first, and a heat map."""
        yield run_facts(self.trace, self.target)
        yield Facts({"site": self.site, "noise": self.noise, "draws": self.draws, "clean": self.clean,
                     "corrupted": self.corrupted})  # fmt: skip
        tokens = self.trace.token_strings
        rows = [
            (f"L{layer}", place, tokens[place], float(values[place]), _number(float(errors[place])), _number(float(shares[place])))
            for layer, (values, errors, shares) in enumerate(zip(self.restored, self.error, self.recovered, strict=True))
            for place in range(len(tokens))
        ]  # fmt: skip
        yield Table(
            (
                columns.text("layer"), columns.count("position"), columns.token("token"), columns.number("restored"),
                columns.number("error", "±", signed=False), columns.share("recovered", signed=True),
            ),
            sorted(rows, key=lambda row: -row[3]), "states", key=("layer", "position"), value="restored", shown=12,
        )  # fmt: skip
        corrupted = ", ".join(visible(tokens[place]) for place in self.positions)
        yield Note(
            f"corrupted: Gaussian noise of {self.noise:.3g} in every coordinate of the embedding of {corrupted}, "
            f"{counted(self.draws, 'draw')}\na state that brings much back is sufficient here; it need not be necessary"
        )
        yield Figure(
            "heatmap", "restored",
            {"rows": [f"L{layer}" for layer in range(len(self.restored))],
             "columns": [f"{place}: {visible(token)}" for place, token in enumerate(tokens)],
             "values": self.recovered.tolist()},
            f"share of {self.target.label} that comes back", "share",
        )  # fmt: skip


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def causal_tracing(
    trace: Trace,
    target: Target,
    *,
    site: str = "stream",
    positions: Sequence[int] | None = None,
    noise: float | None = None,
    draws: int = 4,
    seed: int = 0,
) -> CausalTracing:
    """Restore every clean state, one at a time, in runs whose embedding is corrupted by noise.

    Meng et al. 2022, "Locating and Editing Factual Associations in GPT". Costs draws · (layers · positions + 1)
    runs.

    Parameters
    ----------
    site: which states are restored: "stream" (behind each layer), "attention" or "mlp" (what that branch writes).
    positions: where the embedding is corrupted; by default everywhere but at the target's position.
    noise: its standard deviation in every coordinate; by default three times that of the model's token embeddings.

    Raises PathexpError for positions that are not there, a target that is not read at logits, or a site without an MLP.

    >>> import pathexp as px
    >>> trace = px.induction_model().run([5, 2, 7, 3, 5])
    >>> found = causal_tracing(trace, trace.logit(2), site="attention", draws=2)
    >>> found.restored.shape, bool(abs(found.recovered[1, 4] - 1) < 1e-6)  # what the induction head writes is all
    ((2, 5), True)
    """
    check_trace(trace, "causal_tracing")
    n, everywhere = len(trace), target.position % len(trace)
    chosen = [place for place in range(n) if place != everywhere] if positions is None else list(positions)
    kinds = sequence_of(whole(), "positions")
    expect("causal_tracing", site=(site, one_of(*SITES)), positions=(chosen, kinds), draws=(draws, whole(1)))
    expect("causal_tracing", seed=(seed, SEED), noise=(noise, finite(above=0).or_none))
    _check(trace, target, site, chosen)
    size = 3 * float(np.std(trace.model.weights.W_E)) if noise is None else float(noise)
    rng = np.random.default_rng(seed)
    found = [
        _one(trace, target, site, sorted({place % n for place in chosen}), size, rng) for _ in range(draws)
    ]
    corrupted, restored = np.array([each[0] for each in found]), np.array([each[1] for each in found])
    error = (
        restored.std(axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else np.full(restored.shape[1:], np.nan)
    )
    places = tuple(sorted({place % n for place in chosen}))
    return CausalTracing(
        trace, target, site, places, size, draws, target.value, float(corrupted.mean()), restored.mean(axis=0), error
    )  # fmt: skip


def _check(trace: Trace, target: Target, site: str, chosen: Sequence[int]) -> None:
    if target.space != "logits":
        raise PathexpError(f"causal tracing reads logits; got a target in space {target.space!r}")
    if site == "mlp" and not trace.config.has_mlps:
        raise PathexpError("site='mlp': this model has no MLPs; choose 'stream' or 'attention'")
    missing = [place for place in chosen if not -len(trace) <= place < len(trace)]
    if missing or not chosen:
        raise PathexpError(
            f"positions to corrupt: expected from {-len(trace)} to {len(trace) - 1}, got {list(chosen)!r:.40}"
        )


def _one(
    trace: Trace, target: Target, site: str, places: list[int], size: float, rng: np.random.Generator
) -> tuple[float, Array]:
    """The target in one corrupted run, and with every state put back, (layers, positions)."""
    noise = np.zeros(trace.residuals["embed"].shape)
    noise[places] = rng.normal(0, size, noise[places].shape)

    def value(edits: dict[str, Edit]) -> float:
        run = rerun(trace, {"embed": lambda stream: stream + noise} | edits)
        return float(run.logits[target.position] @ target.direction)

    restored = np.empty((trace.config.n_layers, len(trace)))
    for layer, place in np.ndindex(restored.shape):
        point = _POINT[site].format(layer)
        restored[layer, place] = value({point: _put_back(trace.residuals[point][place], place)})
    return value({}), restored


def _put_back(clean: Array, place: int) -> Edit:
    def edit(stream: Array) -> Array:
        found = np.array(stream)
        found[place] = clean
        return found

    return edit
