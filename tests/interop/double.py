"""Runs of transformers in double precision throughout.

Models of transformers compute norms, softmax and rotary angles in float32 whatever the weights are. Inside
``in_double`` every call of torch that asks for float32 gets float64, so that both sides round alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _Double(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.float:
            function = _doubled
        args = tuple(_wider(value) for value in args)
        return function(*args, **{name: _wider(value) for name, value in (kwargs or {}).items()})


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in double precision, laid out anew as a tensor is that was raised from another precision."""
    return tensor.double().clone(memory_format=torch.contiguous_format)


def _wider(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


@contextmanager
def in_double() -> Iterator[None]:
    """Everything that torch makes in here is float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Double(), torch.no_grad():
            yield
    finally:
        torch.set_default_dtype(before)


def shake(model: torch.nn.Module, seed: int) -> None:
    """Seeded weights in which nothing is special: gains not one, biases not zero, matrices of order one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.ndim == 1:
            around = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
            parameter.data = around + 0.3 * values
        else:
            parameter.data = values / parameter.shape[-1] ** 0.5
