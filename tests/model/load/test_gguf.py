"""GGUF files, written with the package and read back."""

from __future__ import annotations

import struct
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import LoadError, LoadWarning
from pathexp.model import Model, Rotary, random_model
from pathexp.model.load.gguf_keys import shortest

pytest.importorskip("gguf")

import gguf

from tests.model.load.gguf_writing import add

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5]
PARTS = {"W_Q": "attn_q", "W_K": "attn_k", "W_V": "attn_v", "W_O": "attn_output", "W_in": "ffn_up", "W_gate": "ffn_gate",
         "W_out": "ffn_down", "b_Q": "attn_q", "b_K": "attn_k", "b_V": "attn_v", "g_attn": "attn_norm",
         "g_mlp": "ffn_norm", "g_q": "attn_q_norm", "g_k": "attn_k_norm"}  # fmt: skip
SIZES: dict[str, Any] = {"heads": 4, "kv_heads": 2, "d_model": 32, "d_head": 8, "d_mlp": 64, "gated": True,
                         "activation": "silu", "positions": "rotary", "norm": "rmsnorm"}  # fmt: skip


def model_of(kind: str, **switches: Any) -> Model:
    """A model such as an architecture of GGUF has, with numbers that float32 holds."""
    pairing = "adjacent" if kind == "llama" else "half"
    model = random_model(biases=True, rotary=Rotary(base=500.0, pairing=pairing), **SIZES, **switches)
    dropped = ("b_O", "b_in", "b_out", "b_gate", "b_U") + (() if kind == "qwen2" else ("b_Q", "b_K", "b_V"))
    kept = {
        name: array.astype(np.float32)
        for name, array in model.weights.arrays().items()
        if name not in dropped
    }
    return Model(model.config, type(model.weights)(**kept), name=kind)


def tensors_of(model: Model) -> dict[str, np.ndarray]:
    """The arrays under GGUF's names, rows as outputs."""
    c, found = model.config, {}
    for name, array in model.weights.arrays().items():
        kind = "bias" if name.startswith("b_") else "weight"
        if name in PARTS:
            for layer, one in enumerate(array):
                found[f"blk.{layer}.{PARTS[name]}.{kind}"] = rows(name, one, c.d_model)
    found |= {"token_embd.weight": model.weights.W_E.T, "output_norm.weight": model.weights.g_final}
    return found if c.tied else found | {"output.weight": model.weights.W_U}


def rows(name: str, array: np.ndarray, d_model: int) -> np.ndarray:
    if name == "W_O":
        return array.transpose(1, 0, 2).reshape(d_model, -1)
    if name in ("W_Q", "W_K", "W_V"):
        return array.reshape(-1, d_model)
    return array.ravel() if name.startswith("b_") else array


def fields_of(model: Model, kind: str) -> dict[str, Any]:
    """The keys of an architecture, without its name in front."""
    c = model.config
    return {
        "block_count": c.n_layers, "context_length": c.n_ctx, "embedding_length": c.d_model,
        "feed_forward_length": c.d_mlp, "attention.head_count": c.n_heads, "attention.head_count_kv": c.n_kv_heads,
        "attention.key_length": c.d_head, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 500.0,
        "vocab_size": c.d_vocab,
    }  # fmt: skip


def written(
    path: Path, kind: str, fields: dict[str, Any], tensors: dict[str, np.ndarray], tokens: dict[str, Any] | None = None,
    packed: str | None = None,
) -> Path:  # fmt: skip
    writer = gguf.GGUFWriter(path, kind)
    for name, value in fields.items():
        if value is not None:
            add(writer, f"{kind}.{name}", value)
    for name, value in (tokens or {}).items():
        add(writer, f"tokenizer.ggml.{name}", value)
    for name, array in tensors.items():
        plain = np.ascontiguousarray(array, dtype=np.float32)
        if packed and plain.ndim == 2 and plain.shape[1] % 32 == 0:
            form = getattr(gguf.GGMLQuantizationType, packed)
            writer.add_tensor(name, gguf.quants.quantize(plain, form), raw_dtype=form)
        else:
            writer.add_tensor(name, plain)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(autouse=True)
def no_warning_for_missing_tokens() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*tokenizer model None.*", LoadWarning)
        yield


