"""What a reader may be told, beyond the path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...arguments import SWITCH, check, one_of
from ...errors import LoadError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Decisions that a file leaves open; each is named in the error or warning that asks for it.

    tie: use the embedding as unembedding (or the reverse) where only one is stored.
    no_unembedding: the checkpoint has none, and none is wanted: outputs are the features of the final stream.
    vocab_from_checkpoint: believe the tensors, not the configuration, about the size of the vocabulary.
    strict: raise where the default is to warn and go on.
    ignore: configuration keys that are known to you not to matter.
    embedding_scale: "float64", or "bfloat16" to round Gemma's √d_model as a run in bfloat16 does.
    """

    tie: bool = False
    no_unembedding: bool = False
    vocab_from_checkpoint: bool = False
    strict: bool = False
    ignore: tuple[str, ...] = ()
    embedding_scale: str = "float64"

    def __post_init__(self) -> None:
        for name in ("tie", "no_unembedding", "vocab_from_checkpoint", "strict"):
            check(name, getattr(self, name), SWITCH, LoadError)
        object.__setattr__(self, "ignore", _names(self.ignore))
        check("embedding_scale", self.embedding_scale, one_of("float64", "bfloat16"), LoadError)


def options(values: Mapping[str, Any]) -> Options:
    """Options from keyword arguments.

    Raises LoadError for a name that is not known.

    >>> options({"tie": True}).tie
    True
    """
    known = [field.name for field in fields(Options)]
    unknown = [name for name in values if name not in known]
    if unknown:
        raise LoadError(f"load takes no option {unknown[0]!r}; it takes {', '.join(known)}.")
    return Options(**values)


def _names(value: Iterable[str]) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise LoadError(f"ignore must be names of configuration keys, found {value!r}.")
    return names
