"""Every packing that the package unpacks comes out bit for bit; what it does not unpack is refused by name."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pathexp.errors import LoadError, WeightsError

gguf = pytest.importorskip("gguf")

import pathexp as px  # noqa: E402
from pathexp.model.load import gguf_packings  # noqa: E402
from pathexp.model.load.gguf_blocks import BLOCKS  # noqa: E402
from pathexp.model.load.gguf_file import GgufFile, open_gguf  # noqa: E402
from pathexp.model.load.gguf_header import Damaged, Place  # noqa: E402
from tests.model.load import gguf_writing as writing  # noqa: E402
from tests.model.load.gguf_writing import CASES  # noqa: E402

FORMS = gguf.GGMLQuantizationType
PLAIN = {FORMS.F32, FORMS.F16}
QUANTIZED = sorted((form for form in FORMS if form in gguf.quants._type_traits), key=lambda form: form.name)
INTEGERS = ("I8", "I16", "I32", "I64")
NOT_UNPACKED = [
    form for form in FORMS if form not in {*QUANTIZED, *PLAIN, FORMS.F64} and form.name not in INTEGERS
]
HALF_SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208], "TQ1_0": [52], "TQ2_0": [64], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0],
    "IQ3_S": [0], "IQ1_S": [0], "IQ4_NL": [0], "IQ4_XS": [0],
}  # fmt: skip
"""Where the scales of half precision are in a block, in bytes. ggml-org/ggml, src/ggml-common.h."""


def of_bytes(path: Path, raw: np.ndarray, form: Any) -> GgufFile:
    """A file of one tensor `x` with these rows of bytes."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("x", raw, raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return open_gguf(path)


def rows_of(form: Any, rows: int, blocks: int, seed: int = 0) -> np.ndarray:
    """Random bytes whose scales are finite numbers; all other bytes are any."""
    size = gguf.GGML_QUANT_SIZES[form][1]
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for at in HALF_SCALES.get(form.name, ()):
        scales = (rng.standard_normal((rows, blocks)) * 10.0 ** rng.integers(-7, 4, (rows, blocks))).astype(
            np.float16
        )
        raw[:, :, at : at + 2] = scales.view(np.uint8).reshape(rows, blocks, 2)
    if form.name == "BF16":
        raw = (
            (rng.standard_normal((rows, blocks * 64)).astype(np.float32).view(np.uint32) >> 16)
            .astype(np.uint16)
            .view(np.uint8)
        )
    if form.name == "MXFP4":
        raw[:, :, 0] = rng.integers(0, 250, (rows, blocks))
    if form.name == "NVFP4":
        raw[:, :, :4] = rng.integers(0, 0x7F, (rows, blocks, 4))
    if form.name == "IQ1_M":  # four high nibbles of its scales make one number of half precision
        raw[:, :, 55] = raw[:, :, 55] & 0x0F | 0x20
    return raw.reshape(rows, -1)


@pytest.mark.parametrize("form", QUANTIZED, ids=lambda form: form.name)
def test_rows_are_unpacked_bit_for_bit(tmp_path: Path, form: Any) -> None:
    raw = rows_of(form, rows=19, blocks=3)
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(raw, form)
    file = of_bytes(tmp_path / "x.gguf", raw, form)
    assert wanted.shape == file.shapes["x"] and np.isfinite(wanted).all() and len(np.unique(wanted)) > 3
    assert file.read("x").tobytes() == wanted.tobytes()
    assert file.rows("x", 5, 18).tobytes() == wanted[5:18].tobytes()
    assert file.rows("x", 7, 7).shape == (0, wanted.shape[1])


