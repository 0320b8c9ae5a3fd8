"""Models that TransformerLens 2.16.1 made (tests/interop/make_lens2.py): its logits and patterns, or a refusal that says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pathexp.errors import LoadError
from pathexp.model import from_transformer_lens

FILES = {path.stem: path for path in sorted((Path(__file__).parent / "lens2").glob("*.npz"))}
REFUSED = {
    "alibi--both-ways": "'alibi' with bidirectional attention",
    "alibi--three-heads": "'alibi' with 3 heads: its slopes are others",
    "by-layer": "'scale_attn_by_inverse_layer_idx' is True: scores scaled by layer",
    "experts": "'num_experts' is 2: mixtures of experts",
    "solu": "'act_fn' is 'solu', which is not known",
    "solu-ln": "'act_fn' is 'solu_ln', which is not known",
}


def held(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, np.ndarray]]:
    """The state dict, the configuration as the object held it, and what was computed."""
    with np.load(FILES[name], allow_pickle=False) as arrays:
        found = {key: arrays[key] for key in arrays.files}
    config = json.loads(str(found.pop("header")))["config"]
    state = {key.removeprefix("state/"): found[key] for key in found if key.startswith("state/")}
    return state, {key: _number(value) for key, value in config.items()}, found


def _number(value: Any) -> Any:
    """Numbers that numpy made are numbers of numpy again."""
    return np.dtype(value["numpy"]).type(value["value"]) if isinstance(value, dict) else value


def test_the_defaults_are_numbers_of_numpy() -> None:
    """attn_scale and initializer_range: what made every default model of 2.x be refused."""
    config = held("default")[1]
    assert isinstance(config["attn_scale"], np.float64) and isinstance(
        config["initializer_range"], np.float64
    )


@pytest.mark.parametrize("name", sorted(FILES.keys() - REFUSED))
def test_logits_and_patterns_are_those_of_2(name: str) -> None:
    state, config, computed = held(name)
    trace = from_transformer_lens(state, config).run(computed["tokens"])
    off = 1e-6 if name == "rotary-by-parts" else 1e-10  # its frequencies are float32 there
    np.testing.assert_allclose(trace.logits, computed["logits"], atol=off * np.abs(computed["logits"]).max())
    np.testing.assert_allclose(trace.patterns, computed["patterns"], atol=off)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_by_name(name: str) -> None:
    state, config, _ = held(name)
    with pytest.raises(LoadError, match=REFUSED[name]):
        from_transformer_lens(state, config)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_any_number_of_numpy_is_a_number(kind: type) -> None:
    state, config, computed = held("default")
    sizes = {
        key: np.int16(config[key]) for key in ("n_layers", "n_heads", "d_model", "d_head", "d_vocab", "n_ctx")
    }
    switched = {**config, **sizes, "attn_scale": kind(2.0), "attn_only": np.False_, "eps": kind(2**-10)}
    plain = {**config, "attn_scale": 2.0, "eps": 2**-10}
    found, expected = (
        from_transformer_lens(state, each).run(computed["tokens"]) for each in (switched, plain)
    )
    np.testing.assert_array_equal(found.logits, expected.logits)


def test_a_configuration_before_it_is_filled_in() -> None:
    """As a person writes it: -1 and None where the object would count."""
    state, config, computed = held("heads-counted")
    own = {key: config[key] for key in ("n_layers", "d_model", "d_head", "n_ctx", "d_vocab", "act_fn")}
    blank = {"n_heads": -1, "d_mlp": None, "d_vocab_out": -1, "attn_scale": -1.0, "initializer_range": -1.0}
    trace = from_transformer_lens(state, {**own, **blank, "device": None}).run(computed["tokens"])
    np.testing.assert_allclose(trace.logits, computed["logits"], atol=1e-9)
