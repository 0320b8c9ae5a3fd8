"""Claim: values of all 6,561 paths of 4 layers × 8 heads at 32 tokens, 100 times faster than rust-circuit evaluates them.

    python benchmarks/peer_rust_circuit.py [--peer PYTHON] [--layers 4] [--heads 8] [--tokens 32] [--tiny]

`--peer` is a Python with rust-circuit (its own environment: it brings torch); without it, the one that runs this. Both get
the same weights, frozen patterns and target, in double precision, and all values are compared. There the paths are listed by
distributing einsums over sums, and evaluated in every way that its users have: one by one, one by one after its optimizer, all
at once through its optimizer, and as circuits that share beginnings and endings, laid out by hand.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from alone import alone, machine, measured, parser

D_MODEL, D_HEAD, VOCAB = 256, 32, 1000
INSTALL = """rust-circuit is not there. To measure beside it, give it an environment of its own:
    python -m venv peer && peer/bin/pip install torch==2.13.0 numpy rust-circuit==0.4.12
    python benchmarks/peer_rust_circuit.py --peer peer/bin/python"""


# Ours --------------------------------------------------------------------------------------------------


def ours(
    layers: int, heads: int, tokens: int, file: Path
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Time listing and values; write what the peer needs; return the times, and the value of each path."""
    import pathexp as px

    model = px.random_model(
        layers=layers, heads=heads, d_model=D_MODEL, d_head=D_HEAD, d_vocab=VOCAB, n_ctx=tokens, positions="none", seed=0
    )  # fmt: skip
    trace = model.run(np.random.default_rng(0).integers(0, VOCAB, tokens))
    target, _, weights = trace.logit(5), px.freeze(trace).kernels, model.weights
    _, listed = measured(lambda: list(px.expand(trace)), 60)
    values, valued = measured(lambda: px.expand(trace).values(target), 60)
    row = np.eye(tokens)[target.position]
    np.savez(
        file, A=trace.patterns, V=weights.W_V, O=weights.W_O, x=weights.W_E[:, trace.tokens].T,
        row=row, u=weights.W_U.T @ target.direction,
    )  # fmt: skip
    words = (str(path) for path in px.expand(trace).paths())
    return {"listing": listed, "values": valued}, dict(zip(words, values.tolist(), strict=True))


# The peer's, which does not see pathexp ------------------------------------------------------------------


class Circuits:
    """The parts of one run as circuits, and its paths in two forms."""

    def __init__(self, file: Path) -> None:
        import rust_circuit as rc
        import torch

        self.rc = rc
        with np.load(file) as made:
            self.layers, self.heads = made["A"].shape[:2]
            self.A, self.V, self.O = (
                [[rc.Array(torch.from_numpy(made[k][i, j].copy())) for j in range(self.heads)] for i in range(self.layers)]
                for k in ("A", "V", "O")
            )  # fmt: skip
            self.x, self.row, self.u = (rc.Array(torch.from_numpy(made[k].copy())) for k in ("x", "row", "u"))

    def head(self, layer: int, head: int, x: Any) -> Any:
        """What a head writes, given a stream."""
        parts = self.A[layer][head], x, self.V[layer][head], self.O[layer][head]
        return self.rc.Einsum.from_einsum_string("ij,jd,hd,oh->io", *parts)

    def pulled(self, layer: int, head: int, field: Any) -> Any:
        """A covector field at a head's output, at its input."""
        parts = field, self.A[layer][head], self.O[layer][head], self.V[layer][head]
        return self.rc.Einsum.from_einsum_string("io,ij,oh,hd->jd", *parts)

    def words(self, start: int, end: int, before: bool) -> list[tuple[str, ...]]:
        """Labels in the order that the circuits below are made in."""
        words: list[tuple[str, ...]] = [()]
        for layer in range(start, end) if before else reversed(range(start, end)):
            new = [(f"L{layer}H{head}", word) for head in range(self.heads) for word in words]
            words = words + [(*word, label) if before else (label, *word) for label, word in new]
        return words

    def distributed(self) -> list[Any]:
        """Every path as one flat einsum, by distributing every head over the sum that it reads."""
        rc, terms = self.rc, [self.x]
        for layer in range(self.layers):
            read, new = rc.Add(*terms), list[Any]()
            for head in range(self.heads):
                new += self._flat(rc.distribute_once(self.head(layer, head, read), 1))
            terms = terms + new
        whole = rc.Einsum.from_einsum_string("i,d,id->", self.row, self.u, rc.Add(*terms))
        return self._flat(rc.distribute_once(whole, 2))

    def _flat(self, add: Any) -> list[Any]:
        return [self.rc.einsum_flatten_once(term) or term for term in add.children]

    def shared(self) -> list[Any]:
        """Every path as the inner product of a beginning and an ending, which many paths share."""
        rc, middle = self.rc, self.layers // 2
        beginnings = [self.x]
        for layer in range(middle):
            beginnings = beginnings + [self.head(layer, h, x) for h in range(self.heads) for x in beginnings]
        endings = [rc.Einsum.from_einsum_string("i,d->id", self.row, self.u)]
        for layer in reversed(range(middle, self.layers)):
            endings = endings + [self.pulled(layer, h, f) for h in range(self.heads) for f in endings]
        return [rc.Einsum.from_einsum_string("id,id->", a, b) for a in beginnings for b in endings]


