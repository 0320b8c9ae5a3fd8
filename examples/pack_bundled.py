"""Turn trained arrays into the files of the package, measure those, and print the tables of their card.

Needs only pathexp. From the root of the project, after train_bundled.py has written
attn-0l.npz, attn-1l.npz and attn-2l.npz into a folder:

    python examples/pack_bundled.py tinyshakespeare.txt kjv.jsonl --arrays FOLDER

Everything is measured on the half-precision weights, by the package's own forward pass.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from choose_vocabulary import choose, read_corpus

from pathexp.model.bundled import ModelCard
from pathexp.model.config import Config
from pathexp.model.model import Model
from pathexp.model.npz import load_npz, save_npz
from pathexp.model.tokenizer import Tokenizer
from pathexp.model.trace import Trace
from pathexp.model.weights import Weights

DATA = Path(__file__).parents[1] / "pathexp" / "model" / "data"
DESCRIPTIONS = {
    "attn-0l": "no attention at all: W_U W_E, a table of bigrams",
    "attn-1l": "one attention layer: bigrams and skip-trigrams",
    "attn-2l": "two attention layers, with induction heads",
}
BLOCK, HELD_OUT = 1024, 20  # as in train_bundled.py: every twentieth block of 1,024 tokens is held out
SEGMENT, SEQUENCES, SEED = 50, 32, 2024  # random tokens said twice
SMOOTHING = 80  # unigram counts added to a row of bigrams; of 5, 10, 20, 40, 80 the best on held-out text


@dataclass(frozen=True)
class Repetition:
    """Means over sequences of random tokens said twice; attention is by head, losses in nats a token."""

    previous: np.ndarray  # (layer, head)
    induction: np.ndarray  # (layer, head)
    first_loss: float
    second_loss: float


def pack(name: str, arrays: Path, tokenizer: Tokenizer) -> Model:
    """Write one model into the package, in half precision, and read it back."""
    raw = dict(np.load(arrays / f"{name}.npz"))
    n_layers, n_heads, d_head, d_model = raw["W_Q"].shape
    n_ctx = raw["W_pos"].shape[1]
    if n_layers == 0:
        del raw["W_pos"]  # nobody reads positions
    config = Config(
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        d_vocab=len(tokenizer),
        n_ctx=n_ctx,
        positions="qk" if n_layers else "none",
    )
    model = Model(config, Weights(**raw), tokenizer=tokenizer, name=name)
    save_npz(model, DATA / f"{name}.npz", dtype=np.float16)
    return load_npz(DATA / f"{name}.npz")


def card(model: Model, held_out: np.ndarray, repetition: Repetition) -> ModelCard:
    """What models() tells of this model."""
    config = model.config
    heads = {"previous_token": (0, repetition.previous), "induction": (1, repetition.induction)}
    return ModelCard(
        name=model.name,
        description=DESCRIPTIONS[model.name],
        n_layers=config.n_layers,
        n_heads=config.n_heads,
        d_model=config.d_model,
        d_head=config.d_head,
        d_vocab=config.d_vocab,
        n_ctx=config.n_ctx,
        parameters=parameters(model),
        text_loss=round(text_loss(model, held_out), 3),
        first_copy_loss=round(repetition.first_loss, 2),
        second_copy_loss=round(repetition.second_loss, 2),
        **{name: _strongest(layer, by_head) for name, (layer, by_head) in heads.items()},
        license="MIT",
    )


def parameters(model: Model) -> int:
    """How many numbers the model has learned."""
    named = (getattr(model.weights, name) for name in ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_U"))
    return sum(array.size for array in named if array is not None)


def _strongest(layer: int, by_head: np.ndarray) -> float | None:
    return round(float(by_head[layer].max()), 2) if len(by_head) > layer else None


def text_loss(model: Model, tokens: np.ndarray) -> float:
    """Mean next-token loss over windows of n_ctx tokens."""
    n = model.config.n_ctx
    rows = tokens[: len(tokens) // n * n].reshape(-1, n)
    return float(np.mean([model.run(row).loss() for row in rows]))


def repeat(model: Model) -> Repetition:
    """Attention and loss on random tokens said twice."""
    traces = list(_runs(model))
    losses = np.array([next_token_losses(trace) for trace in traces])
    return Repetition(
        previous=_attention(traces, 1, 1),
        induction=_attention(traces, SEGMENT - 1, SEGMENT),
        first_loss=float(losses[:, : SEGMENT - 1].mean()),
        second_loss=float(losses[:, SEGMENT:].mean()),
    )


def _runs(model: Model) -> Iterator[Trace]:
    rng = np.random.default_rng(SEED)
    for _ in range(SEQUENCES):
        yield model.run(np.tile(rng.integers(0, model.config.d_vocab, SEGMENT), 2))


def _attention(traces: list[Trace], back: int, first: int) -> np.ndarray:
    """Mean attention from each position, ``first`` and later, to the one ``back`` before: (layer, head)."""
    at = np.arange(first, 2 * SEGMENT)
    return np.mean([trace.patterns[:, :, at, at - back].mean(axis=-1) for trace in traces], axis=0)


def next_token_losses(trace: Trace) -> np.ndarray:
    """Loss of each token given those before it, (n - 1,)."""
    return -trace.log_probs[np.arange(len(trace.tokens) - 1), trace.tokens[1:]]


def bigram_loss(seen: np.ndarray, asked: np.ndarray, vocabulary: int) -> float:
    """Loss on tokens ``asked`` of the bigram counts of tokens ``seen``, smoothed by the unigrams."""
    counts = np.bincount(seen[:-1] * vocabulary + seen[1:], minlength=vocabulary**2)
    counts = counts.reshape(vocabulary, vocabulary)
    unigrams = (counts.sum(axis=0) + 1) / (counts.sum() + vocabulary)
    given = counts.sum(axis=1, keepdims=True)
    table = (counts + SMOOTHING * unigrams) / (given + SMOOTHING)
    return float(-np.log(table[asked[:-1], asked[1:]]).mean())


def losses_table(cards: list[ModelCard]) -> str:
    """The card's first table."""
    head = "| model | layers | parameters | held-out text | first copy | second copy |"
    rows = [
        f"| `{c.name}` | {c.n_layers} | {c.parameters:,} | {c.text_loss:.3f} "
        f"| {c.first_copy_loss:.2f} | {c.second_copy_loss:.2f} |"
        for c in cards
    ]
    return "\n".join([head, "|---" * 6 + "|", *rows])


