"""Adapters against W + (α / r) B A by hand; what peft itself computes is in interop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.errors import LoadError
from tests.model.load import checkpoints

Q, V, DOWN = (
    f"model.layers.{{}}.{name}" for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj")
)
TOKENS = [3, 1, 4, 1, 5]
BASE = checkpoints.llama_arrays()


def factors(seed: int = 0, rank: int = 3, modules: tuple[str, ...] = (Q, V, DOWN)) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(seed), {}
    for layer in range(2):
        for module in (name.format(layer) for name in modules):
            rows, columns = BASE[f"{module}.weight"].shape
            found[f"base_model.model.{module}.lora_A.weight"] = rng.standard_normal((rank, columns))
            found[f"base_model.model.{module}.lora_B.weight"] = rng.standard_normal((rows, rank))
    return found


def told(**own: Any) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "r": 3,
        "lora_alpha": 5,
        "target_modules": ["q_proj"],
        "use_rslora": False,
        **own,
    }


def adapter(path: Path, tensors: dict[str, np.ndarray] | None = None, **own: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "adapter_config.json").write_text(json.dumps(told(**own)))
    checkpoints.write(path / "adapter_model.safetensors", factors() if tensors is None else tensors)
    return path


def merged(
    path: Path, *changes: tuple[float, dict[str, np.ndarray]], base: dict[str, np.ndarray] = BASE
) -> px.Model:
    """The model whose tensors hold the changes already."""
    arrays = {name: array.astype(np.float64) for name, array in base.items()}
    for scale, tensors in changes:
        for name in (name for name in tensors if name.endswith("lora_A.weight")):
            b, module = tensors[name.replace("lora_A", "lora_B")], name.removeprefix("base_model.model.")
            target = module.replace(".lora_A", "")
            arrays[target] = arrays[target] + scale * b @ tensors[name]
    return px.load(checkpoints.folder(path, arrays=arrays))


def alike(found: px.Model, expected: px.Model) -> None:
    for name, array in expected.weights.arrays().items():
        np.testing.assert_allclose(
            np.asarray(getattr(found.weights, name)), np.asarray(array), atol=1e-12, err_msg=name
        )
    np.testing.assert_allclose(found.run(TOKENS).logits, expected.run(TOKENS).logits, atol=1e-11)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return checkpoints.folder(tmp_path / "base")


@pytest.mark.parametrize(
    ("own", "scale"), [({}, 5 / 3), ({"use_rslora": True}, 5 / 3**0.5), ({"lora_alpha": 0.5}, 0.5 / 3)]
)
def test_the_change_is_scaled_as_told(tmp_path: Path, base: Path, own: dict[str, Any], scale: float) -> None:
    found = px.load(base, adapter=adapter(tmp_path / "a", **own))
    alike(found, merged(tmp_path / "merged", (scale, factors())))
    assert found.history == (f"adapter a: rank 3, alpha {own.get('lora_alpha', 5)}, 6 maps",)


def test_what_it_adds_can_be_components_of_its_own(tmp_path: Path, base: Path) -> None:
    trace = px.load(base, adapter=adapter(tmp_path / "a")).run(TOKENS)
    graph = px.freeze(trace, base=px.load(base))
    assert {component.port for component in graph.components()} == {"base", "added"}
    terms, target = px.expand(graph), trace.logit(3)
    assert terms.verify().ok and terms.where("S .* added .* U").value(target) != 0.0


def test_weights_stay_as_they_are_stored(tmp_path: Path, base: Path) -> None:
    found = px.load(base, adapter=adapter(tmp_path / "a"))
    assert (
        type(found.weights.W_Q) is type(px.load(base).weights.W_Q)
        and type(found.weights.W_Q).__name__ == "StoredLayers"
    )


def test_several_add_up_in_any_order(tmp_path: Path, base: Path) -> None:
    other = factors(seed=1, modules=(Q,))
    folders = [adapter(tmp_path / "a"), adapter(tmp_path / "b", other, lora_alpha=1)]
    expected = merged(tmp_path / "merged", (5 / 3, factors()), (1 / 3, other))
    for order in (folders, folders[::-1]):
        alike(px.load(base, adapter=order), expected)


def test_the_one_beside_its_base_is_applied_unless_none_is_wanted(tmp_path: Path, base: Path) -> None:
    plain = px.load(checkpoints.folder(tmp_path / "plain"))
    adapter(base)
    found = px.load(base)
    alike(found, merged(tmp_path / "merged", (5 / 3, factors())))
    assert found.history
    alike(px.load(base, adapter=[]), plain)


def test_other_ways_to_a_model_of_transformers_take_one(tmp_path: Path, base: Path) -> None:
    folder = adapter(tmp_path / "a")
    expected = px.load(base, adapter=folder)
    found = px.load(checkpoints.llama_arrays(), config=dict(checkpoints.LLAMA), adapter=str(folder))
    alike(found, expected)
    assert found.history == expected.history


def test_saved_biases_and_modules_take_the_place_of_those_of_the_base(tmp_path: Path, base: Path) -> None:
    head, norm = np.full((11, 8), 0.25), np.arange(1.0, 9.0)
    more = {"base_model.model.lm_head.weight": head, "base_model.model.model.norm.base_layer.weight": norm}
    found = px.load(base, adapter=adapter(tmp_path / "a", {**factors(), **more}))
    changed = {**BASE, "lm_head.weight": head, "model.norm.weight": norm}
    alike(found, merged(tmp_path / "merged", (5 / 3, factors()), base=changed))


def test_ranks_and_alphas_of_single_modules(tmp_path: Path, base: Path) -> None:
    tensors = {**factors(modules=(Q,)), **factors(rank=2, modules=(V,))}
    own = {
        "rank_pattern": {"v_proj": 2},
        "alpha_pattern": {"^model.layers.1.self_attn.q_proj": 7, "v_proj": 4},
    }
    found = px.load(base, adapter=adapter(tmp_path / "a", tensors, **own))
    changes = [
        (5 / 3, {n: a for n, a in tensors.items() if "layers.0.self_attn.q" in n}),
        (7 / 3, {n: a for n, a in tensors.items() if "layers.1.self_attn.q" in n}),
        (4 / 2, {n: a for n, a in tensors.items() if "v_proj" in n}),
    ]
    alike(found, merged(tmp_path / "merged", *changes))


def test_an_adapter_alone_says_what_it_wants(tmp_path: Path) -> None:
    with pytest.raises(
        LoadError, match=r"is an adapter of peft.*made for 'org/base'.*load\('org/base', adapter='.*--adapter"
    ):
        px.load(adapter(tmp_path / "a", base_model_name_or_path="org/base"))
    with pytest.raises(LoadError, match=r"load\('BASE', adapter="):
        px.load(adapter(tmp_path / "a"))


WRONG = factors(modules=(Q,))
FIRST = next(iter(WRONG))
REFUSED: dict[str, tuple[dict[str, Any], dict[str, np.ndarray] | None, str]] = {
    "another kind": ({"peft_type": "IA3"}, None, "'peft_type' is 'IA3'; known is 'LORA'"),
    "magnitudes": ({"use_dora": True}, None, "'use_dora' is True"),
    "another start": ({"init_lora_weights": "pissa"}, None, "'init_lora_weights' is 'pissa'"),
    "a key of tomorrow": ({"odd_config": {"a": 1}}, None, "'odd_config' may change the computation"),
    "a rank of zero": ({"r": 0}, None, "'r' must be a whole number"),
    "a rank of others": ({"r": 4}, None, "the rank told is 4"),
    "an alpha that is none": ({"lora_alpha": "x"}, None, "'lora_alpha' must be a number"),
    "an alpha that is not finite": ({"lora_alpha": float("inf")}, None, "'lora_alpha' must be finite"),
    "a pattern": ({"rank_pattern": {".*(a+)+": 2}}, None, "patterns other than names"),
    "a pattern's number": ({"rank_pattern": {"q_proj": "x"}}, None, "'r' must be a number"),
    "half a change": ({}, {FIRST: WRONG[FIRST]}, "expected both factors"),
    "nothing": ({}, {"base_model.model.lm_head.weight": np.ones((11, 8))}, "no low-rank factors"),
    "a tensor of nobody": ({}, {**WRONG, "x": np.ones(2)}, "'x' is no tensor of an adapter"),
    "another model's": ({}, {n.replace("layers.1", "layers.7"): a for n, a in WRONG.items()}, "which the model has not"),
    "another size": ({}, {n: a[:, :2] if "lora_A" in n else a for n, a in WRONG.items()}, "of shape .* by .*another model"),
    "factors of three axes": ({}, {n: a[None] for n, a in WRONG.items()}, "factors of shapes"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_adapter_of_this_model_is_refused(tmp_path: Path, base: Path, case: str) -> None:
    own, tensors, said = REFUSED[case]
    with pytest.raises(LoadError, match=said):
        px.load(base, adapter=adapter(tmp_path / "a", tensors, **own))


def test_folders_and_values_that_are_none(tmp_path: Path, base: Path) -> None:
    (tmp_path / "all").mkdir()
    adapter(tmp_path / "all" / "one")
    with pytest.raises(LoadError, match=r"no folder with adapter_config.json .*folders of adapters: 'one'"):
        px.load(base, adapter=tmp_path / "all")
    folder = adapter(tmp_path / "a")
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(LoadError, match=r"it has no adapter_model.safetensors"):
        px.load(base, adapter=folder)
    for value in (3, {"a": 1}, [3]):
        with pytest.raises(LoadError, match="adapter: expected the folder"):
            px.load(base, adapter=value)
    with pytest.raises(LoadError, match="nothing open that adapter would decide"):
        px.load("attn-1l", adapter=folder)


def test_a_table_of_a_tied_model_is_not_changed_on_one_side(tmp_path: Path) -> None:
    config = {**checkpoints.LLAMA, "tie_word_embeddings": True}
    folder = checkpoints.folder(tmp_path / "tied", config, checkpoints.llama_arrays(config))
    table = "base_model.model.model.embed_tokens.lora_embedding_"
    tensors = {table + "A": np.ones((3, 11)), table + "B": np.ones((8, 3))}
    with pytest.raises(LoadError, match=r"'model.embed_tokens.weight' is both tables .*merge_and_unload"):
        px.load(folder, adapter=adapter(tmp_path / "a", tensors))
    untied = px.load(checkpoints.folder(tmp_path / "base"), adapter=tmp_path / "a")
    expected = BASE["model.embed_tokens.weight"].T + 5 / 3 * np.ones((8, 3)) @ np.ones((3, 11))
    np.testing.assert_allclose(np.asarray(untied.weights.W_E), expected, atol=1e-12)


def test_the_command_line_takes_adapters(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["expand", str(base), "--tokens", "1,2,3", "--mlp", "source", "--top", "1"]
    shown = []
    for more in ([], ["--adapter", str(adapter(tmp_path / "a"))]):
        assert main([*command, *more]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] != shown[1] and "paths add up to the forward pass" in shown[1]