@pytest.mark.parametrize(
    ("kind", "switches"),
    [("llama", {}), ("llama", {"tied": True}), ("qwen2", {}), ("qwen3", {"qk_norm": "head"})],
)
def test_what_was_written_is_read(tmp_path: Path, kind: str, switches: dict[str, Any]) -> None:
    model = model_of(kind, **switches)
    again = px.load(written(tmp_path / "x.gguf", kind, fields_of(model, kind), tensors_of(model)))
    assert again.config == model.config
    for name, array in model.weights.arrays().items():
        np.testing.assert_array_equal(getattr(again.weights, name), array)
    np.testing.assert_allclose(again.run(TOKENS).logits, model.run(TOKENS).logits, rtol=1e-12)


@pytest.mark.parametrize(("packed", "error"), [("F16", 1e-3), ("BF16", 8e-3), ("Q8_0", 2e-2), ("Q4_1", 0.2)])
def test_packed_numbers_are_unpacked(tmp_path: Path, packed: str, error: float) -> None:
    model = model_of("llama")
    path = written(tmp_path / "x.gguf", "llama", fields_of(model, "llama"), tensors_of(model), packed=packed)
    found = px.load(path).weights.W_in
    assert np.abs(found - model.weights.W_in).max() < error * np.abs(model.weights.W_in).max()
    assert not np.array_equal(found, model.weights.W_in)


def test_scaled_rotary_positions(tmp_path: Path) -> None:
    model = model_of("llama")
    fields = fields_of(model, "llama") | {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    assert (
        px.load(written(tmp_path / "x.gguf", "llama", fields, tensors_of(model))).config.rotary.scaling.factor
        == 4.0
    )
    fields |= {"rope.scaling.type": "yarn", "rope.scaling.original_context_length": 10}
    scaling = px.load(written(tmp_path / "y.gguf", "llama", fields, tensors_of(model))).config.rotary.scaling
    assert (scaling.factor, scaling.original_n_ctx) == (4.0, 10)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"expert_count": 8}, "'expert_used_count' must be a whole number"),
        ({"attention.temperature_scale": 8.0}, r"'attention\.temperature_scale' may change the computation"),
        ({"attention.value_length": 4}, r"'attention\.value_length' is 4, known is 8"),
        ({"vocab_size": 12}, "'vocab_size' is 12, known is 11"),
        ({"rope.scaling.type": "longrope", "rope.scaling.factor": 2.0}, r"rope\.scaling\.type 'longrope'"),
        ({"block_count": None}, "'block_count' must be a whole number"),
        ({"block_count": 2**31}, "2,147,483,648 layers, but there are 21 tensors in all"),
        ({"block_count": 3}, r"'blk\.2\.attn_q\.weight' is missing"),
        ({"block_count": 1}, r"have no place in this architecture: 'blk\.1\.attn_k"),
    ],
)
def test_keys_that_are_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    model = model_of("llama")
    path = written(tmp_path / "x.gguf", "llama", fields_of(model, "llama") | fields, tensors_of(model))
    with pytest.raises(LoadError, match=message):
        px.load(path)


def test_a_missing_rotary_base_is_a_warning(tmp_path: Path) -> None:
    model = model_of("llama")
    path = written(
        tmp_path / "x.gguf", "llama", fields_of(model, "llama") | {"rope.freq_base": None}, tensors_of(model)
    )
    with pytest.warns(LoadWarning, match=r"rope\.freq_base = 10000\.0: assumed"):
        px.load(path)


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    model = model_of("llama")
    path = written(tmp_path / "x.gguf", "mamba", fields_of(model, "llama"), tensors_of(model))
    with pytest.raises(LoadError, match="architecture 'mamba' is not known; known: llama, qwen2, qwen3"):
        px.load(path)


def test_extra_tensors_are_refused(tmp_path: Path) -> None:
    model = model_of("llama")
    tensors = tensors_of(model) | {"blk.0.attn_sinks.weight": np.ones(4)}
    with pytest.raises(LoadError, match=r"no place in this architecture: 'blk\.0\.attn_sinks\.weight'"):
        px.load(written(tmp_path / "x.gguf", "llama", fields_of(model, "llama"), tensors))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    model = model_of("llama")
    path = written(tmp_path / "x.gguf", "llama", fields_of(model, "llama"), tensors_of(model))
    whole = path.read_bytes()
    for content in (b"", b"GGUF", b"none of it" * 9, whole[:300], whole[:-100]):
        path.write_bytes(content)
        with pytest.raises(LoadError, match="no GGUF file, or damaged"):
            px.load(path)


