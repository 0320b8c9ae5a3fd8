"""Low-rank adapters as peft saves them: adapter_config.json and adapter_model.safetensors, applied to tensors as they are read.

Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models": W + (α / r) B A, or (α / √r) B A (Kalajdzievski 2023, "rsLoRA").
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import LoadError
from .checkpoint import Checkpoint, Numbers, Shape, listed
from .keys import Keys, read_keys
from .safetensors_file import open_safetensors

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_FACTOR = re.compile(r"(.+)\.(lora_A\.weight|lora_B\.weight|lora_embedding_A|lora_embedding_B)")
_BASE = re.compile(r"(.+?)(\.base_layer)?\.(weight|bias)")
_INERT = (
    "alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "exclude_modules", "inference_mode", "layers_pattern",
    "layers_to_transform", "lora_dropout", "megatron_core", "modules_to_save", "peft_type", "peft_version", "qalora_group_size",
    "r", "revision", "target_modules", "task_type",
)  # fmt: skip
_OFF = {
    "use_dora": "magnitudes of rows (DoRA) are not known here",
    "use_qalora": "QALoRA is not known here",
    "lora_bias": "biases of B are not known here",
    "target_parameters": "adapters of single parameters are not known here",
    "trainable_token_indices": "tokens trained by their number are not known here",
    "layer_replication": "layers that are there several times are not known here",
    "alora_invocation_tokens": "adapters that begin at a token are not known here",
}
_PLAIN_STARTS = (True, False, None, "gaussian", "orthogonal", "eva")
"""Ways to begin that leave the base model's own weights as they are."""


@dataclass(frozen=True)
class Delta:
    """One low-rank change of a map: scale · B A, (outputs, inputs); as stored, it may be the other way round."""

    b: npt.NDArray[np.float64]
    a: npt.NDArray[np.float64]
    scale: float
    turned: bool

    @property
    def shape(self) -> Shape:
        """The shape of the tensor that it is added to."""
        whole = (self.b.shape[0], self.a.shape[1])
        return whole[::-1] if self.turned else whole

    def rows(self, begin: int, end: int) -> npt.NDArray[np.float64]:
        """Some rows of the change, as the tensor has them."""
        left, right = (self.a.T, self.b.T) if self.turned else (self.b, self.a)
        found: npt.NDArray[np.float64] = self.scale * (left[begin:end] @ right)
        return found


@dataclass(frozen=True)
class Adapter:
    """What one adapter changes: ``deltas`` by the name of a tensor, and the tensors that it ``replaces``."""

    where: str
    said: str
    """What is recorded of it in the history of a model."""
    deltas: Mapping[str, Delta]
    replaces: Mapping[str, Numbers] = field(default_factory=dict)


@dataclass(frozen=True)
class Adapted:
    """A checkpoint with adapters applied; numbers are made whenever they are read, and nothing is written."""

    behind: Checkpoint
    deltas: Mapping[str, Sequence[Delta]]
    replaces: Mapping[str, Numbers]

    @property
    def where(self) -> str:
        """The file or object behind."""
        return self.behind.where

    @property
    def stays(self) -> bool:
        """Whether the numbers behind stay."""
        return self.behind.stays

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by name."""
        return {**self.behind.shapes, **{name: array.shape for name, array in self.replaces.items()}}

    def read(self, name: str) -> Numbers:
        """One tensor, with what is added to it."""
        return self.rows(name, 0, self.shapes[name][0]) if name in self.deltas else self._stored(name)

    def rows(self, name: str, begin: int, end: int) -> Numbers:
        """Some rows of one tensor, with what is added to them."""
        stored = (
            self.replaces[name][begin:end] if name in self.replaces else self.behind.rows(name, begin, end)
        )
        if name not in self.deltas:
            return stored
        return stored.astype(np.float64) + sum(delta.rows(begin, end) for delta in self.deltas[name])

    def _stored(self, name: str) -> Numbers:
        return self.replaces[name] if name in self.replaces else self.behind.read(name)


def has_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter of peft."""
    return (folder / CONFIG).is_file()


def alone(folder: Path) -> LoadError:
    """The error for an adapter without its base."""
    base = read_keys(folder / CONFIG).get("base_model_name_or_path")
    named = f" It was made for {base!r:.200}." if isinstance(base, str) and base else ""
    wanted = base if isinstance(base, str) and base else "BASE"
    return LoadError(
        f"Cannot load {str(folder)!r}: it is an adapter of peft, low-rank changes of another model.{named} Load that with it: "
        f"load({wanted!r:.200}, adapter={str(folder)!r}), or --adapter on the command line."
    )


