"""GGUF files, through the package ``gguf``: blocks of packed numbers that carry their own scales.

Names and meanings of keys and tensors: ggml-org/llama.cpp, docs and gguf-py/gguf/constants.py. Llama's
queries and keys are stored with adjacent rotary pairs there, those of Qwen with half-split ones.
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import LoadError, PathexpError
from ...installation import install_command
from ..config import Config
from ..model import Model
from ..rotary import Linear, Rotary, Scaling, Yarn
from ..weights import Weights
from .checkpoint import Checkpoint, Numbers, Shape, check_layers, not_numbers
from .gather import Piece, as_it_is, gather, heads_in, heads_out
from .gguf_header import Damaged, Header, Place, read_header
from .gguf_tokens import gguf_tokenizer
from .keys import Keys
from .opened_file import OpenedFile
from .options import Options
from .tables import find_tables

_AT_ONCE = 2**19
"""How many packed numbers are unpacked at a time: what that takes on the way fits a cache."""

_TABLES = "token_embd.weight", "output.weight"


@dataclass(frozen=True)
class Kind:
    """What differs between the architectures that are known."""

    pairing: str
    biased: str = ""  # projections that always have a bias
    may_be_biased: str = ""
    qk_norm: str | None = None


KINDS: Mapping[str, Kind] = {
    "llama": Kind("adjacent", may_be_biased="qkvo"),
    "qwen2": Kind("half", biased="qkv"),
    "qwen3": Kind("half", qk_norm="head"),
}
"""The architectures that are known, by ``general.architecture``."""

_PROJECTIONS = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"}


@dataclass(frozen=True)
class GgufFile:
    """The keys and the places of the tensors of one file; numbers are unpacked when asked."""

    file: OpenedFile
    fields: Mapping[str, Any]
    places: Mapping[str, Place]
    package: Any
    stays: bool = True

    @property
    def where(self) -> str:
        """The path, for messages."""
        return self.file.where

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by name, rows as outputs."""
        return {name: place.shape for name, place in self.places.items()}

    def read(self, name: str) -> Numbers:
        """One tensor, unpacked. Raises LoadError for a packing that the package does not know."""
        shape = self.places[name].shape
        return self.rows(name, 0, math.prod(shape[:-1])).reshape(shape)

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some rows of one tensor, unpacked, all axes but the last taken together. Raises LoadError as `read`."""
        place = self.places[name]
        packing, row = self.packing(place), row_bytes(self.package, place)
        if re.fullmatch(r"I\d+", packing.name):  # integers, not IQ4_NL and its like
            raise not_numbers(name, packing.name, self.where)
        width = place.shape[-1] if place.shape else 1
        made = np.empty((end - begin, width), dtype=np.float32)
        step = max(1, _AT_ONCE // max(1, width))
        for at in range(begin, end, step):
            count = min(step, end - at)
            raw = self.file.numbers(place.begin + at * row, count * row, np.uint8)
            made[at - begin : at - begin + count] = self._unpacked(name, raw[None], packing).reshape(
                count, width
            )
        return made

    def _unpacked(self, name: str, raw: NDArray[np.uint8], packing: Any) -> Numbers:
        """Rows that are handed over as one long one: the package takes 16 rows at a time, which is slow."""
        try:
            return np.asarray(self.package.quants.dequantize(raw, packing))
        except (NotImplementedError, ValueError) as error:
            raise LoadError(
                f"Cannot load {self.where}: {name!r} is packed as {packing.name}, "
                f"which the package 'gguf' cannot unpack: {error}"
            ) from error

    def packing(self, place: Place) -> Any:
        """How a tensor is packed, as the package names it."""
        return self.package.GGMLQuantizationType(place.packing)


def row_bytes(package: Any, place: Place) -> int:
    """How many bytes one row of a tensor takes. Raises Damaged for a packing that is not known, or a row of part blocks."""
    if place.packing not in list(package.GGMLQuantizationType):
        raise Damaged(f"a tensor is packed in way {place.packing}, which the package 'gguf' does not know")
    block, size = package.GGML_QUANT_SIZES[package.GGMLQuantizationType(place.packing)]
    width = place.shape[-1] if place.shape else 1
    if width % block:
        raise Damaged(f"a tensor of shape {place.shape} has rows of no whole blocks of {block}")
    return int(width // block * size)


def load_gguf(path: str | Path, options: Options | None = None) -> Model:
    """Read a model from a GGUF file; packed numbers are unpacked to float64, as llama.cpp unpacks them.

    Needs the package ``gguf``: the extra [gguf]. Raises LoadError if it is not there, for a damaged file, for
    an architecture or a key that is not known, and for tensors that are missing, of another shape or extra.
    """
    given = options or Options()
    try:
        file = open_gguf(path)
        return _model(file, given)
    except LoadError:
        raise
    except PathexpError as error:
        raise LoadError(f"Cannot load {str(path)!r}: {error}") from error


def open_gguf(path: str | Path) -> GgufFile:
    """Read and check the keys and the places of the tensors; the numbers stay where they are."""
    try:
        import gguf
    except ImportError:
        raise LoadError(
            f"Cannot load {str(path)!r}: GGUF files need the package 'gguf': {install_command('gguf')}"
        ) from None
    try:
        file = OpenedFile(Path(path))
        header = _header(file)
        _check_places(path, header.places, lambda place: _bytes(gguf, place), file.size)
    except (Damaged, OSError, ValueError, struct.error, OverflowError) as error:
        raise LoadError(f"Cannot load {str(path)!r}: no GGUF file, or damaged: {error!r:.200}") from error
    return GgufFile(file, header.fields, header.places, gguf)


def _header(file: OpenedFile) -> Header:
    with mmap.mmap(file.descriptor, 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as raw:
        return read_header(raw)


def _bytes(package: Any, place: Place) -> int:
    return math.prod(place.shape[:-1]) * row_bytes(package, place)


def _check_places(
    path: str | Path, places: Mapping[str, Place], bytes_of: Callable[[Place], int], size: int
) -> None:
    """No two tensors share bytes, and all are in the file."""
    ordered = sorted(places, key=lambda name: places[name].begin)
    for before, after in pairwise(ordered):
        if places[before].begin + bytes_of(places[before]) > places[after].begin:
            raise LoadError(
                f"Cannot load {str(path)!r}: tensors {before!r} and {after!r} overlap: it is damaged."
            )
    for name, place in places.items():
        if place.begin + bytes_of(place) > size:
            raise Damaged(f"it ends at byte {size:,}, before the end of {name!r}")


def _model(file: GgufFile, options: Options) -> Model:
    name = str(file.fields.get("general.architecture"))
    if name not in KINDS:
        raise LoadError(
            f"Cannot load {file.where}: architecture {name!r} is not known; known: {', '.join(KINDS)}."
        )
    if file.fields.get("split.count", 1) > 1:
        raise LoadError(f"Cannot load {file.where}: it is one of several files; join them with gguf-split.")
    kind = KINDS[name]
    keys = _keys(file, name)
    check_layers(keys.values.get("block_count"), file)
    config = _config(keys, kind, file)
    keys.finish(options.ignore)
    shape = (config.d_vocab, config.d_model)
    tables = find_tables(file, _TABLES, shape, _TABLES[1] not in file.places, options)
    arrays = gather(file, [*tables.pieces, *_pieces(config, kind, file)], config.n_layers)
    config = replace(config, tied=tables.shared, d_out=tables.d_out or config.d_out)
    weights = Weights(**tables.complete(arrays))
    return Model(config, weights, gguf_tokenizer(file.fields, file.where), name=file.file.path.stem)


def _keys(file: GgufFile, architecture: str) -> Keys:
    own = f"{architecture}."
    values = {key.removeprefix(own): v for key, v in file.fields.items() if key.startswith(own)}
    keys = Keys(values, file.where)
    keys.must_be_off("expert_count", "mixtures of experts are not known: their routing is no linear map")
    return keys


def _config(keys: Keys, kind: Kind, file: GgufFile) -> Config:
    n_heads, d_model = keys.size("attention.head_count"), keys.size("embedding_length")
    d_head = keys.size("attention.key_length", d_model // n_heads)
    keys.must_be("attention.value_length", d_head, "keys and values of one size are known here")
    rows = file.shapes.get(_TABLES[0], (0,))[0]
    keys.must_be("vocab_size", rows, f"it must be the number of rows of {_TABLES[0]!r}")
    return Config(
        n_layers=keys.size("block_count"),
        n_heads=n_heads,
        n_kv_heads=keys.size("attention.head_count_kv", n_heads),
        d_model=d_model,
        d_head=d_head,
        d_vocab=keys.size("vocab_size", rows),
        n_ctx=keys.size("context_length"),
        d_mlp=keys.size("feed_forward_length"),
        gated=True,
        activation="silu",
        positions="rotary",
        rotary=_rotary(keys, kind, d_head),
        norm="rmsnorm",
        norm_eps=shortest(keys.number("attention.layer_norm_rms_epsilon")),
        qk_norm=kind.qk_norm,
        windows=keys.get("attention.sliding_window"),
    )


def _rotary(keys: Keys, kind: Kind, d_head: int) -> Rotary:
    dims = keys.size("rope.dimension_count", d_head)
    base = keys.assumed_number("rope.freq_base", 10000.0)
    return Rotary(base=shortest(base), dims=dims, pairing=kind.pairing, scaling=_scaling(keys))


def _scaling(keys: Keys) -> Scaling | None:
    kind = keys.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    factor = shortest(keys.number("rope.scaling.factor"))
    if kind == "linear":
        return Linear(factor=factor)
    if kind == "yarn":
        return Yarn(factor=factor, original_n_ctx=keys.size("rope.scaling.original_context_length"))
    raise keys.error(f"rope.scaling.type {kind!r} is not known; known: none, linear, yarn")


def shortest(value: float) -> float:
    """The shortest decimal number that a float32 stands for: 1e-05 for 9.999999747378752e-06.

    >>> shortest(9.999999747378752e-06)
    1e-05
    """
    return float(str(np.float32(value))) if math.isfinite(value) else value


def _pieces(c: Config, kind: Kind, file: Checkpoint) -> Iterator[Piece]:
    d, h, m = c.d_model, c.d_head, c.d_mlp
    biased = kind.biased + "".join(
        letter for letter in kind.may_be_biased if f"blk.0.{_PROJECTIONS[letter]}.bias" in file.shapes
    )
    for letter, name in _PROJECTIONS.items():
        heads = c.n_heads if letter in "qo" else c.n_kv_heads
        shape, turn = (
            ((d, heads * h), heads_out(heads)) if letter == "o" else ((heads * h, d), heads_in(heads))
        )
        yield Piece(f"blk.{{l}}.{name}.weight", shape, {f"W_{letter.upper()}": turn})
        if letter in biased:
            bias = as_it_is if letter == "o" else turn
            yield Piece(f"blk.{{l}}.{name}.bias", shape[:1], {f"b_{letter.upper()}": bias})
    if kind.qk_norm:
        yield Piece("blk.{l}.attn_q_norm.weight", (h,), {"g_q": as_it_is})
        yield Piece("blk.{l}.attn_k_norm.weight", (h,), {"g_k": as_it_is})
    for theirs, ours, shape in (("gate", "gate", (m, d)), ("up", "in", (m, d)), ("down", "out", (d, m))):
        yield Piece(f"blk.{{l}}.ffn_{theirs}.weight", shape, {f"W_{ours}": as_it_is})
    yield Piece("blk.{l}.attn_norm.weight", (d,), {"g_attn": as_it_is})
    yield Piece("blk.{l}.ffn_norm.weight", (d,), {"g_mlp": as_it_is})
    yield Piece("output_norm.weight", (d,), {"g_final": as_it_is})
