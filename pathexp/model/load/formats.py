"""Which reader reads which path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ...errors import LoadError
from ..model import Model
from ..npz import load_npz
from .gguf_file import load_gguf
from .huggingface import load_huggingface
from .llama2c import load_llama2c
from .options import Options

_READERS: Mapping[str, Callable[[Path], Model]] = {
    ".npz": load_npz,
    ".bin": load_llama2c,
}
_OF_FOLDERS = (".safetensors", ".json")
_ENDINGS = ", ".join((*_READERS, ".gguf", *_OF_FOLDERS))
_PICKLES = (".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def load_path(path: Path, options: Options) -> Model:
    """Read a model from a file or directory that is there, by its ending.

    Raises LoadError for an ending that is not known, Python pickles among them, for options where the format
    leaves nothing open, and as the readers do.
    """
    ending = path.suffix.lower()
    if path.is_dir() or ending in _OF_FOLDERS:
        return load_huggingface(path, options)
    if ending == ".gguf":
        return load_gguf(path, options)
    if ending in _PICKLES:
        raise LoadError(
            f"Cannot load {str(path)!r}: Python pickles can run code when they are read, and are refused. "
            "Convert it with safetensors.torch.save_file, or save_pretrained(..., safe_serialization=True)."
        )
    if ending not in _READERS:
        raise LoadError(
            f"Cannot load {str(path)!r}: files ending in {ending or 'nothing'!r} are not read; those that are "
            f"end in {_ENDINGS}, and directories with config.json."
        )
    if options != Options():
        raise LoadError(
            f"Cannot load {str(path)!r}: {ending} files leave nothing open, but found {options!r}."
        )
    return _READERS[ending](path)
