"""A model from a GGUF file: its configuration from the keys, its weights as they are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import LoadError, PathexpError
from ..config import Config
from ..model import Model
from ..weights import Weights
from .checkpoint import check_layers
from .gather import Piece, gather
from .gguf_file import GgufFile, open_gguf
from .gguf_keys import GgufKeys, own_keys
from .gguf_kinds import KINDS, Kind
from .gguf_rope import rotary, stored_factors
from .gguf_tensors import TABLES, pieces, with_segment
from .gguf_tokens import gguf_tokenizer
from .options import Options
from .tables import find_tables


def load_gguf(path: str | Path, options: Options | None = None) -> Model:
    """Read a model from a GGUF file; packed numbers are unpacked to float64, as llama.cpp unpacks them.

    Needs the package ``gguf``: the extra [gguf]. Raises LoadError if it is not there, for a damaged file, for
    an architecture or a key that is not known, and for tensors that are missing, of another shape or extra.
    """
    given = options or Options()
    try:
        return _model(open_gguf(path), given)
    except LoadError:
        raise
    except PathexpError as error:
        raise LoadError(f"Cannot load {str(path)!r}: {error}") from error


def _model(file: GgufFile, options: Options) -> Model:
    kind = _kind(file)
    keys = _keys(file, kind)
    check_layers(keys.values.get("block_count"), file)
    sizes = _sizes(keys, kind)
    turned = rotary(keys, kind, file, sizes["d_head"])
    positions = {} if turned is None else kind.turned(keys, turned)
    config = Config(
        **{**sizes, **_vocabulary(keys, file), **positions, **kind.fields(keys, file.shapes, options)}
    )
    keys.finish(options.ignore)
    shape = (config.d_vocab, config.d_model)
    tables = find_tables(file, TABLES, shape, kind.unembedded and TABLES[1] not in file.places, options)
    wanted = [*tables.pieces, *pieces(config, kind, file.shapes)]
    arrays = gather(file, wanted, config.n_layers, _unused(file, kind, wanted, config.n_layers))
    config = replace(config, tied=tables.shared, d_out=tables.d_out or config.d_out)
    weights = Weights(**with_segment(tables.complete(arrays)))
    own = options.tokenizer is None  # else another one takes its place
    tokenizer = gguf_tokenizer(file.fields, config.d_vocab, file.where) if own else None
    return Model(config, weights, tokenizer, name=file.file.path.stem)


def _kind(file: GgufFile) -> Kind:
    if file.fields.get("general.type") == "adapter":
        raise LoadError(
            f"Cannot load {file.where}: it is an adapter alone, without the model that it changes; merge the two with "
            "llama-export-lora."
        )
    name = file.fields.get("general.architecture")
    if not isinstance(name, str) or name not in KINDS:
        raise LoadError(
            f"Cannot load {file.where}: architecture {name!r} is not known; known: {', '.join(KINDS)}."
        )
    if file.fields.get("split.count", 1) not in (0, 1):
        raise LoadError(
            f"Cannot load {file.where}: it is one of {file.fields['split.count']!r} files; join them with "
            "llama-gguf-split --merge."
        )
    return KINDS[name]


def _keys(file: GgufFile, kind: Kind) -> GgufKeys:
    keys = own_keys(file.fields, str(file.fields["general.architecture"]), file.where)
    for key in () if kind.sparse else ("expert_count", "expert_used_count"):
        keys.must_be_off(key, "experts are not known of this architecture")
    keys.must_be_off("nextn_predict_layers", "layers that predict further tokens are not known here")
    keys.must_be_off("attention.clamp_kqv", "queries, keys and values that are cut off are not known here")
    return keys


def _vocabulary(keys: GgufKeys, file: GgufFile) -> Mapping[str, Any]:
    rows = (file.shapes.get(TABLES[0]) or (0,))[0]
    keys.must_be("vocab_size", rows, f"it must be the number of rows of {TABLES[0]!r}")
    return {"d_vocab": keys.size("vocab_size", rows)}


def _sizes(keys: GgufKeys, kind: Kind) -> Mapping[str, Any]:
    n_heads, d_model = keys.even("attention.head_count"), keys.size("embedding_length")
    d_head = keys.size("attention.key_length", _share(keys, d_model, n_heads))
    if not kind.latent:
        keys.must_be("attention.value_length", d_head, "keys and values of one size are known here")
    return {
        "n_layers": keys.size("block_count"),
        "n_heads": n_heads,
        "n_kv_heads": n_heads if kind.latent else keys.even("attention.head_count_kv", n_heads),
        "d_model": d_model,
        "d_head": d_head,
        "n_ctx": keys.size("context_length"),
        "d_mlp": keys.even("feed_forward_length"),
        "gated": kind.gated,
        "activation": kind.activation,
        "positions": kind.positions,
        "norm": kind.norm,
        "norm_eps": keys.number(f"attention.layer_norm_{'rms_' * (kind.norm == 'rmsnorm')}epsilon"),
        "qk_norm": kind.qk_norm,
        "causal": keys.switch("attention.causal", kind.causal),
    }


def _unused(file: GgufFile, kind: Kind, wanted: Sequence[Piece], n_layers: int) -> list[str]:
    """Patterns of tensors that are read elsewhere: divisors of frequencies, scales beside matrices."""
    names = (name for piece in wanted if len(piece.shape) > 1 for name, _ in piece.stored(n_layers))
    read = [*file.beside(names), *stored_factors(kind, file.shapes)]
    return [re.escape(name) for name in read]


def _share(keys: GgufKeys, d_model: int, n_heads: int) -> int | None:
    """The size of a head where no key tells it."""
    return d_model // n_heads if d_model % n_heads == 0 else None