def read_adapters(given: object, folder: Path | None = None) -> list[Adapter]:
    """The adapters that are given: the path of one or several folders; None: that in the model's own folder, if it has one.

    Raises LoadError for what is none.
    """
    if given is None:
        return [read_adapter(folder)] if folder is not None and has_adapter(folder) else []
    several = [given] if isinstance(given, str | Path) else given
    if not isinstance(several, list | tuple) or not all(isinstance(each, str | Path) for each in several):
        raise LoadError(
            f"adapter: expected the folder of an adapter, or a list of them, found {given!r:.60}."
        )
    return [read_adapter(Path(each)) for each in several]


def read_adapter(folder: Path) -> Adapter:
    """Read the folder of an adapter. Raises LoadError for what is missing, unknown or does not fit together."""
    if not folder.is_dir() or not has_adapter(folder):
        below = sorted(each.parent.name for each in folder.glob(f"*/{CONFIG}")) if folder.is_dir() else []
        more = f" It has folders of adapters: {listed(below)}." if below else ""
        raise LoadError(f"Cannot load {str(folder)!r}: it is no folder with {CONFIG} and {TENSORS}.{more}")
    keys = Keys(read_keys(folder / CONFIG), repr(str(folder / CONFIG)))
    _check(keys)
    if not (folder / TENSORS).is_file():
        raise LoadError(
            f"Cannot load {str(folder)!r}: it has no {TENSORS}. Save the adapter with safe_serialization=True; pickles "
            "(adapter_model.bin) can run code when they are read, and are refused."
        )
    file = open_safetensors(folder / TENSORS)
    factors, replaces = _sorted(file, str(folder))
    deltas = {f"{module}.weight": _delta(module, pair, keys) for module, pair in factors.items()}
    said = f"adapter {folder.resolve().name}: rank {_told(keys, 'r'):g}, alpha {_told(keys, 'lora_alpha'):g}"
    return Adapter(repr(str(folder)), f"{said}, {len(deltas)} maps", deltas, replaces)


def _check(keys: Keys) -> None:
    if keys.get("peft_type") != "LORA":
        raise keys.error(f"'peft_type' is {keys.get('peft_type')!r:.40}; known is 'LORA'")
    for key, reason in _OFF.items():
        keys.must_be_off(key, reason)
    start = keys.get("init_lora_weights", True)
    if not any(start is each or (isinstance(start, str) and start == each) for each in _PLAIN_STARTS):
        raise keys.error(
            f"'init_lora_weights' is {start!r:.40}, which changes the base model's own weights; convert the adapter with "
            "save_pretrained(..., path_initial_model_for_weight_conversion=...)"
        )
    keys.switch("use_rslora", False)
    for key in ("lora_alpha", "fan_in_fan_out", "rank_pattern", "alpha_pattern"):
        keys.get(key)
    keys.finish(_INERT, off=(None, False, {}, []))


def _sorted(file: Checkpoint, where: str) -> tuple[dict[str, dict[str, Any]], dict[str, Numbers]]:
    """The factors by module and letter, and the tensors that stand for those of the base."""
    factors: dict[str, dict[str, Any]] = {}
    replaces: dict[str, Numbers] = {}
    for name in file.shapes:
        plain = name.removeprefix(_PREFIX)
        if found := _FACTOR.fullmatch(plain):
            letter = found[2].removeprefix("lora_")
            factors.setdefault(found[1], {})[letter] = file.read(name).astype(np.float64)
        elif plain != name and (found := _BASE.fullmatch(plain)) and "lora_" not in plain:
            replaces[f"{found[1]}.{found[3]}"] = file.read(name)
        else:
            raise LoadError(
                f"Cannot load {where!r}: {name!r:.200} is no tensor of an adapter that is known here."
            )
    if not factors:
        raise LoadError(f"Cannot load {where!r}: it has no low-rank factors (lora_A, lora_B) at all.")
    return factors, replaces


