"""State dicts and live objects, by what they are; those of torch, transformers and TransformerLens are in interop."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import LoadError
from pathexp.model import Tokenizer
from tests.model.load import checkpoints
from tests.model.load.test_transformer_lens import state, told

TOKENS = [3, 1, 4, 1, 5]
MODEL = px.random_model(norm="layernorm", biases=True, seed=3)


def test_arrays_of_transformers_go_with_its_configuration(tmp_path: Path) -> None:
    folder = checkpoints.folder(tmp_path / "llama")
    arrays = checkpoints.llama_arrays()
    found = px.load(arrays, config=dict(checkpoints.LLAMA))
    np.testing.assert_array_equal(found.run([1, 2, 3]).logits, px.load(folder).run([1, 2, 3]).logits)
    with pytest.raises(LoadError, match=r"the state dict: .*\n.*'model.norm.weight' is missing"):
        px.load({k: v for k, v in arrays.items() if k != "model.norm.weight"}, config=dict(checkpoints.LLAMA))
    with pytest.raises(LoadError, match="int64, no plain real numbers"):
        name = next(iter(arrays))
        px.load({**arrays, name: arrays[name].astype(int)}, config=dict(checkpoints.LLAMA))


def test_arrays_of_transformer_lens_go_with_its_configuration() -> None:
    found = px.load(state(MODEL), config=told(MODEL.config))
    np.testing.assert_array_equal(found.run(TOKENS).logits, MODEL.run(TOKENS).logits)
    again = px.load(state(MODEL), config=SimpleNamespace(**told(MODEL.config)))
    np.testing.assert_array_equal(again.run(TOKENS).logits, MODEL.run(TOKENS).logits)


def test_arrays_by_our_own_names() -> None:
    for config in (MODEL.config, MODEL.config.to_dict()):
        found = px.load(MODEL.weights.arrays(), config=config)
        np.testing.assert_array_equal(found.run(TOKENS).logits, MODEL.run(TOKENS).logits)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "nothing": ({}, {}, "it is empty"),
    "no configuration": (state(MODEL), {}, "Give config=: the configuration of transformers"),
    "a training run": ({"model": state(MODEL), "step": 3}, {}, r"load\(checkpoint\['model'\], ...\)"),
    "numbers for names": ({1: np.ones(2)}, {}, "names must be texts, found 1"),
    "another configuration": (state(MODEL), {"config": 3}, "must be a mapping or a config object, found 3"),
    "no configuration of ours": ({"W_E": np.ones((2, 2))}, {"config": 3}, "found config=3"),
    "names of nobody": ({"wte": np.ones((2, 2))}, {"config": MODEL.config}, "nothing says what 'wte' are. Say it with names="),
    "one array too few": ({"W_E": np.ones((2, 2))}, {"config": MODEL.config}, "6 arrays of its configuration are missing: W_pos, W_Q, W_K, W_V, W_O"),
    "an option that decides nothing": (state(MODEL), {"config": told(MODEL.config), "tie": True}, "nothing open that tie"),
    "an encoder of TransformerLens": (
        {"embed.embed.W_E": np.ones((2, 2)), "embed.W_E": np.ones(2)}, {"config": told(MODEL.config)}, "HookedEncoder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_refused_with_the_way_on(case: str) -> None:
    given, options, said = REFUSED[case]
    with pytest.raises(LoadError, match=said):
        px.load(given, **options)


def test_live_objects_are_told_apart() -> None:
    class Config:
        name_or_path = "some/model"

    class Broken:
        config = Config()

        def state_dict(self) -> dict[str, Any]:
            return {}

        def save_pretrained(self, folder: str) -> None:
            raise RuntimeError("no disk")

    with pytest.raises(LoadError, match="the Broken: its save_pretrained failed: no disk"):
        px.load(Broken())

    class Saved(Broken):
        def save_pretrained(self, folder: str) -> None:
            checkpoints.folder(Path(folder) / "in").rename(Path(folder) / "out")
            for file in (Path(folder) / "out").iterdir():
                file.rename(Path(folder) / file.name)

    found = px.load(Saved())
    assert found.name == "some/model" and found.tokenizer is None
    assert found.run([1, 2]).logits.shape[0] == 2  # the folder is gone, the open file is not

    class Odd(Saved):
        def save_pretrained(self, folder: str) -> None:
            super().save_pretrained(folder)
            (Path(folder) / "config.json").write_text(json.dumps({**checkpoints.LLAMA, "odd": 1}))

    with pytest.raises(LoadError, match=r"Cannot load 'Odd/config.json': 'odd' may change"):
        px.load(Odd())
    with pytest.raises(LoadError, match="nothing open that config"):
        px.load(Saved(), config=3)
    lens = SimpleNamespace(cfg=SimpleNamespace(**told(MODEL.config)), state_dict=lambda: state(MODEL))
    assert px.load(lens).config == MODEL.config
    with pytest.raises(LoadError, match="a model of TransformerLens leaves nothing open that strict"):
        px.load(lens, strict=True)


def test_a_tokenizer_may_be_given(tmp_path: Path) -> None:
    letters = Tokenizer(tuple("abcdefghijk"))
    found = px.load(state(MODEL), config=told(MODEL.config), tokenizer=letters)
    assert found.encode("cab") == [2, 0, 1]
    text = json.dumps({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})
    (tmp_path / "tokenizer.json").write_text(text)
    found = px.load(state(MODEL), config=told(MODEL.config), tokenizer=tmp_path / "tokenizer.json")
    assert found.token_string(1) == "b"
    many = SimpleNamespace(to_str=lambda: text.replace("1", "99"))
    with pytest.raises(LoadError, match="the SimpleNamespace: it has token id 99"):
        px.load(state(MODEL), config=told(MODEL.config), tokenizer=many)
    with pytest.raises(LoadError, match="found int"):
        px.load(state(MODEL), config=told(MODEL.config), tokenizer=3)


def test_weights_come_with_numbers_of_their_own() -> None:
    arrays = state(MODEL)
    ours = px.load(arrays, config=told(MODEL.config)).weights.arrays().values()
    assert not any(np.shares_memory(array, each) for array in arrays.values() for each in ours)
