"""The induction circuit in one line: what share of a broken repeat's effect runs through `E L0H2.V L1.K U`?

    python examples/induction_circuit.py [--runs 6] [--induction-2l-1h FILE]

attn-2l on repeated random tokens against the same with the earlier copy of the last token replaced, toward the token
that induction predicts, above the mean logit. Means with standard errors over runs. The same for a smaller model of
others, if its file is given: induction_2l_1h, two layers of one head (Gross et al. 2024, "Compact Proofs of Model
Performance via Mechanistic Interpretability").
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import pathexp as px
from pathexp.model.parts import head_outputs

Array = npt.NDArray[np.float64]


class Pair(NamedTuple):
    """A run, its twin with the earlier copy broken, and the target."""

    here: px.Trace
    there: px.Trace
    target: px.Target


def repeats(model: px.Model, runs: int) -> Iterator[Pair]:
    """Twenty random tokens, and the first nine of them again; the twin has another token at the ninth place."""
    rng = np.random.default_rng(0)
    for _ in range(runs):
        first = rng.choice(np.arange(5, model.config.d_vocab), 20, replace=False)
        text = np.concatenate([first, first[:9]])
        yield paired(model, text, 8, int(rng.integers(5, model.config.d_vocab)), int(first[9]))


def short(model: px.Model, runs: int) -> Iterator[Pair]:
    """Eight letters, the last one equal to an earlier one at a random place; the twin has a letter there that is not in the text."""
    rng = np.random.default_rng(0)
    for _ in range(runs):
        *text, spare = rng.choice(model.config.d_vocab, 8, replace=False)
        place = int(rng.integers(1, 6))
        yield paired(model, np.array([*text, text[place]]), place, int(spare), int(text[place + 1]))


def paired(model: px.Model, text: Array, place: int, other: int, answer: int) -> Pair:
    """Run a text and its twin, toward a token's logit above the mean logit."""
    twin = text.copy()
    twin[place] = other
    toward = np.full(model.config.d_out, -1 / model.config.d_out)
    toward[answer] += 1
    here = model.run(text)
    return Pair(here, model.run(twin), here.direction(toward))


def through_keys(pair: Pair, head: int) -> float:
    """Live: the mean effect, in both directions, of one head of layer 0 taken from the twin by layer 1's keys alone."""
    here, there, target = pair
    change = here.head_results[0, head] - there.head_results[0, head]
    return (moved(here, -change, target) * -1 + moved(there, change, target)) / 2


def moved(run: px.Trace, change: Array, target: px.Target) -> float:
    """How far a target moves if layer 1's keys read a changed stream; queries and values read the run's own."""
    stream = run.residuals["L0.out"]
    streams = ((stream, stream, stream), (stream, stream + change, stream))
    before, after = (head_outputs(run.model, 1, reads)[:, -1].sum(axis=0) for reads in streams)
    assert run.model.weights.W_U is not None and run.config.norm is None
    return float(target.direction @ (run.model.weights.W_U @ (after - before)))


def measure(pairs: Iterator[Pair], queries: tuple[str, ...], head: int) -> Array:
    """Return (runs, 2 + queries): the whole difference, what the paths of each query add, the live effect; all verified."""
    rows = []
    for pair in pairs:
        here, there, target = pair
        terms = px.expand(px.contrast(here, there))
        verdict = terms.verify()
        assert verdict.ok, str(verdict)
        rows.append([terms.value(target), *(terms.where(query).value(target) for query in queries)])
        rows[-1].append(through_keys(pair, head))
    print(f"in {len(rows)} of {len(rows)} pairs paths add up; the last: {verdict}")
    return np.array(rows)


def report(name: str, pairs: Iterator[Pair], queries: tuple[str, ...], head: int) -> None:
    """Print means, standard errors and shares."""
    print(f"\n{name}")
    rows = measure(pairs, queries, head)
    whole = rows[:, 0]
    for label, column in zip(("all paths", *queries, f"live: L0H{head} by L1's keys"), rows.T, strict=True):
        error = column.std(ddof=1) / np.sqrt(len(column))
        print(f"{label:30}{column.mean():+9.3f} ± {error:.3f}  {share(column, whole)}")


def share(part: Array, whole: Array) -> str:
    """The ratio of two means and its standard error over runs, by linearization."""
    ratio = part.mean() / whole.mean()
    error = (part - ratio * whole).std(ddof=1) / np.sqrt(len(whole)) / abs(whole.mean())
    return f"{ratio:7.1%} ± {error:.1%}"


def largest(pairs: Iterator[Pair]) -> None:
    """Print the mean of every path over runs, the largest first."""
    columns: dict[str, list[float]] = {}
    for here, there, target in pairs:
        terms = px.expand(px.contrast(here, there))
        for term, value in zip(terms, terms.values(target), strict=True):
            columns.setdefault(str(term.path), []).append(float(value))
    order = sorted(columns, key=lambda path: -abs(np.mean(columns[path])))
    print(f"of {len(columns)} paths the largest in the mean:")
    for path in order[:8]:
        values = np.array(columns[path])
        print(f"  {path:22}{values.mean():+9.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}")


def turned(path: str) -> px.Model:
    """induction_2l_1h: TransformerLens keeps rows times matrix, so that every map is turned here."""
    with np.load(path, allow_pickle=False) as file:
        raw = dict(file)

    def stack(name: str) -> Array:
        return np.stack([raw[f"blocks.{layer}.attn.{name}"] for layer in range(2)])

    maps = {name: np.swapaxes(stack(name), -1, -2) for name in ("W_Q", "W_K", "W_V", "W_O")}
    biases = {name: stack(name) for name in ("b_Q", "b_K", "b_V", "b_O")}
    config = px.Config(
        n_layers=2, n_heads=1, d_model=64, d_head=64, d_vocab=26, n_ctx=8, positions="learned",
    )  # fmt: skip
    ends = {
        "W_E": raw["embed.W_E"].T, "W_pos": raw["pos_embed.W_pos"].T, "W_U": raw["unembed.W_U"].T,
        "b_U": raw["unembed.b_U"],
    }  # fmt: skip
    return px.Model(config, px.Weights(**ends, **maps, **biases), name="induction_2l_1h")


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--runs", type=int, default=6)
    made.add_argument("--induction-2l-1h", help="the weights of that model, npz, named as in TransformerLens")
    options = made.parse_args()
    model = px.load("attn-2l")
    queries = ("E L0H2.V L1.K U", "E L0.V L1.K U", "E L1.V U", "S .* K .* U", "S .* Q .* U & ~(S .* K .* U)")
    report("attn-2l, repeats of random tokens", repeats(model, options.runs), queries, 2)
    largest(repeats(model, options.runs))
    if options.induction_2l_1h:
        small = turned(options.induction_2l_1h)
        queries = ("E L0H0.V L1H0.K U", "E L1H0.K U", "E L1H0.V U", "E U", "S .* Q .* U")
        report("induction_2l_1h", short(small, options.runs), queries, 0)
        largest(short(small, options.runs))


if __name__ == "__main__":
    main()
