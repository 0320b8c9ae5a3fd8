"""Five algorithms written as transformers, so that their circuits are known: reverse, sort, count, brackets, induction with a gap.

    python examples/compiled_models.py

Weights are small integers and scores differ by 1,000 where they differ, so that the softmax is exactly one-hot (exp(-1000) is 0 in
double precision): what the models compute is exact. Each comes with the paths that do the work; all others are exactly zero, and this
script shows that the expansion finds the one and not the other. Weiss et al. 2021, "Thinking Like Transformers" (RASP, a
language of such programs); Lindner et al. 2023, "Tracr" (its compiler to weights).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import pathexp as px

SHARP = 1000.0


@dataclass(frozen=True)
class Compiled:
    """A model, the query of the paths from tokens that do its work, all paths that may add anything with gates frozen, the
    components that matter, by head the pairs of paths that make its scores, and inputs with their answers.

    A step that has been passed is flat: frozen, its two neurons cancel what the token path brings, and their biases get the
    credit (`b_in_L0 L0M U`). So the paths of gated models hold the biases as well; live, the token paths do the work.
    """

    model: px.Model
    circuit: str
    frozen: str
    components: tuple[str, ...]
    scores: dict[str, tuple[str, ...]]
    draw: Callable[[np.random.Generator], tuple[list[int], int]] = field(repr=False)
    """From a random generator to an input and the token that answers it."""


class Draft:
    """Blocks of the stream by name, and the weights of a model that is being written."""

    def __init__(
        self, blocks: dict[str, int], *, layers: int, d_vocab: int, n_ctx: int, d_head: int, d_mlp: int = 0
    ) -> None:
        starts = np.cumsum([0, *blocks.values()])
        self.place = {
            name: slice(int(a), int(b)) for name, a, b in zip(blocks, starts, starts[1:], strict=False)
        }
        size = int(starts[-1])
        self.config = px.Config(
            n_layers=layers, n_heads=1, d_model=size, d_head=d_head, d_vocab=d_vocab, n_ctx=n_ctx, d_mlp=d_mlp,
            positions="learned", attention_scale=1.0, activation="relu",
        )  # fmt: skip
        shapes = {
            "W_E": (size, d_vocab), "W_pos": (size, n_ctx), "W_U": (d_vocab, size),
            **{f"W_{name}": (layers, 1, d_head, size) for name in "QKV"}, "W_O": (layers, 1, size, d_head),
        }  # fmt: skip
        if d_mlp:
            shapes |= {"W_in": (layers, d_mlp, size), "W_out": (layers, size, d_mlp), "b_in": (layers, d_mlp)}
        self.arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
        self.arrays["W_E"][self.place["token"], :] = np.eye(d_vocab)
        if "place" in self.place:
            self.arrays["W_pos"][self.place["place"], :] = np.eye(n_ctx)
        if "one" in self.place:
            self.arrays["W_pos"][self.place["one"], :] = 1

    def attend(self, layer: int, *tables: tuple[str, str, np.ndarray]) -> None:
        """Let a head score by tables (queries, keys) between two blocks, added up."""
        at = 0
        for asks, offers, table in tables:
            rows = slice(at, at + table.shape[1])
            self.arrays["W_Q"][layer, 0, rows, self.place[asks]] += table.T
            self.arrays["W_K"][layer, 0, rows, self.place[offers]] += np.eye(table.shape[1])
            at += table.shape[1]

    def move(self, layer: int, source: str, target: str, table: np.ndarray) -> None:
        """Let a head write a block, through a table (target, source), into another."""
        self.arrays["W_V"][layer, 0, : table.shape[1], self.place[source]] = np.eye(table.shape[1])
        self.arrays["W_O"][layer, 0, self.place[target], : table.shape[1]] = table

    def steps(
        self,
        layer: int,
        source: str,
        target: str,
        weights: Sequence[float],
        at: Sequence[float],
        slope: float,
    ) -> None:
        """Let an MLP write [w · x > t] for several w and t, each by two neurons: relu(z) - relu(z - 1), z = slope (w · x - t)."""
        for k, (weight, threshold) in enumerate(zip(weights, at, strict=True)):
            for neuron, sign, less in ((2 * k, 1.0, 0.0), (2 * k + 1, -1.0, 1.0)):
                self.arrays["W_in"][layer, neuron, self.place[source]] = slope * weight
                self.arrays["b_in"][layer, neuron] = -slope * threshold - less
                self.arrays["W_out"][layer, self.place[target].start + k, neuron] = sign

    def read(self, block: str, table: np.ndarray) -> None:
        """Let the logits read a block through a table (token, block)."""
        self.arrays["W_U"][:, self.place[block]] += table

    def model(self, name: str) -> px.Model:
        """The model."""
        return px.Model(self.config, px.Weights(**self.arrays), name=name)


def reverse(n: int = 5, values: int = 6) -> Compiled:
    """n tokens and a separator; then, one after the other, the tokens from the last to the first."""
    vocabulary, n_ctx = values + 1, 2 * n
    draft = Draft(
        {"token": vocabulary, "place": n_ctx, "out": vocabulary},
        layers=1,
        d_vocab=vocabulary,
        n_ctx=n_ctx,
        d_head=n_ctx,
    )
    table = np.zeros((n_ctx, n_ctx))
    for i in range(n):
        table[n + i, n - 1 - i] = SHARP
    draft.attend(0, ("place", "place", table))
    draft.move(0, "token", "out", np.eye(vocabulary))
    draft.read("out", np.eye(vocabulary))

    def drawn(rng: np.random.Generator) -> tuple[list[int], int]:
        tokens = rng.integers(0, values, n).tolist()
        i = int(rng.integers(0, n))
        return [*tokens, values, *tokens[::-1][:i]], tokens[n - 1 - i]

    return Compiled(
        draft.model("reverse"), "E L0H0 U", "E L0H0 U", ("L0H0",), {"L0H0": ("P Q × P K",)}, drawn
    )


def sort(n: int = 5, values: int = 9) -> Compiled:
    """n different numbers and a separator; then, one after the other, the numbers from the least to the largest."""
    vocabulary, n_ctx = values + 1, 2 * n
    draft = Draft(
        {"token": vocabulary, "out": vocabulary}, layers=1, d_vocab=vocabulary, n_ctx=n_ctx, d_head=vocabulary
    )
    last, key = np.arange(vocabulary)[:, None], np.arange(vocabulary)[None]
    larger = (key > np.where(last == values, -1, last)) & (key < values)
    draft.attend(0, ("token", "token", np.where(larger, -SHARP * key, -SHARP * 2 * vocabulary)))
    draft.move(0, "token", "out", np.eye(vocabulary))
    draft.read("out", np.eye(vocabulary))

    def drawn(rng: np.random.Generator) -> tuple[list[int], int]:
        tokens = rng.permutation(values)[:n].tolist()
        i = int(rng.integers(0, n))
        return [*tokens, values, *sorted(tokens)[:i]], sorted(tokens)[i]

    return Compiled(draft.model("sort"), "E L0H0 U", "E L0H0 U", ("L0H0",), {"L0H0": ("E Q × E K",)}, drawn)


def count(most: int = 5, n_ctx: int = 12) -> Compiled:
    """A begin token (0), letters a (1) and b (2): how many a there are, up to `most`, as token 3 + count."""
    vocabulary = 4 + most
    draft = Draft(
        {"token": vocabulary, "one": 1, "share": 1, "above": most}, layers=1, d_vocab=vocabulary, n_ctx=n_ctx, d_head=vocabulary,
        d_mlp=2 * most,
    )  # fmt: skip
    chosen = np.zeros((1, vocabulary))
    chosen[0, :2] = SHARP
    draft.attend(0, ("one", "token", chosen))
    draft.move(0, "token", "share", np.eye(vocabulary)[:1])  # attention to the begin token: 1 / (1 + count)
    middle = [-(1 / (k + 1) + 1 / k) / 2 for k in range(1, most + 1)]  # below that share there are k or more
    draft.steps(0, "share", "above", [-1.0] * most, middle, slope=2.0**10)
    table = np.zeros((vocabulary, most))
    for k in range(most + 1):
        table[3 + k] = [2 if above <= k else -2 for above in range(1, most + 1)]
    draft.read("above", table)
    draft.read("one", np.array([[0.0]] * 3 + [[1 - 2.0 * k] for k in range(most + 1)]))

    def drawn(rng: np.random.Generator) -> tuple[list[int], int]:
        amount, others = int(rng.integers(0, most + 1)), int(rng.integers(0, 6))
        return [0, *rng.permutation([1] * amount + [2] * others).tolist()], 3 + amount

    return Compiled(
        draft.model("count"), "E L0H0 L0M U", "E L0H0 L0M U | b_in_L0 L0M U | P U", ("L0H0", "L0M"),
        {"L0H0": ("P Q × E K",)}, drawn,
    )  # fmt: skip


def brackets(n_ctx: int = 11) -> Compiled:
    """A begin token (0), then ( (1) and ) (2): whether they are balanced (3) or not (4)."""
    draft = Draft(
        {"token": 5, "one": 1, "mean": 1, "sides": 2, "broken": 1}, layers=2, d_vocab=5, n_ctx=n_ctx, d_head=7, d_mlp=4,
    )  # fmt: skip
    draft.move(0, "token", "mean", np.array([[0.0, 1.0, -1.0, 0.0, 0.0]]))  # even attention: depth / length
    draft.steps(
        0, "mean", "sides", [1.0, -1.0], [0.5 / n_ctx] * 2, slope=4.0 * n_ctx
    )  # too many ( here; too many )
    broken = np.array([[0.0, 2 * SHARP]])
    begin = np.zeros((1, 5))
    begin[0, 0] = SHARP
    draft.attend(1, ("one", "sides", broken), ("one", "token", begin))
    draft.move(1, "sides", "broken", np.array([[0.0, 1.0]]))
    draft.read("one", np.array([[0.0], [0.0], [0.0], [1.0], [0.0]]))
    draft.read("sides", np.array([[0.0, 0.0]] * 4 + [[2.0, 0.0]]))
    draft.read("broken", np.array([[0.0]] * 4 + [[2.0]]))

    def drawn(rng: np.random.Generator) -> tuple[list[int], int]:
        half = int(rng.integers(1, (n_ctx - 1) // 2 + 1))
        tokens = (
            rng.permutation([1, 2] * half).tolist()
            if rng.random() < 0.7
            else rng.integers(1, 3, 2 * half).tolist()
        )
        if rng.random() < 0.4:
            tokens = [1] * half + [2] * half
        depths = np.cumsum([1 if token == 1 else -1 for token in tokens])
        return [0, *tokens], 3 if depths[-1] == 0 and depths.min() >= 0 else 4

    keys = ("P Q × E K", "P Q × E L0H0 L0M K", "P Q × b_in_L0 L0M K")
    return Compiled(
        draft.model("brackets"), "E L0H0 L0M L1H0? U", "(E L0H0 | b_in_L0) L0M L1H0? U | P U", ("L0H0", "L0M", "L1H0"),
        {"L1H0": keys}, drawn,
    )  # fmt: skip


def gapped_induction(values: int = 9, n_ctx: int = 14) -> Compiled:
    """Tokens of which the last was seen before: what stood two places after it then."""
    draft = Draft(
        {"token": values, "place": n_ctx, "before": values, "out": values}, layers=2, d_vocab=values, n_ctx=n_ctx, d_head=max(values, n_ctx),
    )  # fmt: skip
    draft.attend(0, ("place", "place", SHARP * np.eye(n_ctx, k=-2)))
    draft.move(0, "token", "before", np.eye(values))
    draft.attend(1, ("token", "before", SHARP * np.eye(values)))
    draft.move(1, "token", "out", np.eye(values))
    draft.read("out", np.eye(values))

    def drawn(rng: np.random.Generator) -> tuple[list[int], int]:
        tokens = rng.permutation(values)[: int(rng.integers(5, values + 1))].tolist()
        at = int(rng.integers(2, len(tokens) - 2))
        return [*tokens, tokens[at]], tokens[at + 2]

    return Compiled(
        draft.model("gapped induction"), "E L1H0 U", "E L1H0 U", ("L0H0", "L1H0"),
        {"L0H0": ("P Q × P K",), "L1H0": ("E Q × E L0H0 K",)}, drawn,
    )  # fmt: skip


ALL = {
    "reverse": reverse,
    "sort": sort,
    "count": count,
    "brackets": brackets,
    "gapped induction": gapped_induction,
}

if __name__ == "__main__":
    for name, make in ALL.items():
        compiled, rng = make(), np.random.default_rng(0)
        right, other = 0, 0.0
        for _ in range(100):
            tokens, answer = compiled.draw(rng)
            trace = compiled.model.run(tokens)
            right += trace.top_token() == answer
            terms = px.expand(trace)
            rest = [term for term in terms.where(f"E .* U & ~({compiled.circuit})") if np.any(term.logits())]
            other += len(rest)
        print(
            f"{name}: {right} of 100 right; circuit {compiled.circuit}; paths from tokens outside it that add anything: {other:.0f}"
        )
        print(f"  {terms.verify().check}")
