"""Causal tracing: corrupt the embedding of some tokens, put one clean state back, and see how much of the answer returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from ...model.continued import ContinuedRuns, GivenBranches, values_of
from ...model.forward import rerun
from ...model.trace import check_trace
from ...workers import for_each

SITES = ("stream", "attention", "mlp")
_POINT = {"stream": "L{}.out", "attention": "L{}.attn_out", "mlp": "L{}.mlp_out"}
_BRANCH = {"attention": "attn", "mlp": "mlp"}
ROWS = 8192
"""How many rows of streams are continued at a time, at the least those of one run and position."""


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

    Meng et al. 2022, "Locating and Editing Factual Associations in GPT". Of draws · layers · positions runs only
    what a state changes is computed: the layers behind it and, under a causal mask, the positions from its own to the target's; a
    quarter of all.

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
    places = sorted({place % n for place in chosen})
    runs = [_corrupted(trace, places, size, rng) for _ in range(draws)]
    corrupted, restored = [_value(run, target) for run in runs], _restored(trace, target, site, runs)
    error = (
        restored.std(axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else np.full(restored.shape[1:], np.nan)
    )
    return CausalTracing(
        trace, target, site, tuple(places), size, draws, target.value, float(np.mean(corrupted)), restored.mean(axis=0), error
    )  # fmt: skip


def _corrupted(trace: Trace, places: Sequence[int], size: float, rng: np.random.Generator) -> Trace:
    """The run with noise in the embedding of some positions."""
    noise = np.zeros(trace.residuals["embed"].shape)
    noise[places] = rng.normal(0, size, noise[places].shape)
    return rerun(trace, {"embed": lambda stream: stream + noise})


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


def _restored(trace: Trace, target: Target, site: str, corrupted: Sequence[Trace]) -> Array:
    """The target in every corrupted run with every state put back, (runs, layers, positions)."""
    end = target.position % len(trace) + 1 if trace.config.causal else len(trace)
    found = np.empty((len(corrupted), trace.config.n_layers, len(trace)))
    found[:] = np.array([_value(run, target) for run in corrupted])[:, None, None]  # where nothing changes
    outs = [
        [_put_back(trace, run, site, layer) for layer in range(trace.config.n_layers)] for run in corrupted
    ]
    at_once = max(1, ROWS // (end * trace.config.n_layers))
    pieces = [(at, begin) for at in range(end) for begin in range(0, len(corrupted), at_once)]

    def work(number: int) -> None:
        place, begin = pieces[number]
        some = slice(begin, begin + at_once)
        found[some, :, place] = _continued(target, place, end, corrupted[some], outs[some])

    for_each(work, len(pieces))
    return found


def _put_back(trace: Trace, corrupted: Trace, site: str, layer: int) -> Array:
    """What stands behind a layer at each position if its clean state alone is put back, (n, d)."""
    point = _POINT[site].format(layer)
    if site == "stream":
        return trace.residuals[point]
    given = {_BRANCH[site]: trace.residuals[point]}
    if site == "mlp":
        given["attn"] = corrupted.residuals[f"L{layer}.attn_out"]
    before = corrupted.residuals["embed" if layer == 0 else f"L{layer - 1}.out"]
    return GivenBranches(trace, given).block(before, layer)


def _continued(
    target: Target, place: int, end: int, corrupted: Sequence[Trace], outs: Sequence[Sequence[Array]]
) -> Array:
    """The target with the state of one position put back behind each layer in turn, (runs, layers)."""
    config = corrupted[0].config
    first = place if config.causal else 0
    runs = ContinuedRuns(corrupted, first, end)
    shape = (len(corrupted), -1, end - first, config.d_model)
    streams = np.empty((len(corrupted), 0, *shape[2:]))
    for layer in range(config.n_layers):
        if streams.shape[1]:
            streams = runs.block(streams.reshape(-1, config.d_model), layer).reshape(shape)
        fresh = np.stack([run.residuals[f"L{layer}.out"][first:end] for run in corrupted])
        fresh[:, place - first] = [out[layer][place] for out in outs]
        streams = np.concatenate([streams, fresh[:, None]], axis=1)
    read = streams[:, :, target.position % len(corrupted[0]) - first]
    return values_of(runs, read.reshape(-1, config.d_model), target).reshape(len(corrupted), -1)


def _value(run: Trace, target: Target) -> float:
    return float(run.logits[target.position] @ target.direction)
