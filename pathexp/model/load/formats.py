"""Which reader reads which path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ...errors import LoadError
from ..model import Model
from ..npz import load_npz
from .gguf_model import load_gguf
from .given_tokenizer import given_tokenizer
from .header import ENDINGS, has_header, load_with_header
from .huggingface import load_huggingface
from .llama2c import load_llama2c
from .options import CHECKPOINT, TRANSFORMERS, Options
from .pickles import of_pickles

_READERS: Mapping[str, Callable[[Path], Model]] = {
    ".npz": load_npz,
    ".bin": load_llama2c,
}
_OF_FOLDERS = (".safetensors", ".json")
_READ = (
    "What can be loaded: .npz as Model.save writes it, .npz, .safetensors and .json of other arrays with header=, .bin of "
    "llama2.c, .gguf, .safetensors, and directories with config.json and safetensors."
)
_PARTS = ("config.json", ".index.json")
"""The ends of JSON files that are part of a directory as transformers saves it."""
_PICKLES = (".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def _goes_with_header(path: Path, options: Options) -> bool:
    """Whether a file of arrays is told what it is, by options or by a header in it."""
    told = any(getattr(options, name) is not None for name in ("header", "names", "config"))
    ending = path.suffix.lower()
    return path.is_file() and ending in ENDINGS and (told or (ending == ".npz" and has_header(path)))


def load_path(path: Path, options: Options) -> Model:
    """Read a model from a file or directory that is there, by its ending.

    Raises LoadError for an ending that is not known, Python pickles among them, for options where the format
    leaves nothing open, and as the readers do.
    """
    ending = path.suffix.lower()
    if _goes_with_header(path, options):
        return load_with_header(path, options)
    if ending == ".json" and not path.is_dir() and not path.name.endswith(_PARTS):
        raise LoadError(
            f"Cannot load {str(path)!r}: a .json is read only as the config.json or the .safetensors.index.json of a "
            f"directory that transformers saved, which this is not by its name, or with header= (--header FILE). {_READ}"
        )
    if path.is_dir() or ending in _OF_FOLDERS:
        options.only((*TRANSFORMERS, "tokenizer"), repr(str(path)), "directories of transformers leave")
        return given_tokenizer(load_huggingface(path, options), options.tokenizer)
    if ending == ".gguf":
        options.only((*CHECKPOINT, "tokenizer"), repr(str(path)), "GGUF files leave")
        return given_tokenizer(load_gguf(path, options), options.tokenizer)
    if ending in _PICKLES:
        raise LoadError(f"Cannot load {str(path)!r}: {of_pickles(path.name)}")
    if ending not in _READERS:
        raise LoadError(
            f"Cannot load {str(path)!r}: {f'files ending in {ending!r}' if ending else 'files without an ending'} "
            f"are not read. {_READ}"
        )
    options.only((), repr(str(path)), f"{ending} files leave")
    return _READERS[ending](path)
