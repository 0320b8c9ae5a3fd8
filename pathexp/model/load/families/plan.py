"""What a family of models says of itself, and what it makes of one configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...config import Config
from ..gather import Array, Piece, Turn, as_it_is
from ..keys import Keys
from ..options import Options

Arrays = dict[str, Array]

ACTIVATIONS: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
}
"""Activations by the names that transformers has for them, to ours."""

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class Plan:
    """One model: its configuration and where its arrays are.

    ``pieces`` leave out the two tables of tokens; ``unused`` are patterns of tensors that may be there and
    are not read; ``head``: the map to outputs, in the place of the table of tokens; ``table_width``: the columns of
    the tables, where they are not d_model; ``finish`` makes of the arrays as gathered those of Weights.
    """

    config: Config
    pieces: Sequence[Piece]
    unused: Sequence[str] = ()
    head: str | None = None
    table_width: int | None = None
    finish: Callable[[Arrays], Arrays] = lambda arrays: arrays


@dataclass(frozen=True)
class Family:
    """One family: the prefix of its base model's tensors, its two tables of tokens, and its plan.

    ``tied``: whether the tables are one where the configuration does not say. ``renamed`` maps the names that
    the plan uses to those of a checkpoint, given the latter. ``part``: the key under which a model of several
    media keeps the configuration of its text; ``beside``, ``beside_keys``: tensors and keys of its other parts, which are left out.
    ``defaults``: sizes that published configurations leave to the family's own code.
    """

    base: str
    embedding: str
    unembedding: str
    tied: bool
    plan: Callable[[Keys, Options], Plan]
    renamed: Callable[[Collection[str]], Mapping[str, str]] = lambda names: {name: name for name in names}
    part: str | None = None
    beside: tuple[str, ...] = ()
    beside_keys: tuple[str, ...] = ()
    defaults: Mapping[str, int] = field(default_factory=dict)


def activation(keys: Keys, key: str, default: str) -> str:
    """The activation that a key names, in our words."""
    return keys.choice(key, keys.assume(key, default), ACTIVATIONS)


def layer_norm(theirs: str, d_model: int, ours: str) -> Iterator[Piece]:
    """The gain and the bias of one LayerNorm."""
    yield Piece(f"{theirs}.weight", (d_model,), {f"g_{ours}": as_it_is})
    yield Piece(f"{theirs}.bias", (d_model,), {f"b_{ours}": as_it_is})


def linear(theirs: str, shape: tuple[int, int], ours: str, turn: Turn = as_it_is) -> Iterator[Piece]:
    """A map, (outputs, inputs), and its bias; ``turn`` for both where the outputs are heads."""
    yield Piece(f"{theirs}.weight", shape, {f"W_{ours}": turn})
    yield Piece(f"{theirs}.bias", shape[:1], {f"b_{ours}": as_it_is if ours == "O" else turn})


def head_size(keys: Keys, d_model: int, n_heads: int) -> int:
    """d_model / n_heads, for families that have no key for it. Raises LoadError if it is not whole."""
    if d_model % n_heads:
        raise keys.error(f"the size of a head is not told, and {n_heads} heads do not divide {d_model}")
    return d_model // n_heads


def windows(
    keys: Keys, n_layers: int, width: int | None, default: Callable[[int], bool]
) -> tuple[int | None, ...] | None:
    """The window of each layer: an explicit ``layer_types`` wins over the family's rule.

    ``default`` says of a layer whether it slides where there is no list. Raises LoadError for a kind that is
    not known, a list of another length, or a sliding layer without a width.
    """
    kinds = layer_kinds(keys, n_layers, width is not None, default)
    if SLIDING in kinds and width is None:
        raise keys.error("'layer_types' has sliding layers, but 'sliding_window' gives them no width")
    return tuple(width if kind == SLIDING else None for kind in kinds) if SLIDING in kinds else None


def layer_kinds(keys: Keys, n_layers: int, slides: bool, default: Callable[[int], bool]) -> Sequence[str]:
    """The kind of attention of each layer, ``SLIDING`` or ``FULL``: as ``layer_types`` lists them, else by the rule."""
    kinds = keys.get("layer_types")
    if kinds is None:
        kinds = [SLIDING if slides and default(layer) else FULL for layer in range(n_layers)]
    if not isinstance(kinds, list) or len(kinds) != n_layers:
        raise keys.error(f"'layer_types' must be a list of {n_layers} kinds, one a layer, found {kinds!r}")
    unknown = [kind for kind in kinds if kind not in (FULL, SLIDING)]
    if unknown:
        raise keys.error(f"'layer_types' has {unknown[0]!r}; known are {FULL!r} and {SLIDING!r}")
    return kinds
