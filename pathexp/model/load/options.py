"""What a reader may be told, beyond the path."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...arguments import SWITCH, TEXT, check, one_of
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
    adapter: of a model of transformers, the folder of a low-rank adapter of peft, or several; None: the one in its own folder.
    tokenizer: of a live model, which has none of its own, or in the place of a file's: one of transformers, or the path of a tokenizer.json.
    revision: of a model of the hub, the branch, tag or commit.
    download: whether a model of the hub may be fetched; else it must be in the local cache.
    config: of a state dict, its configuration, as a mapping or the object itself.
    names: of arrays under other names, which of ours each is, as pathexp.model.load.named_arrays.from_named has it.
    unknown: of a vocabulary of pieces, as bundled models have, what is done with characters that it has not: "refuse",
        "skip", or a text in the place of each; counted in a LoadWarning.
    header: of a file of arrays, config, names, ignore and tokenizer, as a mapping or the path of a JSON file.
    """

    tie: bool = False
    no_unembedding: bool = False
    vocab_from_checkpoint: bool = False
    strict: bool = False
    ignore: tuple[str, ...] = ()
    embedding_scale: str = "float64"
    adapter: Any = None
    tokenizer: Any = None
    config: Any = None
    names: Any = None
    header: Any = None
    unknown: str | None = None
    revision: str | None = None
    download: bool = False

    def __post_init__(self) -> None:
        for name in ("tie", "no_unembedding", "vocab_from_checkpoint", "strict", "download"):
            check(name, getattr(self, name), SWITCH, LoadError)
        object.__setattr__(self, "ignore", _names(self.ignore))
        check("unknown", self.unknown, TEXT.or_none, LoadError)
        check("revision", self.revision, TEXT.or_none, LoadError)
        check("embedding_scale", self.embedding_scale, one_of("float64", "bfloat16"), LoadError)

    def only(self, known: Collection[str], where: str, who: str) -> None:
        """Raise LoadError for an option that decides nothing here: ``who`` leaves it nothing open.

        >>> Options(strict=True).only(("strict",), "'x'", ".npz files leave")
        """
        found = [f.name for f in fields(self) if getattr(self, f.name) != f.default and f.name not in known]
        if found:
            takes = f" It takes {', '.join(known)}." if known else ""
            raise LoadError(
                f"Cannot load {where}: {who} nothing open that {found[0]} would decide, but found "
                f"{found[0]}={getattr(self, found[0])!r:.60}.{takes}"
            )


CHECKPOINT = ("tie", "no_unembedding", "vocab_from_checkpoint", "strict", "ignore", "embedding_scale")
"""What tensors and their configuration may leave open."""

TRANSFORMERS = (*CHECKPOINT, "adapter")
"""What a model of transformers may leave open."""


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