def test_an_array_of_2_to_the_40_entries_in_49_bytes_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """R-05: what a length claims is compared with the file before anything is read or made."""
    path = tmp_path / "claims.gguf"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    path.write_bytes(head + struct.pack("<Q1sIIQ", 1, b"k", 9, 0, 2**40))
    assert path.stat().st_size == 49
    tracemalloc.start()
    with pytest.raises(LoadError, match=r"claims\.gguf"):
        px.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


def test_tensors_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """The second tensor's offset is made that of the first."""
    model = model_of("llama")
    path = written(tmp_path / "x.gguf", "llama", fields_of(model, "llama"), tensors_of(model))
    content, name = bytearray(path.read_bytes()), b"blk.0.attn_v.weight"
    offset = content.index(name) + len(name) + 4 + 2 * 8 + 4  # after the axes and the kind
    content[offset : offset + 8] = bytes(8)
    path.write_bytes(content)
    with pytest.raises(LoadError, match=r"'blk\.0\.attn_v\.weight'.*overlap"):
        px.load(path)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(LoadError, match=r"need the package 'gguf': .* -m pip install '.*\[gguf\]'"):
        px.load(tmp_path / "x.gguf")


# Tokens --------------------------------------------------------------------------------------------------------

PIECES = ["<s>", "▁", "a", "b", "ab", "▁ab", "<0x0A>", "c", "d", "e", "f"]
SCORED = {"model": "llama", "tokens": PIECES, "scores": [0.0, 0.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], "bos_token_id": 0,
          "token_type": [3] + [1] * 10}  # fmt: skip
MERGED = {"model": "gpt2", "pre": "smollm", "tokens": ["<|end|>", "Ġ", "a", "b", "ab", "Ġab", "1", "2", "3", "12", "Ċ"],
          "merges": ["a b", "Ġ ab", "1 2"], "token_type": [3] + [1] * 10, "bos_token_id": 0}  # fmt: skip


def with_tokens(path: Path, tokens: dict[str, Any]) -> Model:
    model = model_of("llama")
    return px.load(written(path, "llama", fields_of(model, "llama"), tensors_of(model), tokens))


def test_scored_pieces(tmp_path: Path) -> None:
    model = with_tokens(tmp_path / "x.gguf", SCORED)
    assert model.run("ab").token_strings == ("<s>", " ab")
    plain = with_tokens(tmp_path / "y.gguf", SCORED | {"add_bos_token": False, "add_space_prefix": False})
    assert plain.run("ab").token_strings == ("ab",)


def test_merges_of_bytes(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    model = with_tokens(tmp_path / "x.gguf", MERGED)
    assert model.run("ab ab12\n").token_strings == ("ab", " ab", "1", "2", "\n")  # digits stay apart
    assert model.run("<|end|>ab").token_strings == ("<|end|>", "ab")
    begun = with_tokens(tmp_path / "y.gguf", MERGED | {"pre": "gpt-2", "add_bos_token": True})
    assert begun.run("ab12").token_strings == ("<|end|>", "ab", "12")


@pytest.mark.parametrize("tokens", [MERGED | {"pre": "mine"}, MERGED | {"model": "morse"}])
def test_unknown_tokenizers_leave_ids(tmp_path: Path, tokens: dict[str, Any]) -> None:
    with pytest.warns(LoadWarning, match="is not known.*Text does not work; token ids do"):
        model = with_tokens(tmp_path / "x.gguf", tokens)
    assert model.tokenizer is None
    assert len(model.run(TOKENS)) == 9


def test_lists_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"tokenizer\.ggml\.scores must be a list"):
        with_tokens(tmp_path / "x.gguf", {key: value for key, value in SCORED.items() if key != "scores"})


@pytest.mark.parametrize(("stored", "meant"), [(9.999999747378752e-06, 1e-5), (500000.0, 5e5), (0.5, 0.5)])
def test_the_number_that_was_meant(stored: float, meant: float) -> None:
    """float32 stands for the shortest decimal number that rounds to it."""
    assert shortest(stored) == meant
