"""The two tables of tokens, embedding and unembedding: stored both, or one for the two."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...errors import LoadError, LoadWarning
from .checkpoint import Checkpoint
from .gather import Array, Piece, as_it_is, transposed
from .options import Options


@dataclass(frozen=True)
class Tables:
    """Where the tables of a checkpoint are; ``shared``: one tensor is both."""

    pieces: tuple[Piece, ...]
    shared: bool
    d_out: int | None = None
    """How many outputs there are, where they are not the vocabulary."""

    def complete(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The gathered arrays with W_E and W_U both; shared tables share memory. Without an unembedding, the identity."""
        if self.d_out is not None and "W_U" not in arrays:
            return {**arrays, "W_U": np.eye(self.d_out)}
        if not self.shared:
            return dict(arrays)
        return {**arrays, "W_U": arrays["W_E"].T}


def find_tables(
    checkpoint: Checkpoint,
    names: tuple[str, str],
    shape: tuple[int, int],
    tied: bool,
    options: Options,
    head: str | None = None,
) -> Tables:
    """Decide where W_E and W_U come from; ``shape`` is (d_vocab, d_model), as both are stored.

    A map to classes takes the place of an unembedding: ``head``, or where none is stored, `score` and its like.
    Raises LoadError if one is missing in a model that is not tied (``tie=True`` says that it is), if ``tie``
    is asked of two that differ, and, with ``strict``, if a tied model stores two that differ; without, the
    stored unembedding is taken, with a warning.
    """
    if options.no_unembedding:
        return Tables((Piece(names[0], shape, {"W_E": transposed}),), shared=False, d_out=shape[1])
    stored = [name for name in names if name in checkpoint.shapes]
    if head or (names[1] not in stored and (head := _class_head(checkpoint))):
        return _with_head(checkpoint, names[0], shape, head)
    if len(stored) == 2 and options.tie and not tied:
        _check_tie(checkpoint, names)
        tied = True
    if len(stored) == 2 and not (tied and _equal(checkpoint, names, options)):
        return Tables(_both(names, shape, ("W_E", "W_U")), shared=False)
    if len(stored) == 2:
        return Tables(_both(names, shape, ("W_E", None)), shared=True)
    if len(stored) == 1 and (tied or options.tie):
        return Tables((Piece(stored[0], shape, {"W_E": transposed}),), shared=True)
    if len(stored) == 1:
        raise LoadError(_missing(checkpoint, names, stored[0]))
    return Tables(_both(names, shape, ("W_E", "W_U")), shared=False)  # the gathering will miss them both


def _class_head(checkpoint: Checkpoint) -> str | None:
    """The map from the final stream to classes, where one is stored in the place of an unembedding."""
    return next(
        (name for name in ("score", "classifier", "qa_outputs") if f"{name}.weight" in checkpoint.shapes),
        None,
    )


def _with_head(checkpoint: Checkpoint, embedding: str, shape: tuple[int, int], head: str) -> Tables:
    if not checkpoint.shapes.get(f"{head}.weight"):
        raise LoadError(
            f"Cannot load {checkpoint.where}: {head + '.weight'!r}, the map to the outputs of a model of its class, "
            "is missing. If no outputs are wanted: load(..., no_unembedding=True)."
        )
    classes = checkpoint.shapes[f"{head}.weight"][0]
    pieces = [Piece(embedding, shape, {"W_E": transposed})]
    pieces.append(Piece(f"{head}.weight", (classes, shape[1]), {"W_U": as_it_is}))
    if f"{head}.bias" in checkpoint.shapes:
        pieces.append(Piece(f"{head}.bias", (classes,), {"b_U": as_it_is}))
    return Tables(tuple(pieces), shared=False, d_out=classes)


def _both(
    names: tuple[str, str], shape: tuple[int, int], ours: tuple[str | None, str | None]
) -> tuple[Piece, ...]:
    turns = transposed, as_it_is
    return tuple(
        Piece(name, shape, {our: turn} if our else {})
        for name, our, turn in zip(names, ours, turns, strict=True)
    )


def _missing(checkpoint: Checkpoint, names: tuple[str, str], stored: str) -> str:
    absent = names[1] if stored == names[0] else names[0]
    return (
        f"Cannot load {checkpoint.where}: {absent!r} is missing, and the configuration does not say that the "
        f"two tables of tokens are tied (tie_word_embeddings). If {stored!r} is meant to be both: "
        "load(..., tie=True), or --tie on the command line. If the model is meant to have no unembedding: "
        "load(..., no_unembedding=True); its outputs are then the features of the final stream."
    )


def _check_tie(checkpoint: Checkpoint, names: tuple[str, str]) -> None:
    """Asked to be tied, two tables must be one."""
    if not np.array_equal(checkpoint.read(names[0]), checkpoint.read(names[1])):
        raise LoadError(
            f"Cannot load {checkpoint.where}: tie=True, but {names[1]!r} is stored too and differs from "
            f"{names[0]!r}. Leave tie out, and each table is what is stored."
        )


def _equal(checkpoint: Checkpoint, names: tuple[str, str], options: Options) -> bool:
    if np.array_equal(checkpoint.read(names[0]), checkpoint.read(names[1])):
        return True
    problem = f"{names[1]!r} differs from {names[0]!r}, although the configuration says that they are tied"
    if options.strict:
        raise LoadError(f"Cannot load {checkpoint.where}: {problem}. Without strict, {names[1]!r} is taken.")
    warnings.warn(f"{checkpoint.where}: {problem}; {names[1]!r} is taken.", LoadWarning, stacklevel=2)
    return False
