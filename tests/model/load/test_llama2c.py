"""Models of llama2.c, trained and made up."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from pathexp.errors import LoadError
from pathexp.model.load.llama2c import load_llama2c, open_llama2c_tokenizer
from tests.shared_models import shared_file

SIZES = {"d": 8, "m": 6, "layers": 2, "heads": 4, "kv": 2, "vocab": 11, "n_ctx": 10}


def arrays(tied: bool = True, seed: int = 0) -> dict[str, np.ndarray]:
    """In the order of the file, rows as outputs."""
    rng = np.random.default_rng(seed)
    s, kv = SIZES, SIZES["d"] // 2
    L, d, m, v = s["layers"], s["d"], s["m"], s["vocab"]
    shapes = {
        "embed": (v, d), "norm1": (L, d), "q": (L, d, d), "k": (L, kv, d), "v": (L, kv, d), "o": (L, d, d),
        "norm2": (L, d), "w1": (L, m, d), "w2": (L, d, m), "w3": (L, m, d), "norm": (d,),
        "rotary": (2, s["n_ctx"], d // s["heads"] // 2),
    }  # fmt: skip
    if not tied:
        shapes["head"] = (v, d)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def written(path: Path, content: dict[str, np.ndarray]) -> Path:
    s = SIZES
    vocab = -s["vocab"] if "head" in content else s["vocab"]
    header = struct.pack("<7i", s["d"], s["m"], s["layers"], s["heads"], s["kv"], vocab, s["n_ctx"])
    path.write_bytes(header + b"".join(array.tobytes() for array in content.values()))
    return path


@pytest.mark.parametrize("tied", [True, False])
def test_arrays_are_found_in_their_order(tmp_path: Path, tied: bool) -> None:
    content = arrays(tied)
    model = px.load(written(tmp_path / "x.bin", content))
    w, c = model.weights, model.config
    assert (c.tied, c.n_kv_heads, c.d_head, c.norm_eps) == (tied, 2, 2, 1e-5)
    assert (c.rotary.pairing, c.rotary.base) == ("adjacent", 10000.0)
    np.testing.assert_array_equal(w.W_E.T, content["embed"])
    np.testing.assert_array_equal(w.W_U, content["embed" if tied else "head"])
    np.testing.assert_array_equal(w.W_K[1, 1], content["k"][1, 2:4])
    np.testing.assert_array_equal(w.W_O[1, 3], content["o"][1][:, 6:8])
    np.testing.assert_array_equal(w.W_gate, content["w1"])
    np.testing.assert_array_equal(w.W_out, content["w2"])
    np.testing.assert_array_equal(w.W_in, content["w3"])
    np.testing.assert_array_equal(w.g_final, content["norm"])
    assert px.expand(model.run([1, 2, 3])).verify().ok


def test_sizes_and_bytes_must_agree(tmp_path: Path) -> None:
    path = written(tmp_path / "x.bin", arrays())
    whole = path.read_bytes()
    for content in (whole[:-4], whole + bytes(4)):
        path.write_bytes(content)
        with pytest.raises(LoadError, match=r"first seven numbers .* make [\d,]+ bytes, but it has"):
            px.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it has 0 bytes"),
        (b"PK\x03\x04" + bytes(60), "a torch file is a Python pickle.*refused"),
        (b"\x80\x02}q\x00." + bytes(60), "a Python pickle"),
        (struct.pack("<Ii", 0x616B3432, 1) + bytes(60), "later format of llama2.c"),
        (struct.pack("<7i", 8, 6, 2, 3, 2, 11, 10), "it is no model of llama2.c: its first seven numbers"),
        (struct.pack("<7i", 8, 6, 0, 4, 2, 11, 10), "it is no model"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=message):
        px.load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="No such file"):
        load_llama2c(tmp_path / "x.bin")


def tokens(pieces: list[bytes]) -> bytes:
    return struct.pack("<i", 9) + b"".join(
        struct.pack("<fi", -float(i), len(p)) + p for i, p in enumerate(pieces)
    )


def test_tokens_beside_the_model(tmp_path: Path) -> None:
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", b"<0x0A>", b" ", b"a", b"b", b" a", b"ab", b"\xe2\x96", b"c"]
    (tmp_path / "x.tokenizer.bin").write_bytes(tokens(pieces))
    model = px.load(written(tmp_path / "x.bin", arrays()))
    assert model.run("ab").token_strings == ("<s>", " a", "b")
    assert model.decode([1, 7, 6, 3]) == "ab\n"


@pytest.mark.parametrize(
    "content", [b"", tokens([b"a"] * 10), tokens([b"a"] * 12), struct.pack("<ifi", 1, 0.0, 99)]
)
def test_tokens_that_do_not_fit(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.bin"
    path.write_bytes(content)
    with pytest.raises(LoadError, match="no list of 11 tokens"):
        open_llama2c_tokenizer(path, 11)


# Trained weights -----------------------------------------------------------------------------------------------


def test_a_trained_model_tells_a_story() -> None:
    model = px.load(shared_file("stories260K.bin"))
    ids = model.encode("Once upon a time")
    assert model.tokenizer.strings(ids) == ("<s>", " Once", " upon", " a", " time")
    for _ in range(40):
        ids.append(model.run(ids).top_token())
    story = model.decode(ids)
    assert story.startswith(
        "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    )


def test_its_begin_token_alone_starts_the_same_story() -> None:
    model = px.load(shared_file("stories260K.bin"))
    ids = [1]
    for _ in range(5):
        ids.append(model.run(ids).top_token())
    assert model.decode(ids) == "Once upon a time,"


@pytest.mark.parametrize("mlp", ["gate", "source"])
def test_its_paths_add_up(mlp: str) -> None:
    trace = px.load(shared_file("stories260K.bin")).run("Lily saw a big red ball")
    assert px.expand(px.freeze(trace, mlp=mlp)).verify().ok
