"""Arrays under names of anybody's, by a mapping that says which of ours each holds, and how it is laid out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from ...errors import LoadError, PathexpError
from ..config import Config
from ..model import Model
from ..weights import Expected, Weights, expected
from .axes import Layout, axis_sizes, our_axes
from .checkpoint import Checkpoint, check_layers, listed
from .gather import Piece, gather

_LAYER = "{layer}"


def from_named(checkpoint: Checkpoint, config: Any, names: Any, ignore: tuple[str, ...]) -> Model:
    """A model of named arrays.

    ``names``: by the name of one of `Weights` (or several, with spaces between, that are in one array), the name of
    theirs, where ``{layer}`` stands for the number of a layer; then, where it is laid out otherwise than ours, a colon
    and its axes. ``ignore``: names that are not read, with ``{layer}`` and ``*``. ``config``: ours, or its ``to_dict``.
    In a tied configuration W_U may be left out.

    Raises LoadError for names or axes that do not fit, and, all at once, for arrays that are missing, misshapen or left.

    >>> import numpy as np
    >>> from .checkpoint import Held
    >>> sizes = dict(n_layers=1, n_heads=2, d_model=3, d_head=1, d_vocab=4, n_ctx=5, tied=True)
    >>> arrays = {"wte": np.ones((4, 3)), "h.0.qkv": np.ones((3, 6)), "h.0.o": np.ones((2, 3))}
    >>> names = {"W_E": "wte: vocab d_model", "W_Q W_K W_V": "h.{layer}.qkv: d_model (head+head+head d_head)",
    ...          "W_O": "h.{layer}.o: (head d_head) d_model"}
    >>> from_named(Held(arrays, "a test"), sizes, names, ())
    Model('': 1 layers × 2 heads, d_model 3, d_vocab 4)
    """
    try:
        sizes = config if isinstance(config, Config) else Config.from_dict(_mapping("config", config))
        check_layers(sizes.n_layers, checkpoint)
        arrays = gather(
            checkpoint, _pieces(_mapping("names", names), sizes), sizes.n_layers, _patterns(ignore)
        )
        if sizes.tied and "W_U" not in arrays:
            arrays["W_U"] = arrays["W_E"].T
        return Model(sizes, Weights(**arrays))
    except PathexpError as error:
        said = str(error)
        raise LoadError(
            said if said.startswith("Cannot load") else f"Cannot load {checkpoint.where}: {said}"
        ) from error


def _mapping(what: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    kind = (
        "a px.Config or its to_dict()"
        if what == "config"
        else "a mapping such as {'W_E': 'wte: vocab d_model'}"
    )
    raise LoadError(f"{what}: expected {kind}, found {value!r:.60}.")


@dataclass(frozen=True)
class _Entry:
    """One entry of the mapping: our names, the pattern of theirs, and its axes if they are told."""

    ours: tuple[str, ...]
    theirs: str
    axes: str

    @classmethod
    def read(cls, ours: str, said: object) -> _Entry:
        if not isinstance(said, str) or not said.strip() or not ours.strip():
            raise LoadError(
                f"names[{ours!r:.60}]: expected a name of theirs, perhaps with ': axes', found {said!r:.60}."
            )
        theirs, _, axes = said.rpartition(":") if ":" in said else (said, "", "")
        return cls(tuple(ours.split()), theirs.strip(), axes.strip())


def _pieces(names: Mapping[str, Any], config: Config) -> list[Piece]:
    entries = [_Entry.read(ours, said) for ours, said in names.items()]
    places, sizes = expected(config), axis_sizes(config)
    _check_ours(entries, places, config)
    latent = config.latent is not None
    return [_piece(entry, places, sizes, latent) for entry in entries]


def _check_ours(entries: list[_Entry], places: Mapping[str, Expected], config: Config) -> None:
    """Every array that is needed is named, once, and none that has no place."""
    named = [name for entry in entries for name in entry.ours]
    for name in named:
        if name not in places:
            near = [each for each in places if each.lower() == name.lower()] or get_close_matches(
                name, places, n=1
            )
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise LoadError(
                f"names: {name!r:.60} is no array of this configuration.{hint} Its arrays: {', '.join(places)}."
            )
        if named.count(name) > 1:
            raise LoadError(f"names: {name!r} is named {named.count(name)} times.")
    spared = {"W_U"} if config.tied else set()
    missing = [name for name, place in places.items() if place.required and name not in (*named, *spared)]
    if missing:
        raise LoadError(f"names: nothing says what {', '.join(missing)} are called.")


def _piece(entry: _Entry, places: Mapping[str, Expected], sizes: Mapping[str, int], latent: bool) -> Piece:
    """The piece of theirs, of a shape that follows from its axes, and the turn that makes each of ours of it."""
    where = f"names[{' '.join(entry.ours)!r:.60}]"
    by_layer = _LAYER in entry.theirs
    ours = {name: our_axes(name, places[name].shape, latent) for name in entry.ours}
    stacked = [name for name, axes in ours.items() if axes[0] == "layer"]
    if by_layer and len(stacked) < len(ours):
        raise LoadError(
            f"{where}: {next(n for n in ours if n not in stacked)} has no layers, but {entry.theirs!r} has {_LAYER}."
        )
    if by_layer:
        ours = {name: axes[1:] for name, axes in ours.items()}
    if not entry.axes and len(ours) > 1:
        raise LoadError(
            f"{where}: several arrays in one need axes, such as ': (head+head+head d_head) d_model'."
        )
    layout = Layout.read(entry.axes or " ".join(ours[entry.ours[0]]))
    if problem := layout.problem(ours, sizes):
        hint = (
            f" Write {_LAYER} for the number of the layer, or name the axis 'layer'."
            if stacked and not by_layer
            else ""
        )
        raise LoadError(f"{where}: axes {entry.axes!r:.80}: {problem}.{hint}")
    count = len(ours)
    turns = {
        name: partial(layout.part, index=index, count=count, axes=axes, sizes=sizes)
        for index, (name, axes) in enumerate(ours.items())
    }
    return Piece(entry.theirs.replace(_LAYER, "{l}"), layout.shape(sizes, count), turns)


def _patterns(ignore: tuple[str, ...]) -> list[str]:
    """Names that are not read, as patterns."""
    return [re.escape(name).replace(re.escape(_LAYER), r"\d+").replace(r"\*", ".*") for name in ignore]


def unnamed(names: list[str], where: str) -> LoadError:
    """The error for arrays that nothing says the meaning of."""
    return LoadError(
        f"Cannot load {where}: nothing says what {listed(sorted(names), 6)} are. Say it with names=, such as "
        "{'W_E': 'wte: vocab d_model', 'W_Q': 'h.{layer}.q: (head d_head) d_model'}, and config=px.Config(...)."
    )