def peer(file: Path) -> dict[str, Any]:
    """Time every way of listing and evaluating; return times and values."""
    circuits = Circuits(file)
    rc, layers = circuits.rc, circuits.layers
    naive = rc.OptimizationSettings(scheduling_naive=True)
    paths, listed = measured(circuits.distributed, 3)
    found: dict[str, Any] = {"listing": listed}
    words = circuits.words(0, layers, before=True)
    for name, work in {
        "evaluate": lambda path: path.evaluate(),
        "optimize_and_evaluate": rc.optimize_and_evaluate,
    }.items():
        values, found[f"{name}, one by one"] = singly(work, paths)
        found[f"{name}, one by one"]["values"] = dict(zip(map(_word, words), values, strict=True))
    values, done = measured(lambda: rc.optimize_and_evaluate_many(paths), 2)
    done["values"] = dict(zip(map(_word, words), map(float, values), strict=True))
    found["optimize_and_evaluate_many, all at once"] = done
    meet = layers // 2
    words = [a + b for a in circuits.words(0, meet, True) for b in circuits.words(meet, layers, False)]
    schedule, planned = measured(lambda: rc.circuit_to_schedule_many(circuits.shared(), naive), 2)
    values, done = measured(lambda: schedule.evaluate_many(naive), 3)
    done["values"] = dict(zip(map(_word, words), map(float, values), strict=True))
    found["shared by hand, laid out"] = planned
    found["shared by hand, evaluation alone"] = done
    return found


def singly(
    work: Callable[[Any], Any], paths: list[Any], repeats: int = 3
) -> tuple[list[float], dict[str, Any]]:
    """Values of paths one by one, and the sum of the best seconds of every path."""
    values, seconds = [0.0] * len(paths), np.full(len(paths), np.inf)
    for _ in range(repeats):
        for index, path in enumerate(paths):
            start = time.perf_counter()
            values[index] = float(work(path))
            seconds[index] = min(seconds[index], time.perf_counter() - start)
    return values, {"seconds": float(seconds.sum())}


def _word(labels: tuple[str, ...]) -> str:
    return " ".join(("E", *labels, "U"))


# Side by side --------------------------------------------------------------------------------------------


def compare(mine: dict[str, Any], theirs: dict[str, Any], values: dict[str, float]) -> None:
    """Print every way, a path, and how many times longer than ours it takes; check all values."""
    print(f"{'':52}{'µs a path':>12}{'ratio':>10}")
    for what in ("listing", "values"):
        print(f"pathexp: {what:43}{mine[what]['seconds'] / len(values) * 1e6:12.2f}")
    gap = 0.0
    for name, done in theirs.items():
        against = mine["listing" if name == "listing" else "values"]["seconds"]
        each = done["seconds"] / len(values) * 1e6
        print(f"rust-circuit: {name:38}{each:12.2f}{done['seconds'] / against:8,.0f} ×")
        if "values" in done:
            assert done["values"].keys() == values.keys()
            gap = max(gap, *(abs(done["values"][word] - value) for word, value in values.items()))
    print(f"largest difference of all values {gap:.1e}, of values up to {max(map(abs, values.values())):.2f}")
    assert gap < 1e-10


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--peer", default=sys.executable, metavar="PYTHON")
    made.add_argument("--layers", type=int, default=4)
    made.add_argument("--heads", type=int, default=8)
    made.add_argument("--tokens", type=int, default=32)
    options = made.parse_args(arguments)
    if options.part is not None:
        print(json.dumps(peer(Path(options.part.removeprefix("peer:")))))
        return
    layers, heads, tokens = (2, 2, 4) if options.tiny else (options.layers, options.heads, options.tokens)
    print(f"all paths of {layers} layers × {heads} heads, d_model {D_MODEL}, {tokens} tokens; {machine()}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.npz"
        first, values = ours(layers, heads, tokens, file)
        theirs = alone(__file__, f"peer:{file}", options.peer)
        again, _ = ours(layers, heads, tokens, file)
    mine = {what: min(first[what], again[what], key=lambda done: done["seconds"]) for what in first}
    if theirs is None:
        print(
            f"pathexp: {len(values):,} values in {mine['values']['seconds'] / len(values) * 1e6:.2f} µs a path\n{INSTALL}"
        )
        return
    compare(mine, theirs, values)


if __name__ == "__main__":
    main()
