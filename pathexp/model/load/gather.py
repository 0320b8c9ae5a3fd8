"""Tensors of a checkpoint to arrays of ours: every one accounted for, every problem told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from ...errors import LoadError
from ..stored import StoredExperts, StoredLayers, StoredRows, check_finite
from .checkpoint import Checkpoint, Shape, listed
from .raised import raised

Array = npt.NDArray[np.float64]
Turn = Callable[[Array], Array]

_TABLES = {"W_E": "a column a token", "W_U": "a row an output"}
_MOST = 12  # problems told in one message


@dataclass(frozen=True)
class Piece:
    """One tensor of theirs, of a known shape, and the arrays of ours that it holds, each with its turn.

    ``{l}`` in the name stands for the layer: there is one such tensor in every layer, or in those of ``layers``, and ours
    are stacked, zero in other layers. ``{e}`` stands for the expert, of which there are ``experts`` a layer. Without it such a tensor
    holds all experts along its first axis; ``shape`` and the turns are those of one.
    """

    theirs: str
    shape: Shape
    ours: Mapping[str, Turn]
    layers: tuple[int, ...] | None = None
    experts: int = 0

    @property
    def by_layer(self) -> bool:
        """Whether there is one in every layer."""
        return "{l}" in self.theirs

    @property
    def together(self) -> bool:
        """Whether one tensor holds all experts of a layer."""
        return bool(self.experts) and "{e}" not in self.theirs

    def stored(self, n_layers: int) -> Iterator[tuple[str, Shape]]:
        """The names of the tensors, layer by layer, with the shape of each."""
        shape = (self.experts, *self.shape) if self.together else self.shape
        for layer in range(n_layers) if self.layers is None else self.layers:
            if not self.experts or self.together:
                yield self.named(layer), shape
            else:
                yield from ((self.named(layer, expert), shape) for expert in range(self.experts))
            if not self.by_layer:
                return

    def named(self, layer: int, expert: int = 0) -> str:
        """The name of the tensor of a layer, and of an expert in it."""
        return self.theirs.replace("{l}", str(layer)).replace("{e}", str(expert))

    def has(self, layer: int) -> bool:
        """Whether a layer has such a tensor."""
        return self.layers is None or layer in self.layers

    def read(self, checkpoint: Checkpoint, layer: int, expert: int = 0) -> Array:
        """The numbers of a layer, or of one expert in it, as they are stored; zeros where the layer has none."""
        if not self.has(layer):
            return np.zeros(self.shape)
        name = self.named(layer, expert)
        raw = checkpoint.rows(name, expert, expert + 1)[0] if self.together else checkpoint.read(name)
        return raw.astype(np.float64)

    def raised(self, checkpoint: Checkpoint, ours: str, layer: int, expert: int = 0) -> Array:
        """One of our arrays of a layer, or of one expert in it, of a matrix that stays as it is stored.

        Raises WeightsError for numbers that are not finite.
        """
        turn = self.ours[ours]
        if not self.has(layer):
            return turn(np.zeros(self.shape))
        name = self.named(layer, expert)
        if self.together:
            found, finite = raised(checkpoint, name, expert, expert + 1, self.shape)
        else:
            found, finite = raised(checkpoint, name, 0, self.shape[0], self.shape[1:])
        made = turn(found[0] if self.together else found)
        if not finite:
            check_finite(ours, made, (layer, expert) if self.experts else (layer,))
        return made


def gather(
    checkpoint: Checkpoint, pieces: Sequence[Piece], n_layers: int, unused: Sequence[str] = ()
) -> dict[str, Array]:
    """Return all pieces as arrays of ours: matrices of files as they are stored, all else float64, read-only.

    ``unused`` are patterns of tensors that may be there and are not read, such as stored masks.

    Raises LoadError with all problems at once: missing tensors, tensors that nothing here knows, and shapes.
    """
    _check_experts(checkpoint, pieces)
    problems = list(_problems(checkpoint, pieces, n_layers, unused))
    if problems:
        shown = problems[:_MOST]
        more = [f"and {len(problems) - _MOST} more"] if len(problems) > _MOST else []
        head = f"Cannot load {checkpoint.where}: {len(problems)} problem(s) with its tensors:"
        raise LoadError("\n  ".join([head, *shown, *more]))
    arrays: dict[str, Array] = {}
    for piece in pieces:
        if not (checkpoint.stays and len(piece.shape) > 1):
            _store(arrays, checkpoint, piece, n_layers)
        elif piece.experts:
            arrays |= {name: _experts(checkpoint, piece, name, n_layers) for name in piece.ours}
        elif piece.by_layer:
            arrays |= {name: _layers(checkpoint, piece, name, n_layers) for name in piece.ours}
        elif set(piece.ours) <= _TABLES.keys():
            arrays |= {name: _table(checkpoint, piece, name) for name in piece.ours}
        else:
            _store(arrays, checkpoint, piece, n_layers)
    return arrays


def _check_experts(checkpoint: Checkpoint, pieces: Sequence[Piece]) -> None:
    """Raise LoadError for more experts a layer than there are tensors, where each has its own: no model is that large."""
    most = max((piece.experts for piece in pieces if not piece.together), default=0)
    if most > len(checkpoint.shapes):
        raise LoadError(
            f"Cannot load {checkpoint.where}: its configuration has {most:,} experts a layer, "
            f"but there are {len(checkpoint.shapes)} tensors in all."
        )


def _problems(
    checkpoint: Checkpoint, pieces: Sequence[Piece], n_layers: int, unused: Sequence[str]
) -> Iterator[str]:
    shapes = checkpoint.shapes
    expected = {name: shape for piece in pieces for name, shape in piece.stored(n_layers)}
    for name, shape in expected.items():
        if name not in shapes:
            yield f"{name!r} is missing: expected shape {list(shape)}"
        elif tuple(shapes[name]) != shape:
            yield f"{name!r} has shape {list(shapes[name])}, expected {list(shape)}"
    known = [re.compile(pattern) for pattern in unused]
    extra = [name for name in shapes if name not in expected and not any(k.fullmatch(name) for k in known)]
    if extra:
        yield f"{len(extra)} tensor(s) have no place in this architecture: {listed(sorted(extra))}"


def _store(arrays: dict[str, Array], checkpoint: Checkpoint, piece: Piece, n_layers: int) -> None:
    """Read a piece now; those of all layers, and of all experts, are stacked."""
    for name, turn in piece.ours.items():
        if not piece.by_layer:
            made = np.ascontiguousarray(turn(piece.read(checkpoint, 0)))
        else:
            made = np.empty((*_stacked(piece, n_layers), *_turned(piece, turn)))
            for place in np.ndindex(*_stacked(piece, n_layers)):
                made[place] = turn(piece.read(checkpoint, *place))
        if n_layers or not piece.by_layer:
            arrays[name] = _read_only(made)


def _stacked(piece: Piece, n_layers: int) -> Shape:
    """How many arrays of ours a piece makes, by layer, and by expert if there are some."""
    return (n_layers, piece.experts) if piece.experts else (n_layers,)


def _turned(piece: Piece, turn: Turn) -> Shape:
    """The shape of one array of ours."""
    return turn(np.broadcast_to(np.float64(0), piece.shape)).shape


def _experts(checkpoint: Checkpoint, piece: Piece, name: str, n_layers: int) -> Array:
    """A piece as it is stored: one tensor, or a part of one, an expert."""
    shape = (n_layers, piece.experts, *_turned(piece, piece.ours[name]))
    stored = StoredExperts(name, shape, lambda *place: piece.raised(checkpoint, name, *place), finite=False)
    return cast(Array, stored)


def _layers(checkpoint: Checkpoint, piece: Piece, name: str, n_layers: int) -> Array:
    """A piece as it is stored: one tensor a layer."""
    shape = (n_layers, *_turned(piece, piece.ours[name]))
    stored = StoredLayers(name, shape, lambda layer: piece.raised(checkpoint, name, layer), finite=False)
    return cast(Array, stored)


def _table(checkpoint: Checkpoint, piece: Piece, name: str) -> Array:
    """A table of tokens as it is stored: one row a token."""

    def rows(begin: int, end: int) -> Array:
        found, finite = raised(checkpoint, piece.theirs, begin, end, piece.shape[1:])
        if not finite:
            check_finite(name, found, (), begin)
        return found

    table = StoredRows(name, (piece.shape[0], piece.shape[1]), rows, finite=False)
    return cast(Array, table.T if piece.ours[name] is transposed else table)


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array


# Turns: from rows of theirs, (outputs, inputs), to ours ----------------------------------------------------


def as_it_is(raw: Array) -> Array:
    """Nothing to turn."""
    return raw


def transposed(raw: Array) -> Array:
    """(rows, columns) to (columns, rows)."""
    return raw.T


def one_more(raw: Array) -> Array:
    """A gain that is stored less one, as Gemma has it."""
    return 1.0 + raw


def heads_in(heads: int) -> Turn:
    """A projection, (heads · d_head, d_model), to (heads, d_head, d_model), or its bias to (heads, d_head).

    >>> heads_in(2)(np.arange(8.0).reshape(4, 2)).tolist()
    [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]]]
    """
    return lambda raw: raw.reshape(heads, -1, *raw.shape[1:])


def heads_out(heads: int) -> Turn:
    """An output projection, (d_model, heads · d_head), to (heads, d_model, d_head).

    >>> heads_out(2)(np.arange(4.0).reshape(1, 4)).tolist()
    [[[0.0, 1.0]], [[2.0, 3.0]]]
    """
    return lambda raw: raw.reshape(raw.shape[0], heads, -1).transpose(1, 0, 2)


def after(first: Turn, second: Turn) -> Turn:
    """One turn after another."""
    return lambda raw: second(first(raw))
