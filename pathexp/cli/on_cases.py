"""Commands about many prompts."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ..circuits.cases.faithfulness import Faithfulness, faithfulness
from ..circuits.cases.zero_point import ZEROS
from ..model import Model
from .cases import CASES, RESUME, WORKERS, executor_of
from .command import Command, Option, fraction


def shares(words: str) -> tuple[float, ...]:
    """Read numbers from 0 to 1.

    >>> shares("1,0.1,0")
    (1.0, 0.1, 0.0)
    """
    found = tuple(fraction(word) for word in words.replace(",", " ").split())
    if not found:
        raise argparse.ArgumentTypeError(f"expected shares such as 1,0.1,0, got {words!r}")
    return found


def faithfulness_of_file(
    model: Model, *, cases: str, workers: int | None = None, whole: bool = False, **options: Any
) -> Faithfulness:
    """Return the faithfulness of circuits over the cases of a file, on so many processes."""
    given: dict[str, Any] = {**options, "edges": ()} if whole else options
    with executor_of(workers) as executor:
        return faithfulness(model, cases, executor=executor, **given)


COMMANDS = (
    Command(
        "faithfulness", faithfulness_of_file, "one model",
        "measure how much of what a model does over many prompts a circuit does alone",
        "pathexp faithfulness attn-2l --cases cases.jsonl --edges 1,0.1,0",
        options=(
            replace(CASES, required=True, help="the cases, a .jsonl or .csv file"), WORKERS, RESUME,
            Option("edges", "shares of the ranked edges that are kept, such as 1,0.1,0", shares, metavar="SHARES"),
            Option("circuit", "a query over paths, or a .json file of edges and scores", metavar="QUERY"),
            Option("whole", "only the circuit that the file marks, not shares of its ranked edges", flag=True),
            Option("cut", "remove the circuit, and keep what it leaves", flag=True),
            Option("how", "frozen as in each run, or live", choices=("frozen", "live")),
            Option("zero", "what edges that are cut carry", choices=ZEROS),
            Option("ranking", "rank edges by what cutting each takes, frozen (flow) or live", choices=("flow", "live")),
            Option("inputs", "what reads along kept edges: q, k, v of heads, m of MLPs"),
        ),
    ),
)  # fmt: skip
