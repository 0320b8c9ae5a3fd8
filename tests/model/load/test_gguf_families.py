"""GGUF files of every architecture give the logits of the same model as transformers saves it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import LoadError, LoadWarning

pytest.importorskip("gguf")

from pathexp.model.load.gguf_kinds import KINDS
from tests.model.load import gguf_writing as writing
from tests.model.load.gguf_writing import CASES

LENGTHS = (1, 2, 6, 9, 33)


@pytest.fixture(autouse=True)
def without_warnings_for_missing_tokens() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*tokenizer.*", LoadWarning)
        warnings.filterwarnings("ignore", ".*does not say.*", LoadWarning)
        yield


@pytest.mark.parametrize("name", CASES)
def test_the_logits_are_those_of_the_checkpoint_that_was_converted(tmp_path: Path, name: str) -> None:
    """Weights here are exact in single precision; factors of frequencies, and keys, are rounded to it."""
    case = CASES[name]
    rounding = 1e-5 if case.tensors else 1e-6
    there, file = writing.loaded(case, tmp_path)
    bare = {"no_unembedding": True} if case.architecture == "bert" else {}
    original, found = px.load(there, **bare), px.load(file, **bare)
    rng = np.random.default_rng(1)
    for length in LENGTHS:
        ids = rng.integers(0, 13, length).tolist()
        wanted = original.run(ids).logits
        assert np.abs(wanted).max() > 0.1
        np.testing.assert_allclose(
            found.run(ids).logits, wanted, rtol=0, atol=rounding * np.abs(wanted).max()
        )


def test_every_architecture_has_a_case() -> None:
    assert set(KINDS) == {case.architecture for case in CASES.values()}


def test_a_bert_has_no_unembedding(tmp_path: Path) -> None:
    _, file = writing.loaded(CASES["bert"], tmp_path)
    with pytest.raises(LoadError, match=r"'output\.weight' is missing.*no_unembedding=True"):
        px.load(file)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "experts": ("qwen2", {"expert_count": 8}, "'expert_count' is 8: experts are not known of this architecture"),
    "gating": ("mixtral", {"expert_gating_func": 2}, "'expert_gating_func' is 2, known is 1: .* softmax"),
    "groups": ("qwen3_moe", {"expert_group_count": 2}, "'expert_group_count' is 2: groups of experts"),
    "more chosen than there are": ("olmoe", {"expert_used_count": 5}, "5"),
    "clamp": ("llama", {"attention.clamp_kqv": 8.0}, r"'attention\.clamp_kqv' is 8\.0: .* cut off"),
    "unknown key": ("llama", {"attention.temperature_length": 8}, r"'attention\.temperature_length' may change the computation"),
    "values": ("llama", {"attention.value_length": 4}, r"'attention\.value_length' is 4, known is 10"),
    "vocabulary": ("llama", {"vocab_size": 12}, "'vocab_size' is 12, known is 13"),
    "long rope": ("llama", {"rope.scaling.type": "longrope"}, r"rope\.scaling\.type 'longrope'"),
    "uneven heads": ("llama", {"attention.head_count_kv": [2, 2, 1]}, r"same for each of 3 layers, found \[2, 2, 1\]"),
    "short list": ("llama", {"feed_forward_length": [20]}, r"same for each of 3 layers, found \[20\]"),
    "attention factor": ("llama", {"rope.scaling.attn_factor": 1.2}, "only YaRN makes scores larger"),
    "yarn": (
        "llama",
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.yarn_ext_factor": 0.5},
        "YaRN's own",
    ),
    "sections": ("qwen2", {"rope.dimension_sections": [1, 1, 1, 0]}, r"'rope\.dimension_sections' may change"),
    "no rope": ("granite", {"rope.scaling.finetuned": False}, "layers without rotary positions"),
    "logit scale": ("granite", {"logit_scale": 0.0}, "'logit_scale' is 0.0, and divides"),
    "pattern": ("gemma2", {"attention.sliding_window_pattern": [True]}, "must say true or false of 3 layers"),
    "slopes": ("bloom", {"attention.max_alibi_bias": 4.0}, "other slopes"),
    "adapter": ("llama", {"general.type": "adapter"}, "it is an adapter alone"),
    "split": ("llama", {"split.count": 3}, "it is one of 3 files; join them"),
    "rules of experts": ("deepseek_v3", {"expert_gating_func": 3}, "'expert_gating_func' is 3, known are 1 and 2"),
    "heads of a latent": ("deepseek_v3", {"attention.head_count_kv": 4}, "'attention.head_count_kv' is 4, known is 1: all heads read one"),
    "length of a latent": ("deepseek_v3", {"attention.key_length": 9}, "'attention.key_length' is 9, known is 11"),
    "stretched latent": (
        "deepseek_v2 yarn, no groups",
        {"rope.scaling.yarn_log_multiplier": None},
        "'rope.scaling.yarn_log_multiplier' is not told",
    ),
    "future tokens": ("llama", {"nextn_predict_layers": 1}, "further tokens"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_keys_that_are_refused_by_name(tmp_path: Path, name: str) -> None:
    of, fields, message = REFUSED[name]
    case = CASES[of]
    changed = replace(case, fields={**case.fields, **fields})
    _, file = writing.loaded(changed, tmp_path)
    with pytest.raises(LoadError, match=message):
        px.load(file)


def test_keys_that_belong_to_nothing_are_named(tmp_path: Path) -> None:
    case = CASES["llama"]
    fields = {**case.fields, "x.secret": 4, "general.sampling.temp": 0.5}
    file = writing.write(
        tmp_path / "x.gguf", "llama", fields, writing.tensors_of(case, writing.arrays_of(case.config))
    )
    with pytest.warns(LoadWarning, match=r"'x\.secret' belong to nothing that is known here"):
        px.load(file)


@pytest.mark.parametrize(
    ("name", "factors", "message"),
    [
        ("llama", np.zeros(5), r"divisors\[0\]"),
        ("llama", np.ones(4), "one divisor for each of the 5 pairs of dims=10, found 4"),
        ("llama", np.array([1, 1, np.nan, 1, 1]), r"divisors\[2\]"),
        ("llama", None, "no place in this architecture: 'rope_factors_long"),
        ("qwen2", np.ones(3), r"no place in this architecture: 'rope_freqs\.weight'"),
    ],
)
def test_stored_divisors_are_looked_at(
    tmp_path: Path, name: str, factors: np.ndarray | None, message: str
) -> None:
    case = CASES[name]
    stored = {"rope_factors_long.weight": np.ones(5)} if factors is None else {"rope_freqs.weight": factors}
    changed = replace(case, tensors=stored)
    with pytest.raises(LoadError, match=message):
        px.load(writing.loaded(changed, tmp_path)[1])


ELSEWHERE = ("token_types.weight", "blk.0.attn_norm_2.weight", "output_norm.bias", "blk.0.attn_q.scale")


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (of, name)
        for of in ("llama", "phi", "qwen3", "olmo")
        for name in ELSEWHERE
        if (of, name) != ("phi", "output_norm.bias")
    ],
)
def test_tensors_of_other_architectures_are_refused(tmp_path: Path, of: str, name: str) -> None:
    """None of them is taken for what it would be elsewhere."""
    case = replace(CASES[of], tensors={name: np.ones((2, 24)) if "types" in name else np.ones(24)})
    with pytest.raises(LoadError, match=r"no place in this architecture|is missing"):
        px.load(writing.loaded(case, tmp_path)[1])


def test_a_window_pattern_by_period_and_by_list_is_the_same(tmp_path: Path) -> None:
    case = CASES["gemma2"]
    for at, pattern in enumerate((3, [True, True, False])):
        fields = {**case.fields, "attention.sliding_window_pattern": pattern}
        (folder := tmp_path / str(at)).mkdir()
        _, file = writing.loaded(replace(case, fields=fields), folder)
        assert px.load(file).config.windows == (5, 5, None)


def test_divisors_are_saved_with_the_model(tmp_path: Path) -> None:
    model = px.load(writing.loaded(CASES["llama 3.1"], tmp_path)[1])
    model.save(tmp_path / "m.npz")
    again = px.load(tmp_path / "m.npz")
    assert again.config == model.config
    np.testing.assert_array_equal(again.run([3, 1, 4]).logits, model.run([3, 1, 4]).logits)


def test_windows_of_olmo_3_turn_as_before_the_context_was_stretched(tmp_path: Path) -> None:
    case = CASES["olmo2"]
    fields = {
        **case.fields, "attention.sliding_window": 5, "attention.sliding_window_pattern": 2, "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 10,
    }  # fmt: skip
    config = px.load(writing.loaded(replace(case, fields=fields), tmp_path)[1]).config
    assert config.windows == (5, None, 5)
    assert [turned.scaling is None for turned in config.rotaries] == [True, False, True]
