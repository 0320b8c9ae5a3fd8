"""Live models of transformers and TransformerLens 4, and their state dicts, load as their files do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import pathexp as px  # noqa: E402
from pathexp.errors import LoadError  # noqa: E402
from tests.interop.double import in_double  # noqa: E402
from tests.interop.test_families import CASES, compare, made  # noqa: E402

pytestmark = pytest.mark.interop

SAME_NAMES = ("gpt2", "llama biased tied", "qwen2", "gemma2", "opt", "bert", "bloom")
"""Families whose state dict has the names of their files."""


@pytest.mark.parametrize("case", CASES)
def test_a_live_model_is_the_model_of_its_folder(case: str, tmp_path: Path) -> None:
    with in_double():
        model = made(case, tmp_path)
        ours, files = px.load(model), px.load(tmp_path)
        assert compare(model, ours) < 1e-9
    tokens = [3, 1, 4, 1, 5]
    np.testing.assert_array_equal(ours.run(tokens).logits, files.run(tokens).logits)
    assert ours.config == files.config


@pytest.mark.parametrize("case", SAME_NAMES)
def test_a_state_dict_goes_with_its_configuration(case: str, tmp_path: Path) -> None:
    with in_double():
        model = made(case, tmp_path)
        state = dict(model.state_dict())
        assert compare(model, px.load(state, config=model.config)) < 1e-9
        assert compare(model, px.load(state, config=model.config.to_dict())) < 1e-9


def test_torch_load_with_weights_only_is_the_way_for_pickles(tmp_path: Path) -> None:
    with in_double():
        model = made("gpt2", tmp_path)
        torch.save(model.state_dict(), tmp_path / "model.pt")
        with pytest.raises(LoadError, match=r"torch.load\('model.pt', weights_only=True\)"):
            px.load(tmp_path / "model.pt")
        state = torch.load(tmp_path / "model.pt", weights_only=True)
        assert compare(model, px.load(state, config=model.config)) < 1e-9


def test_half_precision_is_read_as_it_is_and_later_changes_are_not_seen(tmp_path: Path) -> None:
    with in_double():
        model = made("gpt2", tmp_path).bfloat16()
        ours = px.load(model)
        expected = model.double()(torch.tensor([[1, 2, 3]])).logits[0].numpy()
        for parameter in model.parameters():
            parameter.data.zero_()
    np.testing.assert_allclose(ours.run([1, 2, 3]).logits, expected, atol=1e-9 * np.abs(expected).max())


def test_numbers_that_are_not_there_and_adapters_that_are_not_merged_are_refused() -> None:
    config = transformers.GPT2Config(vocab_size=29, n_positions=40, n_embd=24, n_layer=1, n_head=4)
    with torch.device("meta"):
        empty = transformers.GPT2LMHeadModel(config)
    with pytest.raises(LoadError, match=r"Cannot load the GPT2LMHeadModel: .*meta"):
        px.load(empty)
    with pytest.raises(LoadError, match="device meta, which holds no numbers"):
        px.load(dict(empty.state_dict()), config=config)

    class Adapted:
        config = None

        def state_dict(self) -> dict[str, Any]:
            return {"base_model.model.transformer.h.0.attn.c_attn.lora_A.default.weight": None}

        def save_pretrained(self, folder: str) -> None:
            raise AssertionError("not saved")

    with pytest.raises(LoadError, match=r"adapters of peft that are not merged.*merge_and_unload"):
        px.load(Adapted())


def test_a_tokenizer_of_transformers_goes_with_it(tmp_path: Path) -> None:
    import tokenizers

    words = {"<s>": 0, "to": 1, "be": 2, "or": 3}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<s>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, bos_token="<s>")
    with in_double():
        model = made("gpt2", tmp_path)
        for tokenizer in (fast, plain):
            assert px.load(model, tokenizer=tokenizer).encode("to be or to") == [1, 2, 3, 1]
        with pytest.raises(LoadError, match=r"tokenizer: expected .* found list"):
            px.load(model, tokenizer=[1])


# Behind a bridge of TransformerLens 4 ----------------------------------------------------------------------


def bridged(case: str, folder: Path) -> tuple[Any, Any]:
    pytest.importorskip("transformer_lens")
    import tokenizers
    from transformer_lens.model_bridge.bridge import TransformerBridge

    model = made(case, folder)
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 0, "a": 1}, unk_token="<s>"))
    special = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "<s>")
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain, **special).save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    bridge = TransformerBridge.boot_transformers(
        str(folder), hf_model=model, tokenizer=tokenizer, dtype=torch.float64
    )
    return bridge.eval(), model


def logits_of(bridge: Any, tokens: list[int]) -> np.ndarray:
    found: np.ndarray = bridge(torch.tensor([tokens]))[0].detach().numpy()
    return found


@pytest.mark.parametrize("case", ["gpt2", "llama", "gpt_neox parallel", "qwen2"])
def test_a_bridge_before_a_model_of_transformers_is_that_model(case: str, tmp_path: Path) -> None:
    tokens = [3, 1, 4, 1, 5]
    with in_double():
        bridge, _ = bridged(case, tmp_path)
        np.testing.assert_allclose(px.load(bridge).run(tokens).logits, logits_of(bridge, tokens), atol=1e-9)
        weight = bridge.state_dict()["blocks.0.attn.q.weight"]
        weight[0] += 1.0
        try:  # an edit is either in what was loaded, or refused
            edited = px.load(bridge)
        except LoadError as error:
            assert "'blocks.0.attn.q.weight' was edited" in str(error)
        else:
            np.testing.assert_allclose(edited.run(tokens).logits, logits_of(bridge, tokens), atol=1e-9)
        bridge.enable_compatibility_mode()
        with pytest.raises(LoadError, match="weights were processed"):
            px.load(bridge)
