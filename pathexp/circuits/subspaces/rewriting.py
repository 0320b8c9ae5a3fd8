"""Rewrites that never change what a model computes, one after the other, each with its proof; model in, model out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from ...answer import Answer, Check, Note, Part, Table, columns
from ...arguments import SEED, expect, one_of
from ...errors import PathexpError
from ...expansion.header import model_facts
from ...model import Model, rewrite
from ...model.model import check_model
from ...model.rewrite.difference import Difference
from ...model.rounding import MEASURED

ROTATE = "rotate"
BY_NAME: Mapping[str, Callable[[Model], Model]] = {
    "fold-norms": rewrite.fold_norms,
    "fold-value-biases": rewrite.fold_value_biases,
    "fold-multipliers": rewrite.fold_multipliers,
    "center-writing": rewrite.center_writing,
    "center-unembedding": rewrite.center_unembedding,
    "layernorm-to-rmsnorm": rewrite.layernorm_to_rmsnorm,
    "untie": rewrite.untie,
}
STEPS = (*BY_NAME, ROTATE)


@dataclass(frozen=True, eq=False, repr=False)
class Rewriting(Answer):
    """A model before and after rewrites: `steps`, and by how much each changed the logits; `saved` names the file."""

    live: ClassVar[frozenset[str]] = frozenset({"before", "model"})

    before: Model
    model: Model
    steps: tuple[str, ...]
    differences: tuple[Difference, ...]
    saved: str = ""

    def headline(self) -> str:
        """Return what was done."""
        return f"{self.before.name or 'model'} rewritten: {', '.join(self.steps)}"

    def parts(self) -> Iterator[Part]:
        """Yield what each step did to the logits, the check of all together, and the history of the new model."""
        yield model_facts(self.model)
        yield Table(
            (columns.text("step"), columns.text("logits"), columns.number("change", "largest change", digits=-3, signed=False)),
            [
                (step, "shifted by a constant per position" if _shifts(found) else "the same",
                 found.beside_constants if _shifts(found) else found.raw)
                for step, found in zip(self.steps, self.differences, strict=True)
            ],
            "steps", key=("step",), value="change", shown=None,
        )  # fmt: skip
        for step, found in zip(self.steps, self.differences, strict=True):
            shifted = _shifts(found)
            what = f"{step} keeps the {'log-probabilities' if shifted else 'logits'}"
            error = found.beside_constants if shifted else found.raw
            yield Check(what, error, found.tolerance, MEASURED, reason=found.reason)
        yield Note("\n".join(self.model.history) or "none: there was nothing to do", "history")
        if self.saved:
            yield Note(f"written to {self.saved}")


def _shifts(found: Difference) -> bool:
    return not found.equal and found.by_constants


def rewriting(
    model: Model, *, step: Sequence[str] = ("fold-norms",), seed: int = 0, out: str | Path | None = None
) -> Rewriting:
    """Rewrite a model step by step, in the order given, compare the logits after each, and write the new model to a file.

    Steps: those of `px.rewrite`, by name; `seed` draws the basis of "rotate". A step that is not valid is refused with the
    reason and nothing is written. Elhage et al. 2021, "Model Simplifications", "Technical Details". `out` ends in .npz.
    Costs sixteen runs of up to 9 tokens a step.

    >>> import pathexp as px
    >>> model = px.random_model(layers=1, norm="layernorm", biases=True)
    >>> found = rewriting(model, step=["fold-norms", "center-writing", "layernorm-to-rmsnorm", "rotate"])
    >>> found.ok, found.model.config.norm
    (True, 'rmsnorm')
    """
    check_model(model, "rewriting")
    names = (step,) if isinstance(step, str) else tuple(step)
    if not names:
        raise PathexpError(f"no step was given; choose from: {', '.join(STEPS)}")
    expect(
        "rewriting",
        seed=(seed, SEED),
        **{f"step {n}": (name, one_of(*STEPS)) for n, name in enumerate(names, 1)},
    )
    if out is not None and not str(out).endswith(".npz"):
        raise PathexpError(f"out: expected a file that ends in .npz, got {str(out)!r}")
    differences, current = [], model
    for name in names:
        after = partial(rewrite.rotate, basis=seed)(current) if name == ROTATE else BY_NAME[name](current)
        differences.append(rewrite.compare(current, after))
        current = after
    if out is not None:
        current.save(out)
    return Rewriting(model, current, names, tuple(differences), "" if out is None else str(out))
