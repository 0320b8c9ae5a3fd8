"""Many texts at once: each as it would be alone, whatever pads it."""

from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.budget import BUDGET
from pathexp.errors import TokenError, WeightsError
from pathexp.model.stored import StoredLayers
from tests.zoo import FAMILIES, ZOO

EVERY = {**ZOO, **FAMILIES}
LENGTHS = (1, 2, 9, 11, 5)


def rows_of(model):
    rng = np.random.default_rng(3)
    most = model.config.n_ctx
    return [rng.integers(0, model.config.d_vocab, min(length, most)).tolist() for length in LENGTHS]


def padded(rows, side, width=11, pad=0):
    """The rows, filled up to one width on a side, and the mask that says so."""
    filled = [[pad] * (width - len(row)) if side == "left" else [] for row in rows]
    tokens = [f + row + [pad] * (width - len(row) - len(f)) for f, row in zip(filled, rows, strict=True)]
    mask = [
        [0] * len(f) + [1] * len(row) + [0] * (width - len(row) - len(f))
        for f, row in zip(filled, rows, strict=True)
    ]
    return np.array(tokens), np.array(mask)


def same(trace, alone):
    for name in (
        "tokens",
        "queries",
        "keys",
        "values",
        "scores",
        "patterns",
        "z",
        "mlp_pre",
        "mlp_gates",
        "logits",
    ):
        np.testing.assert_array_equal(getattr(trace, name), getattr(alone, name), err_msg=name)
    assert trace.residuals.keys() == alone.residuals.keys()
    for point, stream in alone.residuals.items():
        np.testing.assert_array_equal(trace.residuals[point], stream, err_msg=point)
    for site, scale in alone.norm_scales.items():
        np.testing.assert_array_equal(trace.norm_scales[site], scale, err_msg=site)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_rows_run_as_they_would_alone(name, side):
    model = EVERY[name]()
    rows = rows_of(model)
    for trace, row in zip(model.run_many(*padded(rows, side)), rows, strict=True):
        same(trace, model.run(row))


def test_texts_of_any_length_and_every_question_takes_their_traces():
    model = px.load("attn-2l")
    texts = ["To be", "Macbeth shall sleep no more. Macbeth shall"]
    for trace, text in zip(model.run_many(texts), texts, strict=True):
        same(trace, model.run(text))
        terms = px.expand(trace)
        assert terms.verify().ok and px.decompose(trace).ok
        assert terms.top(1, trace.logit(trace.top_token()))[0].path


def test_a_layer_that_is_stored_is_made_once_for_all_texts():
    """With a budget of one layer: as many readings as layers, not layers times texts."""
    model = px.random_model(layers=3, heads=2, norm="layernorm", seed=4)
    read = []

    def layer(at):
        read.append(at)
        return model.weights.W_Q[at].copy()

    stored = StoredLayers("W_Q", model.weights.W_Q.shape, layer)
    lazy = replace(model, weights=replace(model.weights, W_Q=stored))
    before = BUDGET.limit
    px.memory_budget(model.weights.W_Q[0].nbytes)  # one layer of it
    try:
        lazy.run_many([[1, 2], [3], [2, 2, 1]])
    finally:
        px.memory_budget(before)
    assert read == [0, 1, 2]


def test_no_texts_make_no_traces():
    assert px.random_model().run_many([]) == ()


REFUSED = {
    "a text alone": (("To be",), {}, "run_many takes a list of texts or of rows of token ids, found 'To be'"),
    "one row of ids": (([1, 2, 3],), {}, "found one of 1"),
    "numbers": ((3,), {}, "found 3"),
    "an id of no token": (([[1, 2], [3, 99]],), {}, "Text 1: Token id 99 at position 1"),
    "an empty row": (([[1], []],), {}, "Text 1: There is nothing to run"),
    "ragged array": (([[1], [[2], [3, 4]]],), {}, "Text 1: Token ids are a list of integers"),
    "one mask too few": (([[1, 2], [3, 4]], [[1, 1]]), {}, "found 1 for 2 texts"),
    "a mask that is none": (([[1, 2]], "11"), {}, "found no rows for 1 texts"),
    "another width": (([[1, 2]], [[1, 1, 0]]), {}, r"Text 0: mask has shape \(3,\), token ids \(2,\)"),
    "a mask of twos": (([[1, 2]], [[1, 2]]), {}, r"Text 0: a mask is 1 for tokens and 0 for padding, found \[1, 2\]"),
    "a mask of NaN": (([[1, 2]], [[1, float("nan")]]), {}, "Text 0: a mask is 1 for tokens"),
    "all hidden": (([[1, 2], [1, 2]], [[1, 1], [0, 0]]), {}, "Text 1: its mask hides all 2 tokens"),
    "a hole": (([[1, 2, 3, 4]], [[1, 0, 1, 1]]), {}, r"Text 0: its mask hides position 1, between .* \(0 and 3\)"),
    "a mask for a text": ((["ab"], [[1, 1]]), {}, "Text 0: a mask goes with rows of token ids"),
    "words for a mask": (([[1, 2]], [["a", "b"]]), {}, "Text 0: a mask is 1 for tokens"),
    "a masked array": ((np.ma.masked_equal([[1, 2]], 2),), {}, "masked array"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_list_of_texts_or_no_mask_is_refused_by_number(case):
    given, keywords, said = REFUSED[case]
    with pytest.raises(TokenError, match=said):
        px.random_model(d_vocab=11).run_many(*given, **keywords)


def test_what_overflows_is_an_error():
    model = px.random_model(layers=1)
    huge = replace(model, weights=replace(model.weights, W_U=np.full(model.weights.W_U.shape, 1e308)))
    with pytest.raises(WeightsError, match="overflowed"):
        huge.run_many([[1, 2], [3]])