def heads_table(model: Model, repetition: Repetition) -> str:
    """The card's table of heads."""
    rows = [f"| {model.name} | {' | '.join(map(str, range(model.config.n_heads)))} |"]
    rows.append("|---" * (model.config.n_heads + 1) + "|")
    for what, by_head in (("previous token", repetition.previous), ("induction", repetition.induction)):
        for layer, values in enumerate(by_head):
            rows.append(f"| layer {layer}, {what} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    return "\n".join(rows)


def main() -> None:
    """Pack, measure, write cards.json, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shakespeare", type=Path)
    parser.add_argument("bible", type=Path)
    parser.add_argument("--arrays", type=Path, required=True, help="the folder of the trained arrays")
    arguments = parser.parse_args()
    texts = read_corpus(arguments.shakespeare, arguments.bible)
    tokenizer = choose(*texts)
    tokens = np.array([token for text in texts for token in tokenizer.encode(text)])
    held = np.arange(len(tokens)) // BLOCK % HELD_OUT == HELD_OUT - 1
    cards, tables = [], []
    for name in DESCRIPTIONS:
        model = pack(name, arguments.arrays, tokenizer)
        repetition = repeat(model)
        cards.append(card(model, tokens[held], repetition))
        if model.config.n_layers:
            tables.append(heads_table(model, repetition))
    (DATA / "cards.json").write_text(
        json.dumps([asdict(c) for c in cards], indent=1) + "\n", encoding="utf-8"
    )
    bigrams = bigram_loss(tokens[~held], tokens[held], len(tokenizer))
    print(f"Held-out text by smoothed bigram counts: {bigrams:.3f}\n")
    print(losses_table(cards), *tables, sep="\n\n")


if __name__ == "__main__":
    main()