@pytest.mark.parametrize("form", QUANTIZED, ids=lambda form: form.name)
def test_layers_as_they_are_stored_are_unpacked_bit_for_bit(tmp_path: Path, form: Any) -> None:
    """Through the whole way: a model whose matrices of the MLP are packed so, one layer asked for."""
    width = gguf.GGML_QUANT_SIZES[form][0]
    case = CASES["llama"]
    tensors = writing.tensors_of(case, writing.arrays_of(case.config))
    rng = np.random.default_rng(3)
    packed = {
        f"blk.{layer}.ffn_down.weight": rows_of(form, 24, 256 // width or 1, layer) for layer in range(3)
    }
    m = gguf.quant_shape_from_byte_shape(packed["blk.0.ffn_down.weight"].shape, form)[1]
    others = {
        name: rng.standard_normal((m, 24))
        for name in tensors
        if name.split(".")[-2] in ("ffn_up", "ffn_gate")
    }
    path = tmp_path / "x.gguf"
    _write(path, {**case.fields, "feed_forward_length": m}, {**tensors, **others}, packed, form)
    weights = px.load(path).weights
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(packed["blk.1.ffn_down.weight"], form).astype(np.float64)
    assert np.asarray(weights.W_out[1]).tobytes() == wanted.tobytes()


def _write(
    path: Path, fields: dict[str, Any], tensors: dict[str, Any], packed: dict[str, np.ndarray], form: Any
) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in fields.items():
        writing.add(writer, f"llama.{name}", value)
    writer.add_string("tokenizer.ggml.model", "none")
    for name, array in tensors.items():
        if name in packed:
            writer.add_tensor(name, packed[name], raw_dtype=form)
        else:
            writer.add_tensor(name, np.ascontiguousarray(array, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_rows_go_along_the_first_axis(tmp_path: Path) -> None:
    """Of three axes too, as experts are stored."""
    stored = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float32)
    file = of_bytes(tmp_path / "x.gguf", stored, FORMS.F32)
    np.testing.assert_array_equal(file.rows("x", 1, 3), stored[1:3])
    np.testing.assert_array_equal(file.read("x"), stored)
    assert file.rows("x", 2, 2).shape == (0, 3, 5)


def test_plain_numbers_keep_all_their_bits(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 5))
    for form, dtype in ((FORMS.F64, np.float64), (FORMS.F32, np.float32), (FORMS.F16, np.float16)):
        stored = numbers.astype(dtype)
        found = of_bytes(tmp_path / f"{form.name}.gguf", stored, form).read("x")
        assert np.array_equal(found, stored) and found.dtype == (
            np.float64 if form == FORMS.F64 else np.float32
        )


@pytest.mark.parametrize("name", HALF_SCALES)
@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan])
def test_scales_that_are_not_finite_are_named_when_they_are_used(
    tmp_path: Path, name: str, scale: float
) -> None:
    form = FORMS[name]
    case = CASES["llama"]
    raw = rows_of(form, 24, 256 // gguf.GGML_QUANT_SIZES[form][0] or 1)
    blocks = raw.reshape(24, -1, gguf.GGML_QUANT_SIZES[form][1])
    at = HALF_SCALES[name][0]
    blocks[7, 0, at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    m = gguf.quant_shape_from_byte_shape(raw.shape, form)[1]
    tensors = writing.tensors_of(case, writing.arrays_of(case.config))
    wide = {n: np.ones((m, 24)) for n in tensors if n.split(".")[-2] in ("ffn_up", "ffn_gate")}
    _write(
        tmp_path / "x.gguf",
        {**case.fields, "feed_forward_length": m},
        {**tensors, **wide},
        {f"blk.{i}.ffn_down.weight": raw for i in range(3)},
        form,
    )
    model = px.load(tmp_path / "x.gguf")
    with pytest.raises(
        WeightsError, match=r"W_out has \d+ numbers that are not finite, the first (inf|-inf|nan) at \(0, 7"
    ):
        model.run([3, 1])


@pytest.mark.parametrize(("name", "at", "byte"), [("MXFP4", 0, 0xFF), ("NVFP4", 2, 0x7F)])
def test_scales_that_are_no_number_but_would_pass_for_one_are_refused(
    tmp_path: Path, name: str, at: int, byte: int
) -> None:
    if name not in FORMS.__members__:
        pytest.skip("this version of the package does not have it")
    form = FORMS[name]
    raw = rows_of(form, 3, 2)
    raw.reshape(3, 2, -1)[1, 1, at] = byte
    file = of_bytes(tmp_path / "x.gguf", raw, form)
    file.rows("x", 0, 1)
    with pytest.raises(
        LoadError,
        match=r"'x' cannot be unpacked: block 3 of what was asked for has a scale that is not a number",
    ):
        file.read("x")


@pytest.mark.parametrize("form", NOT_UNPACKED, ids=lambda form: form.name)
def test_what_the_package_cannot_unpack_is_refused_by_name_before_anything_is_read(
    tmp_path: Path, form: Any
) -> None:
    size = gguf.GGML_QUANT_SIZES[form][1]
    with pytest.raises(
        LoadError, match=rf"'x' packed as {form.name}, which the package 'gguf' cannot unpack"
    ):
        of_bytes(tmp_path / "x.gguf", np.zeros((2, size), np.uint8), form)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_no_weights(tmp_path: Path, name: str) -> None:
    with pytest.raises(LoadError, match=f"'x' holds {name}, no plain real numbers"):
        of_bytes(tmp_path / "x.gguf", np.zeros((2, 4), name.lower().replace("i", "int")), FORMS[name])


@pytest.mark.parametrize(("packing", "name"), [(36, "IQ4_NL_4_4"), (4, "Q4_2"), (99, "number 99")])
def test_packings_of_other_versions_are_refused_by_name(tmp_path: Path, packing: int, name: str) -> None:
    of_bytes(tmp_path / "x.gguf", np.zeros((2, 4), np.float32), FORMS.F32)
    content = bytearray((tmp_path / "x.gguf").read_bytes())
    at = content.index(struct.pack("<Q1s", 1, b"x")) + 9 + 4 + 16
    content[at : at + 4] = struct.pack("<I", packing)
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(
        LoadError, match=f"packed as {name}, which this version of the package 'gguf' does not know"
    ):
        open_gguf(tmp_path / "x.gguf")


def test_a_scale_beside_a_matrix_multiplies_it(tmp_path: Path) -> None:
    case = CASES["llama"]
    tensors = writing.tensors_of(case, writing.arrays_of(case.config))
    plain = px.load(writing.write(tmp_path / "x.gguf", "llama", case.fields, tensors, {"model": "none"}))
    beside = {"blk.1.attn_q.scale": np.array([0.5]), "blk.1.attn_q.input_scale": np.array([3.0])}
    scaled = px.load(
        writing.write(tmp_path / "y.gguf", "llama", case.fields, tensors | beside, {"model": "none"})
    )
    np.testing.assert_array_equal(scaled.weights.W_Q[1], 0.5 * np.asarray(plain.weights.W_Q[1]))
    np.testing.assert_array_equal(scaled.weights.W_Q[0], plain.weights.W_Q[0])
    wide = tensors | {"blk.1.attn_q.scale": np.ones(40)}
    with pytest.raises(LoadError, match=r"no place in this architecture: 'blk\.1\.attn_q\.scale'"):
        px.load(writing.write(tmp_path / "z.gguf", "llama", case.fields, wide, {"model": "none"}))


def test_an_older_package_is_told_by_the_name_of_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    older = SimpleNamespace(GGMLQuantizationType=lambda number: (_ for _ in ()).throw(ValueError(number)))
    assert gguf_packings.name_of(older, 40) == "NVFP4"
    with pytest.raises(Damaged, match="packed as number 99"):
        gguf_packings.row_bytes(gguf, Place((2, 4), 99, 0))


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_blocks_unpacked_here_are_the_packages_numbers_to_the_last_bit(name: str) -> None:
    """Random bytes, scales that are infinite or no number among them, and every half byte beside every scale's sign."""
    form = gguf.GGMLQuantizationType[name]
    size = gguf.GGML_QUANT_SIZES[form][1]
    raw = np.random.default_rng(0).integers(0, 256, 4_000 * size, dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = np.asarray(gguf.quants.dequantize(raw[None], form))[0]
        found = BLOCKS[name](raw).reshape(-1)
    assert found.dtype == expected.dtype == np.float32
    same = np.isnan(expected) & np.isnan(found) | (found.view(np.uint32) == expected.view(np.uint32))
    assert same.all() and np.isnan(expected).any() and np.isfinite(expected).any()
