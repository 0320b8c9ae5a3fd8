"""Arrays under anybody's names, laid out in anybody's way, by a mapping; and files of them with a small header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.errors import LoadError
from pathexp.model.load.axes import axis_sizes, our_axes
from pathexp.model.weights import Weights, expected
from tests.cases.test_microgpt import Run, ids
from tests.model.load.checkpoints import write
from tests.shared_models import induction_2l_1h, shared_file
from tests.zoo import FAMILIES, ZOO

HEADERS = Path(__file__).resolve().parents[3] / "examples" / "headers"
TOKENS = [3, 1, 4, 1, 5]
MODEL = px.random_model(
    layers=3, heads=4, kv_heads=2, d_model=14, d_head=3, d_vocab=11, n_ctx=9, d_mlp=17, gated=True, activation="silu",
    norm="layernorm", positions="learned", biases=True, seed=5,
)  # fmt: skip
W = {name: np.asarray(array) for name, array in MODEL.weights.arrays().items()}

# One array of theirs, from ours, by the words that say how it is laid out.
LAYOUTS: dict[str, tuple[str, Any]] = {
    "W_E": ("wte: vocab d_model", lambda w: w["W_E"].T),
    "W_pos": ("wpe: ctx d_model", lambda w: w["W_pos"].T),
    "W_Q W_K W_V": (
        "h.{layer}.attn.weight: d_model (head+kv_head+kv_head d_head)",
        lambda w, l: np.concatenate([w[n][l].reshape(-1, 14) for n in ("W_Q", "W_K", "W_V")]).T,
    ),
    "b_Q": ("h.{layer}.q.bias: (d_head head)", lambda w, l: w["b_Q"][l].T.reshape(-1)),
    "b_K b_V": ("kv.bias: layer kv_head (part d_head)", lambda w: np.concatenate([w["b_K"], w["b_V"]], axis=-1)),
    "W_O": ("h.{layer}.o: d_model (head d_head)", lambda w, l: np.concatenate(list(w["W_O"][l]), axis=-1)),
    "b_O": ("h.{layer}.o.bias", lambda w, l: w["b_O"][l]),
    "W_gate W_in": ("mlp.{layer}.up: (part d_mlp) d_model", lambda w, l: np.concatenate([w["W_gate"][l], w["W_in"][l]])),
    "b_gate b_in": ("mlp.{layer}.b: (d_mlp part)", lambda w, l: np.stack([w["b_gate"][l], w["b_in"][l]], -1).ravel()),
    "W_out": ("mlp.out: layer d_mlp d_model", lambda w: w["W_out"].swapaxes(1, 2)),
    "b_out": ("mlp.{layer}.out.bias: d_model", lambda w, l: w["b_out"][l]),
    "g_attn": ("ln1.{layer}", lambda w, l: w["g_attn"][l]),
    "b_attn": ("ln1b: d_model layer", lambda w: w["b_attn"].T),
    "g_mlp": ("ln2.{layer}", lambda w, l: w["g_mlp"][l]),
    "b_mlp": ("ln2.{layer}.b", lambda w, l: w["b_mlp"][l]),
    "g_final": ("lnf", lambda w: w["g_final"]),
    "b_final": ("lnf.b", lambda w: w["b_final"]),
    "W_U": ("head: d_model vocab", lambda w: w["W_U"].T),
    "b_U": ("head.b", lambda w: w["b_U"]),
}  # fmt: skip
NAMES = {ours: words for ours, (words, _) in LAYOUTS.items()}


def theirs() -> dict[str, np.ndarray]:
    found = {}
    for words, make in LAYOUTS.values():
        name = words.rpartition(":")[0] if ":" in words else words
        if "{layer}" in name:
            found |= {name.replace("{layer}", str(l)): make(W, l) for l in range(3)}
        else:
            found[name] = make(W)
    return found


def same(found: px.Model, model: px.Model = MODEL) -> None:
    for name, array in model.weights.arrays().items():
        np.testing.assert_array_equal(getattr(found.weights, name), array, err_msg=name)
    np.testing.assert_array_equal(found.run(TOKENS).logits, model.run(TOKENS).logits)


def test_every_layout_is_turned_into_ours() -> None:
    assert {name for names in NAMES for name in names.split()} == set(W)
    for config in (MODEL.config, MODEL.config.to_dict()):
        same(px.load(theirs(), names=NAMES, config=config))


def test_axes_are_known_for_every_array_of_every_configuration() -> None:
    seen = set()
    for make in {**ZOO, **FAMILIES}.values():
        config = make().config
        sizes = axis_sizes(config)
        for name, place in expected(config).items():
            axes = our_axes(name, place.shape, config.latent is not None)
            assert place.shape == tuple(sizes[axis] for axis in axes) and len(set(axes)) == len(axes)
            seen.add(name)
    experts = {name for name in Weights.__dataclass_fields__ if "expert" in name or "shared" in name}
    assert set(Weights.__dataclass_fields__) - seen - experts <= {
        "W_router",
        "b_router",
        "b_choice",
        "b_q",
        "b_k",
    }


def test_a_fused_tensor_head_by_head_and_head_for_key_value_head() -> None:
    """GPT-NeoX: query, key, value of the first head, then of the second; as many key/value heads as heads."""
    model = px.random_model(layers=1, heads=3, d_model=7, d_head=2, seed=2)
    w = {name: np.asarray(array) for name, array in model.weights.arrays().items()}
    fused = np.stack([w["W_Q"][0], w["W_K"][0], w["W_V"][0]], axis=1).reshape(-1, 7)
    rest = {name: array for name, array in w.items() if name not in ("W_Q", "W_K", "W_V")}
    plain = {
        name: name if name in ("W_E", "W_U", "W_pos") else f"{name}: {' '.join(our_axes(name, array.shape))}"
        for name, array in rest.items()
    }
    same(
        px.load({**rest, "qkv.0": fused}, config=model.config, names={**plain, "W_Q W_K W_V": "qkv.{layer}: (head part d_head) d_model"}),
        model,
    )  # fmt: skip


def test_tied_models_name_one_table_and_spare_arrays_are_ignored_by_name() -> None:
    model = px.random_model(layers=2, heads=2, tied=True, seed=1)
    w = {name: np.asarray(array) for name, array in model.weights.arrays().items() if name != "W_U"}
    names = {
        name: name
        if not name.startswith("W_") or name in ("W_E", "W_pos")
        else f"{name}: {' '.join(our_axes(name, array.shape))}"
        for name, array in w.items()
    }
    given = {**w, "h.0.mask": np.ones(3), "h.1.mask": np.ones(3), "steps": np.ones(1)}
    same(px.load(given, names=names, config=model.config, ignore=("h.{layer}.mask", "st*")), model)
    with pytest.raises(LoadError, match=r"2 tensor\(s\) have no place.*'h.0.mask', 'h.1.mask'"):
        px.load(given, names=names, config=model.config, ignore=("steps",))


def changed(**entries: str | None) -> dict[str, str]:
    spaced = {name.replace("__", " "): words for name, words in entries.items()}
    return {name: words for name, words in {**NAMES, **spaced}.items() if words is not None}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no names": ({"names": 3}, "names: expected a mapping"),
    "no configuration": ({"names": NAMES, "config": None}, "Give config="),
    "another's configuration": ({"config": {"n_layer": 2}}, "Config"),
    "a name that is none of ours": ({"names": changed(W_q="x")}, "'W_q' is no array of this configuration. Did you mean 'W_Q'"),
    "one that has no place": ({"names": changed(W_transform="x")}, "'W_transform' is no array of this configuration"),
    "one named twice": ({"names": changed(W_O__b_O="x: d_model")}, "'W_O' is named 2 times"),
    "one too few": ({"names": changed(W_O=None, W_U=None)}, "nothing says what W_O, W_U are called"),
    "no text": ({"names": changed(W_O=3)}, r"names\['W_O'\]: expected a name of theirs"),  # type: ignore[arg-type]
    "a name of nothing": ({"names": {**NAMES, " ": "x"}}, r"names\[' '\]: expected a name"),
    "parentheses": ({"names": changed(W_O="h.{layer}.o: d_model (head d_head")}, "expected names and groups"),
    "nested": ({"names": changed(W_O="h.{layer}.o: ((head) d_head) d_model")}, "expected names and groups"),
    "an axis of nothing": ({"names": changed(W_O="h.{layer}.o: d_model (heads d_head)")}, "'heads' is no axis of this model; its axes: "),
    "an axis too few": ({"names": changed(W_O="h.{layer}.o: d_model head")}, "W_O has the axes head d_model d_head; found d_model head"),
    "an axis twice": ({"names": changed(W_O="h.{layer}.o: d_model head head d_head")}, "found d_model head head d_head"),
    "no layer": ({"names": changed(W_O="o: d_model (head d_head)")}, r"Write \{layer\} for the number of the layer, or name the axis"),
    "layers of a table": ({"names": changed(W_E="wte.{layer}")}, r"W_E has no layers, but 'wte.\{layer\}' has"),
    "several without axes": ({"names": changed(b_K__b_V="kv.bias")}, "several arrays in one need axes"),
    "several without a shared axis": ({"names": changed(b_K__b_V="kv.bias: layer kv_head d_head")}, "2 arrays in one need one axis"),
    "parts too few": ({"names": changed(W_Q__W_K__W_V="h.{layer}.attn.weight: d_model (head+kv_head d_head)")}, "has 2 parts for 3 arrays"),
    "parts in another order": ({"names": changed(W_Q__W_K__W_V="h.{layer}.attn.weight: d_model (kv_head+head+kv_head d_head)")}, "W_Q has the axes head d_head d_model"),
    "one with a shared axis": ({"names": changed(W_out="mlp.out: layer part d_mlp d_model")}, "1 arrays in one need one axis"),
    "turned": ({"names": changed(W_E="wte: d_model vocab")}, r"'wte' has shape \[11, 14\], expected \[14, 11\]"),
    "not there": ({"names": changed(W_E="emb: vocab d_model")}, "'emb' is missing.*\n.*'wte'"),
    "an option for files": ({"tie": True}, "named arrays leave nothing open that tie"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_name(case: str) -> None:
    given, said = REFUSED[case]
    with pytest.raises(LoadError, match=said):
        px.load(theirs(), **{"names": NAMES, "config": MODEL.config, **given})


# Files with a header ---------------------------------------------------------------------------------------


def header(**more: Any) -> dict[str, Any]:
    return {"config": MODEL.config.to_dict(), "names": NAMES, **more}


def test_an_npz_with_its_own_header(tmp_path: Path) -> None:
    np.savez(tmp_path / "raw.npz", header=json.dumps(header()), **theirs())
    found = px.load(tmp_path / "raw.npz")
    same(found)
    assert found.name == "raw"
    found.save(tmp_path / "own.npz")
    same(px.load(tmp_path / "own.npz"))


@pytest.mark.parametrize("ending", ["npz", "json", "safetensors"])
def test_files_of_arrays_with_a_header_beside_them(tmp_path: Path, ending: str) -> None:
    path, beside = tmp_path / f"raw.{ending}", tmp_path / "header.json"
    letters = {"kind": "longest-match", "symbols": list("abcdefghijk")}
    more: dict[str, Any] = {"tokenizer": letters, "ignore": ["spare.*"]}
    arrays = {**theirs(), "spare.1": np.ones(2)}
    if ending == "npz":
        np.savez(path, **arrays)
    elif ending == "json":
        path.write_text(
            json.dumps({"of": {"whom": 1}, "weights": {k: v.tolist() for k, v in arrays.items()}})
        )
        more["under"] = "weights"
    else:
        write(path, arrays)
    beside.write_text(json.dumps(header(**more)))
    for given in (beside, str(beside), header(**more)):
        found = px.load(path, header=given)
        same(found)
        assert found.encode("cab") == [2, 0, 1]
    if ending != "json":
        same(px.load(path, names=NAMES, config=MODEL.config, ignore="spare.1"))


BAD: dict[str, tuple[Any, str]] = {
    "no file": ("nowhere.json", "no JSON"),
    "a number": (3, "header: expected a mapping or the path"),
    "an unknown entry": ({"odd": 1}, "header: 'odd' is not known; known: config, names"),
    "a list for names": (header(names=[1]), "header: 'names' must be an object"),
    "a text to ignore": (header(ignore="x"), "'ignore' must be a list"),
    "no configuration": ({"names": NAMES}, "Give config="),
    "a tokenizer of nobody": (header(tokenizer={"kind": "x"}), "Tokenizer kind 'x'"),
    "NaN in a size": (header(config={**MODEL.config.to_dict(), "d_model": float("nan")}), "d_model"),
}


@pytest.mark.parametrize("case", BAD)
def test_headers_that_are_none_are_refused(tmp_path: Path, case: str) -> None:
    given, said = BAD[case]
    np.savez(tmp_path / "raw.npz", **theirs())
    with pytest.raises(LoadError, match=said):
        px.load(tmp_path / "raw.npz", header=tmp_path / given if isinstance(given, str) else given)


def test_what_is_told_twice_or_not_at_all_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "raw.npz", header=json.dumps(header()), **theirs())
    with pytest.raises(LoadError, match="config is told twice"):
        px.load(tmp_path / "raw.npz", config=MODEL.config)
    np.savez(tmp_path / "bare.npz", **theirs())
    with pytest.raises(
        LoadError, match=r"Say what its arrays are: load\(..., header=...\), or --header FILE"
    ):
        px.load(tmp_path / "bare.npz")
    (tmp_path / "x.json").write_text(json.dumps({"a": {"b": 1}}))
    with pytest.raises(LoadError, match=r"'a' is no array of numbers.*Say with 'under'"):
        px.load(tmp_path / "x.json", header={"config": MODEL.config.to_dict(), "names": NAMES})
    with pytest.raises(LoadError, match="'under' is 'c'"):
        px.load(tmp_path / "x.json", header={"config": {}, "under": "c"})
    with pytest.raises(LoadError, match="nothing open that header would decide"):
        px.load("attn-1l", header={})


# The two trained models beside the repository, on the command line -----------------------------------------


def test_the_induction_model_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    path, told = shared_file("induction_2l_1h.npz"), HEADERS / "induction_2l_1h.json"
    np.testing.assert_array_equal(
        px.load(path, header=told).run([7, 4, 11]).logits, induction_2l_1h().run([7, 4, 11]).logits
    )
    assert main(["expand", str(path), "--tokens", "7,4,11,7", "--header", str(told), "--top", "1"]) == 0
    assert "induction_2l_1h: 2 layers × 1 head," in capsys.readouterr().out


def test_the_model_of_names_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    path, told = shared_file("names_1l_microgpt.json"), HEADERS / "names_1l_microgpt.json"
    weights = {
        n.removeprefix("layer0."): np.array(r) for n, r in json.loads(path.read_text())["weights"].items()
    }
    found = px.load(path, header=told)
    np.testing.assert_allclose(found.run(".emma.").logits, Run(weights, ids("emma")).logits, atol=1e-11)
    assert main(["expand", str(path), ".oliv", "--header", str(told), "--top", "1"]) == 0
    assert "paths add up to the forward pass" in capsys.readouterr().out


def test_latent_attention_goes_by_names_of_anybody() -> None:
    """Heads side by side, key and value of each in one array, as DeepSeek stores them; and values of a width of their own."""
    model = FAMILIES["latent-as-wide-as-the-stream"]()
    w, theirs = model.weights.arrays(), {}
    up = np.concatenate([w["W_UK"], w["W_UV"]], axis=2)  # (layer, head, own + value, rank)
    for layer in range(model.config.n_layers):
        theirs[f"h.{layer}.up"] = up[layer].reshape(-1, up.shape[-1])
        theirs[f"h.{layer}.out"] = np.concatenate(list(w["W_O"][layer]), axis=1)
        theirs[f"h.{layer}.down"] = np.concatenate([w["W_DKV"][layer], w["W_KR"][layer]])
    rest = {name: name for name in w if name not in ("W_UK", "W_UV", "W_O", "W_DKV", "W_KR")}
    theirs |= {name: w[name] for name in rest}
    names = rest | {
        "W_UK W_UV": "h.{layer}.up: (head d_own+d_value) d_latent",
        "W_O": "h.{layer}.out: d_model (head d_value)",
        "W_DKV W_KR": "h.{layer}.down: d_latent+d_turned d_model",
    }
    ours = px.load(theirs, names=names, config=model.config)
    np.testing.assert_array_equal(ours.run([1, 2, 3]).logits, model.run([1, 2, 3]).logits)
