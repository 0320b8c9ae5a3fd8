"""Batches with padding left and right: what transformers computes under its attention_mask, token by token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import pathexp as px  # noqa: E402
from tests.interop.double import in_double  # noqa: E402
from tests.interop.test_families import made  # noqa: E402

pytestmark = pytest.mark.interop

LENGTHS = (9, 1, 4, 7)
OWN = ("bloom", "opt")
"""Families that count positions by the mask themselves; the others are told them, as generate() does."""
CASES = ("gpt2", "gpt_neox parallel", "gptj", "llama", "llama yarn", "mistral", "qwen3", "gemma2", "olmo2", "bloom", "opt", "bert")  # fmt: skip


def batch(side: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    tokens = rng.integers(0, 29, (len(LENGTHS), max(LENGTHS)))  # what pads is any token
    mask = np.zeros_like(tokens)
    for row, length in enumerate(LENGTHS):
        mask[row, slice(-length, None) if side == "left" else slice(length)] = 1
    return tokens, mask


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("case", CASES)
def test_masked_batches_are_those_of_transformers(case: str, side: str, tmp_path: Path) -> None:
    tokens, mask = batch(side)
    with in_double():
        model = made(case, tmp_path)
        given = {"input_ids": torch.tensor(tokens), "attention_mask": torch.tensor(mask)}
        if case not in OWN:
            given["position_ids"] = torch.tensor(np.maximum(mask.cumsum(-1) - 1, 0))
        theirs = model(**given, output_attentions=True)
    traces = px.load(tmp_path).run_many(tokens, mask=mask)
    for row, trace in enumerate(traces):
        real = mask[row] == 1
        logits = theirs.logits[row].numpy()[real]
        scale = 1e-9 if case != "bloom" else 1e-8  # its GELU has eight digits
        np.testing.assert_allclose(trace.logits, logits, atol=scale * np.abs(logits).max())
        for layer, pattern in enumerate(theirs.attentions):
            np.testing.assert_allclose(
                trace.patterns[layer], pattern[row].numpy()[:, real][:, :, real], atol=1e-11
            )


def test_without_position_ids_gpt2_counts_columns_and_we_do_not(tmp_path: Path) -> None:
    """Called with a mask alone, GPT-2 gives the first of a left-padded text the position of its column."""
    tokens, mask = batch("left")
    with in_double():
        model = made("gpt2", tmp_path)
        columns = model(torch.tensor(tokens), attention_mask=torch.tensor(mask)).logits.numpy()
    traces = px.load(tmp_path).run_many(tokens, mask=mask)
    np.testing.assert_allclose(traces[0].logits, columns[0], atol=1e-9)  # not padded
    assert np.abs(traces[1].logits[-1] - columns[1, -1]).max() > 1e-3