def _delta(module: str, pair: Mapping[str, Any], keys: Keys) -> Delta:
    """The change of one module's map, its rank held against the configuration."""
    embedding = "embedding_A" in pair or "embedding_B" in pair
    letters = ("embedding_A", "embedding_B") if embedding else ("A.weight", "B.weight")
    if sorted(pair) != sorted(letters):
        raise keys.error(f"{module!r} has {listed(sorted(pair))}, expected both factors")
    a, b = pair[letters[0]], pair[letters[1]]
    rank, alpha = (
        _of_module(module, keys, "rank_pattern", "r"),
        _of_module(module, keys, "alpha_pattern", "lora_alpha"),
    )
    if a.ndim != 2 or b.ndim != 2 or a.shape[0] != rank or b.shape[1] != rank:
        raise keys.error(
            f"{module!r} has factors of shapes {a.shape} and {b.shape}; the rank told is {rank:g}"
        )
    scale = alpha / (math.sqrt(rank) if keys.switch("use_rslora", False) else rank)
    return Delta(b, a, scale, embedding or keys.switch("fan_in_fan_out", False))


def _of_module(module: str, keys: Keys, pattern: str, key: str) -> float:
    """The rank or the alpha of a module: of the first pattern that is the end of its name, else the one for all."""
    told = keys.get(pattern, {})
    if not isinstance(told, Mapping):
        raise keys.error(f"{pattern!r} must be an object, found {told!r:.60}")
    for name, value in told.items():
        if not re.fullmatch(r"\^?[\w.]+\$?", name):
            raise keys.error(f"{pattern!r} has {name!r:.80}: patterns other than names are not known here")
        whole, plain = name.startswith("^"), name.strip("^$")
        if module == plain or (not whole and module.endswith(f".{plain}")):
            return Keys({key: value}, keys.where).number(key)
    return _told(keys, key)


def _told(keys: Keys, key: str) -> float:
    found = keys.size(key) if key == "r" else keys.number(key)
    if not math.isfinite(found):
        raise keys.error(f"{key!r} must be finite, found {found!r}")
    return found


def adapted(
    checkpoint: Checkpoint, adapters: Iterable[Adapter], tables: tuple[str, str], tied: bool
) -> Checkpoint:
    """A checkpoint with adapters applied, in order; ``tables`` are the names of its two tables of tokens.

    Raises LoadError for modules that the model has not, for changes of another shape, for two adapters that replace the same
    tensor, and for one table of a tied model, which peft changes on one side alone.
    """
    deltas: dict[str, list[Delta]] = {}
    replaces: dict[str, Numbers] = {}
    for adapter in adapters:
        for name, array in adapter.replaces.items():
            _check_place(adapter, name, array.shape, {**checkpoint.shapes, **_head(checkpoint, tables, name)})
            if name in replaces and not np.array_equal(replaces[name], array):
                raise LoadError(
                    f"Cannot load {adapter.where}: another adapter replaces {name!r} too, by other numbers."
                )
            replaces[name] = array
        for name, delta in adapter.deltas.items():
            deltas.setdefault(name, []).append(_fitting(adapter, name, delta, checkpoint.shapes))
    found = Adapted(checkpoint, deltas, replaces)
    touched = [name for name in tables if name in deltas or name in replaces]
    if tied and touched and not all(name in found.shapes for name in tables):
        raise LoadError(
            f"Cannot load {checkpoint.where}: {touched[0]!r} is both tables of tokens of a tied model, and peft changes it as "
            "one of them alone. Merge the adapter with merge_and_unload(), untied, and load what that saves."
        )
    return found if deltas or replaces else checkpoint


def _head(checkpoint: Checkpoint, tables: tuple[str, str], name: str) -> Mapping[str, Shape]:
    """The place of an unembedding that a tied model does not store, and an adapter may."""
    free = name == tables[1] and name not in checkpoint.shapes and tables[0] in checkpoint.shapes
    return {name: checkpoint.shapes[tables[0]]} if free else {}


def _fitting(adapter: Adapter, name: str, delta: Delta, shapes: Mapping[str, Shape]) -> Delta:
    """A change in the direction of its tensor: those that are not square say it themselves."""
    turned = Delta(delta.b, delta.a, delta.scale, not delta.turned)
    if name in shapes and delta.shape != tuple(shapes[name]) == turned.shape:
        return turned
    _check_place(adapter, name, delta.shape, shapes)
    return delta


def _check_place(adapter: Adapter, name: str, shape: Shape, shapes: Mapping[str, Shape]) -> None:
    if name not in shapes:
        raise LoadError(
            f"Cannot load {adapter.where}: it changes {name!r}, which the model has not. Is it an adapter of another model?"
        )
    if tuple(shapes[name]) != tuple(shape):
        raise LoadError(
            f"Cannot load {adapter.where}: it changes {name!r} of shape {list(shapes[name])} by {list(shape)}. Is it an adapter "
            "of another model?"
        )
