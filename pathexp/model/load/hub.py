"""Models of the Hugging Face Hub: found in its local cache, where other tools have put them; fetched only when that is asked for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import LoadError
from ...installation import install_command
from ..model import Model
from .huggingface import load_huggingface
from .options import TRANSFORMERS, Options

FILES = (
    "config.json",
    "tokenizer.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",
)
"""What a model is made of, and all that is fetched."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[\w.-]{1,96})?")
_ENDINGS = (".npz", ".bin", ".gguf", ".safetensors", ".json", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def is_hub_name(name: object) -> bool:
    """Whether a name can be one of the hub: ``org/name``, or one without an owner, and no file's by its ending.

    >>> is_hub_name("org/name"), is_hub_name("gpt2"), is_hub_name("./org/name"), is_hub_name("weights.npz")
    (True, True, False, False)
    """
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and not name.lower().endswith(_ENDINGS)


def load_hub(name: str, options: Options) -> Model | None:
    """Read a model of the hub from the local cache; None where it is not there and ``options.download`` is not set.

    The cache is where HF_HUB_CACHE or HF_HOME say. ``options.revision`` is a branch, a tag or a commit.

    Raises LoadError where the package ``huggingface_hub`` is asked for and not installed, where nothing can be fetched, for
    a part of a model, and as for a directory.
    """
    options.only(
        (*TRANSFORMERS, "revision", "download", "tokenizer"), repr(name), "a model of the hub leaves"
    )
    hub = _hub()
    if hub is None and not (options.download or options.revision):
        return None
    if hub is None:
        raise LoadError(
            f"Cannot load {name!r}: models of the hub need the package huggingface_hub: {install_command('hf')}."
        )
    folder = _fetched(hub, name, options) if options.download else _cached(hub, name, options)
    if folder is None:
        return None
    try:
        found = load_huggingface(folder, replace(options, revision=None, download=False))
    except LoadError as error:
        raise LoadError(f"{error}{_rest(name, folder, options)}") from error
    return replace(found, name=name)


def not_in_cache(name: str) -> str:
    """Return, for a message, that a name of the hub is not in the cache, and both ways on."""
    hub = _hub()
    if hub is None:
        return f" To look for it in the Hugging Face cache: {install_command('hf')}."
    return (
        f" It is not in the Hugging Face cache either ({str(hub.constants.HF_HUB_CACHE)!r}): fetch it with load({name!r}, "
        f"download=True), --download on the command line, or `hf download {name}`."
    )


def _hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.constants
    except ImportError:
        return None
    return huggingface_hub


def _cached(hub: Any, name: str, options: Options) -> Path | None:
    """The folder of a model in the cache, or None where there is none. Nothing is asked of any server."""
    try:
        return Path(
            hub.snapshot_download(
                name, revision=options.revision, allow_patterns=list(FILES), local_files_only=True
            )
        )
    except (OSError, ValueError):  # not there, no name of the hub, or a cache that is damaged
        if options.revision is None:
            return None
        raise LoadError(
            f"Cannot load {name!r}: revision {options.revision!r} is not in the Hugging Face cache "
            f"({str(hub.constants.HF_HUB_CACHE)!r}). Fetch it with load({name!r}, revision={options.revision!r}, "
            "download=True), or --download."
        ) from None


def _fetched(hub: Any, name: str, options: Options) -> Path:
    try:
        return Path(hub.snapshot_download(name, revision=options.revision, allow_patterns=list(FILES)))
    except Exception as error:  # of the network, the server, the disk: the package raises what these do
        said = " ".join(str(error).split())
        raise LoadError(
            f"Cannot fetch {name!r} from the Hugging Face Hub: {said.rstrip('.')[:300]}. Files that are here already load by their path."
        ) from error


def _rest(name: str, folder: Path, options: Options) -> str:
    """What to do where the cache holds a part of a model."""
    if options.download:
        return f" These are all files of {name!r} that can be read: {', '.join(sorted(p.name for p in folder.iterdir()))}."
    return f" {str(folder)!r} is what the cache holds of {name!r}; load(..., download=True), or --download, fetches the rest."
