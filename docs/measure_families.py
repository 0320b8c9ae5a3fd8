"""Measure how far every family of models agrees with transformers, and write the table of docs/architectures.md.

    PYTHONPATH=. python docs/measure_families.py [--write] [--only WORD]

Prints the table; with --write puts it into the page, where rows of families that were not measured stay. Needs torch and
transformers; a few minutes of one core. The models are those of the tests named in MODULES: seeded, random, of awkward
shapes, in double precision. A module has CASES by name and `made(case, folder)`, which saves one as transformers does.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import pathexp as px
from pathexp.errors import LoadWarning
from tests.interop.double import in_double
from tests.interop.test_families import HEADS, differences, head_difference, headed

PAGE = Path(__file__).resolve().with_name("architectures.md")
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
MODULES = ("test_families", "test_expert_families", "test_latent_families")
HEADER = (
    "| `model_type` | what is frozen | models | logits | patterns | sum of all paths | test |\n"
    "|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Measured:
    """One model: its family, what is frozen in it, and three differences; None where transformers gives no patterns."""

    family: str
    frozen: str
    logits: float
    patterns: float | None
    paths: float
    test: str


def measured(family: str, ours: px.Model, found: tuple[float, float | None], test: str) -> Measured:
    """Add up the paths of one model, gates frozen and MLPs as sources, beside what was measured of it."""
    trace = ours.run(np.random.default_rng(1).integers(0, ours.config.d_vocab - 1, 9))
    expansions = [px.expand(px.freeze(trace, mlp=mode)) for mode in ("gate", "source")]
    verdicts = [terms.verify() for terms in expansions]
    assert all(verdict.ok for verdict in verdicts), family
    paths = max(verdict.max_error for verdict in verdicts) / float(np.abs(trace.logits).max())
    frozen = "; ".join(line.split(":")[0] for line in expansions[0].graph.frozen)
    return Measured(family, re.sub(r"(\w)\(z\)/z", r"\1(z) / z", frozen), *found, paths, test)


def cases(only: str) -> Iterator[Measured]:
    """Yield what is measured of every case of every module whose name has a word."""
    for name in MODULES:
        module: Any = import_module(f"tests.interop.{name}")
        for case in (case for case in module.CASES if only in case):
            with tempfile.TemporaryDirectory() as folder:
                model = module.made(case, Path(folder))
                family = json.loads((Path(folder) / "config.json").read_text())["model_type"]
                ours = px.load(folder)
                yield measured(family, ours, differences(model, ours), name)


def heads(only: str) -> Iterator[Measured]:
    """Yield the same of heads over classes, as models of one family of their own."""
    for name in (name for name in HEADS if only in name):
        with tempfile.TemporaryDirectory() as folder:
            model = headed(name, Path(folder))
            ours = px.load(folder)
            yield measured(
                "heads over classes", ours, (head_difference(name, model, ours), None), "test_families"
            )


def rows(found: Iterator[Measured]) -> Iterator[tuple[str, str]]:
    """Yield a row of the table by family: what is frozen in its first model, and the worst of all its models."""
    by_family: dict[str, list[Measured]] = defaultdict(list)
    for one in found:
        print(one, flush=True)
        by_family[one.family].append(one)
    for family, models in by_family.items():
        patterns = [one.patterns for one in models if one.patterns is not None]
        shown = f"{max(patterns):.0e}" if patterns else "–"
        logits, paths = (max(getattr(one, name) for one in models) for name in ("logits", "paths"))
        frozen = (
            models[0].frozen
            if family in px_families()
            else "as in their families, and the layer before the outputs"
        )
        name = f"`{family}`" if family in px_families() else family
        yield (
            family,
            (
                f"| {name} | {frozen} | {len(models)} | {logits:.0e} | {shown} | {paths:.0e} | `{models[0].test}` |"
            ),
        )


def px_families() -> frozenset[str]:
    """Return the families that load, by their `model_type`."""
    return frozenset(import_module("pathexp.model.load.huggingface").FAMILIES)


def on_page(page: str) -> dict[str, str]:
    """Return the rows that a page has, by family."""
    table = page.split(BEGIN)[1].split(END)[0]
    found = re.finditer(r"^\| `?([^|`]+?)`? \|.*$", table, re.MULTILINE)
    return {match[1]: match[0] for match in found if match[1] not in ("model_type", "---")}


def written(page: str, new: dict[str, str]) -> str:
    """Return the page with its table: new rows in the place of old ones, all in alphabetical order."""
    kept = {**on_page(page), **new}
    table = "\n".join([HEADER, *(kept[family] for family in sorted(kept))])
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--only", default="", help="measure only cases with this word in their name")
    given = parser.parse_args()
    warnings.simplefilter("ignore", LoadWarning)
    with in_double():
        new = dict(rows(one for source in (cases, heads) for one in source(given.only)))
    print(HEADER, *new.values(), sep="\n")
    if given.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), new), encoding="utf-8")


if __name__ == "__main__":
    main()
