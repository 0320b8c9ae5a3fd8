"""Sizes and switches: what is filled in, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from pathexp.errors import ConfigError
from pathexp.model.config import Config

SIZES: dict[str, Any] = {"n_layers": 2, "n_heads": 4, "d_model": 14, "d_head": 3, "d_vocab": 11, "n_ctx": 9}


def test_what_is_left_out_is_filled_in() -> None:
    config = Config(**SIZES)
    assert (config.n_kv_heads, config.final_norm, config.norm) == (4, False, None)
    assert config.attention_scale == 1 / math.sqrt(3)
    assert Config(**SIZES, norm="layernorm").final_norm is True
    assert Config(**SIZES, norm="layernorm", final_norm=False).final_norm is False


def test_numpy_sizes_become_plain_integers() -> None:
    config = Config(**SIZES | {"n_layers": np.int64(3)})
    assert type(config.n_layers) is int
    assert json.loads(json.dumps(config.to_dict()))["n_layers"] == 3


def test_query_heads_share_key_value_heads_in_runs() -> None:
    config = Config(**SIZES, n_kv_heads=2)
    assert [config.kv_head(head) for head in range(4)] == [0, 0, 1, 1]


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Config(**SIZES).n_layers = 3  # type: ignore[misc]


def test_it_goes_through_json() -> None:
    config = Config(**SIZES, n_kv_heads=2, norm="rmsnorm", norm_eps=1e-6, positions="qk", causal=False)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_layers": -1}, "n_layers: expected an integer ≥ 0, got -1"),
        ({"n_heads": 0}, "n_heads: expected an integer ≥ 1, got 0"),
        ({"d_model": 4.0}, "d_model: expected an integer ≥ 1, got 4.0"),
        ({"d_head": True}, "d_head: expected an integer ≥ 1, got True"),
        ({"d_vocab": "11"}, "d_vocab: expected an integer ≥ 1, got '11'"),
        ({"n_kv_heads": 3}, "n_heads=4, n_kv_heads=3"),
        ({"n_heads": 6, "n_kv_heads": 4}, "n_heads=6, n_kv_heads=4"),
        ({"n_kv_heads": 8}, "n_heads=4, n_kv_heads=8"),
        ({"norm": "batchnorm"}, "norm: expected one of None, 'layernorm', 'rmsnorm'"),
        ({"positions": None}, "positions: expected one of 'none', 'learned', 'qk'"),
        ({"positions": ["qk"]}, r"positions: expected one of .* got \['qk'\]"),
        ({"final_norm": True}, "final_norm=True needs a norm"),
        ({"final_norm": 1, "norm": "rmsnorm"}, "final_norm: expected True or False, got 1"),
        ({"causal": "yes"}, "causal: expected True or False, got 'yes'"),
        ({"attention_scale": 0.0}, "attention_scale: expected a finite number > 0, got 0.0"),
        ({"attention_scale": math.nan}, "attention_scale: expected a finite number > 0, got nan"),
        ({"norm_eps": -1e-5}, "norm_eps: expected a finite number ≥ 0, got -1e-05"),
        ({"norm_eps": math.inf}, "norm_eps: expected a finite number ≥ 0, got inf"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(**SIZES | change)


def test_unknown_and_missing_names_are_told() -> None:
    with pytest.raises(ConfigError, match=r"Config has no 'n_head'\. Did you mean 'n_heads'"):
        Config.from_dict(SIZES | {"n_head": 3})
    with pytest.raises(ConfigError, match="missing: n_layers, d_head"):
        Config.from_dict({name: size for name, size in SIZES.items() if name not in ("n_layers", "d_head")})
