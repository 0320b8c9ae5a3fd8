"""Models of llama2.c: seven numbers, then float32 arrays one after another; and its list of tokens.

The first format ("legacy export") of karpathy/llama2.c, run.c: read_checkpoint and build_tokenizer. It does
not tell the norm's ε, 1e-5, nor the rotary base, 10000: its program has them built in.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import LoadError, PathexpError
from ..config import Config
from ..model import Model
from ..rotary import Rotary
from ..stored import StoredLayers, StoredRows
from ..weights import Weights
from .checkpoint import Shape
from .gather import Array, as_it_is, heads_in, heads_out
from .opened_file import OpenedFile
from .pickles import of_pickles
from .scored_tokenizer import ScoredTokenizer

_HEADER = struct.Struct("<7i")
_LATER = 0x616B3432  # "ak42", the magic number of the later formats
_EPSILON, _BASE, _BEGIN = 1e-5, 10000.0, 1


class Header(NamedTuple):
    """The seven numbers; a negative vocabulary says that W_U is stored."""

    d_model: int
    d_mlp: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_vocab: int
    n_ctx: int


def load_llama2c(path: str | Path) -> Model:
    """Read a model from a .bin of llama2.c, with ``NAME.tokenizer.bin`` or ``tokenizer.bin`` beside it.

    Raises LoadError for a torch pickle of the same ending, a later format, sizes that are none, or a file
    that is shorter or longer than they say.
    """
    place = Path(path)
    try:
        size = place.stat().st_size
        with open(place, "rb") as file:
            header = _header(file.read(_HEADER.size), place.name)
        config = _config(header)
        arrays = _arrays(place, header, config, size)
        return Model(config, Weights(**arrays), _tokenizer_beside(place, config), name=place.stem)
    except _Wrong as wrong:
        raise LoadError(f"Cannot load {str(place)!r}: {wrong}") from None
    except OSError as error:
        raise LoadError(f"Cannot load {str(place)!r}: {error}") from error


class _Wrong(Exception):
    """What is wrong with the file."""


def _header(raw: bytes, name: str) -> Header:
    if raw[:4] == b"PK\x03\x04" or raw[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise _Wrong(of_pickles(name))
    if len(raw) < _HEADER.size:
        raise _Wrong(f"it has {len(raw)} bytes; a model of llama2.c begins with {_HEADER.size}.")
    if struct.unpack_from("<I", raw)[0] == _LATER:
        raise _Wrong("it is of a later format of llama2.c ('ak42'); export it with --version 0.")
    header = Header(*_HEADER.unpack(raw))
    sizes = header._replace(d_vocab=abs(header.d_vocab))
    if min(sizes) < 1 or sizes.d_model % sizes.n_heads or sizes.n_heads % sizes.n_kv_heads:
        raise _Wrong(f"it is no model of llama2.c: its first seven numbers are {tuple(header)}.")
    return header


def _config(h: Header) -> Config:
    return Config(
        n_layers=h.n_layers,
        n_heads=h.n_heads,
        n_kv_heads=h.n_kv_heads,
        d_model=h.d_model,
        d_head=h.d_model // h.n_heads,
        d_vocab=abs(h.d_vocab),
        n_ctx=h.n_ctx,
        d_mlp=h.d_mlp,
        gated=True,
        activation="silu",
        positions="rotary",
        rotary=Rotary(base=_BASE, pairing="adjacent"),
        norm="rmsnorm",
        norm_eps=_EPSILON,
        tied=h.d_vocab > 0,
    )


def _layout(c: Config) -> Iterator[tuple[str, Shape]]:
    """The arrays in the order of the file, rows as outputs."""
    queries, keys = c.n_heads * c.d_head, c.n_kv_heads * c.d_head
    L, d, m = c.n_layers, c.d_model, c.d_mlp
    yield "W_E", (c.d_vocab, d)
    yield "g_attn", (L, d)
    yield "W_Q", (L, queries, d)
    yield "W_K", (L, keys, d)
    yield "W_V", (L, keys, d)
    yield "W_O", (L, d, queries)
    yield "g_mlp", (L, d)
    yield "W_gate", (L, m, d)
    yield "W_out", (L, d, m)
    yield "W_in", (L, m, d)
    yield "g_final", (d,)
    yield "rotary", (2, c.n_ctx, c.d_head // 2)  # tables that are not used any more
    if not c.tied:
        yield "W_U", (c.d_vocab, d)


def _arrays(path: Path, header: Header, config: Config, size: int) -> dict[str, Array]:
    layout = list(_layout(config))
    needed = _HEADER.size + 4 * sum(math.prod(shape) for _, shape in layout)
    if needed != size:
        raise _Wrong(
            f"its first seven numbers {tuple(header)} make {needed:,} bytes, but it has {size:,}: "
            "it is truncated, or no model of llama2.c."
        )
    file, arrays, begin = OpenedFile(path), {}, _HEADER.size
    for name, shape in layout:
        arrays[name] = _stored(name, partial(_floats, file, begin), shape, config)
        begin += 4 * math.prod(shape)
    arrays.pop("rotary")
    return arrays | ({"W_U": arrays["W_E"].T} if config.tied else {})


def _floats(file: OpenedFile, start: int, begin: int, end: int) -> Array:
    """The numbers from one to another of an array that starts at a byte."""
    return file.numbers(start + 4 * begin, end - begin, "<f4").astype(np.float64)


def _stored(name: str, numbers: Callable[[int, int], Array], shape: Shape, c: Config) -> Any:
    """One array as it is stored: of a few numbers, these; else by layer, or by token."""
    width = math.prod(shape[1:])
    if name in ("W_E", "W_U"):
        table = StoredRows(
            name, shape, lambda begin, end: numbers(begin * width, end * width).reshape(-1, width)
        )
        return table.T if name == "W_E" else table
    if len(shape) < 3 or name == "rotary":
        array = numbers(0, math.prod(shape)).reshape(shape)
        array.setflags(write=False)
        return array
    by_layer = {
        "W_Q": heads_in(c.n_heads),
        "W_K": heads_in(c.n_kv_heads),
        "W_V": heads_in(c.n_kv_heads),
        "W_O": heads_out(c.n_heads),
    }
    turn, one = by_layer.get(name, as_it_is), shape[1:]
    turned = turn(np.broadcast_to(np.float64(0), one)).shape
    return StoredLayers(
        name,
        (shape[0], *turned),
        lambda layer: turn(numbers(layer * width, (layer + 1) * width).reshape(one)),
    )


def _tokenizer_beside(path: Path, config: Config) -> ScoredTokenizer | None:
    for name in (f"{path.stem}.tokenizer.bin", "tokenizer.bin"):
        if (path.parent / name).is_file():
            return open_llama2c_tokenizer(path.parent / name, config.d_vocab)
    return None


def open_llama2c_tokenizer(path: str | Path, size: int) -> ScoredTokenizer:
    """Read the tokens of llama2.c: for each of ``size`` tokens a score, a length, and so many bytes.

    Raises LoadError if the file is shorter or longer than that, or its scores are no numbers.
    """
    raw = Path(path).read_bytes()
    try:
        pieces, scores = zip(*_tokens(raw, size), strict=True)
        return ScoredTokenizer(pieces, scores, begin=_BEGIN)
    except (struct.error, _Wrong, PathexpError) as wrong:
        raise LoadError(
            f"Cannot load {str(path)!r}: it is no list of {size} tokens of llama2.c: {wrong}"
        ) from None


def _tokens(raw: bytes, size: int) -> Iterator[tuple[str, float]]:
    place = 4  # after the longest token's length
    for token in range(size):
        score, length = struct.unpack_from("<fi", raw, place)
        place += 8
        if not 0 <= length <= len(raw) - place:
            raise _Wrong(f"token {token} says that it has {length} bytes.")
        piece = raw[place : place + length].decode("utf-8", "surrogateescape")
        place += length
        yield (piece.strip("\n") if token in (1, 2) else piece), score
    if place != len(raw):
        raise _Wrong(f"{len(raw) - place} bytes are left over.")
