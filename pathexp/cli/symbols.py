"""Commands about symbols and files."""

from __future__ import annotations

from ..answer import Report, Table, columns
from ..expansion.derive import derive
from ..expansion.scores.derive_score import POSITIONS, derive_score
from ..model import models
from .command import QUERY, Command, Option, integer, whole


def bundled() -> Report:
    """Return the trained models that ship with the package."""
    head = (columns.text("name", "model"), columns.text("description"), columns.count("parameters"))
    loss = columns.number("text_loss", "loss", "nats per token", 2, signed=False)
    rows = [(card.name, card.description, card.parameters, card.text_loss) for card in models()]
    return Report(
        "trained models that ship with pathexp", (Table((*head, loss), rows, "models", key=("name",)),)
    )


COMMANDS = (
    Command(
        "derive", derive, "symbols and files",
        "write path terms as symbols, from sizes alone",
        "pathexp derive --layers 2 --heads 2 --latex",
        takes="nothing", drawn=False,
        options=(
            Option("layers", "how many layers (2)", whole(0), metavar="N"),
            Option("heads", "heads per layer (2)", whole(1), metavar="N"),
            QUERY,
            Option("max_terms", "how many terms to list (200)", whole(1), metavar="N"),
        ),
    ),
    Command(
        "derive-score", derive_score, "symbols and files",
        "write the terms of an attention score as symbols, from sizes alone",
        "pathexp derive-score --layers 2 --heads 1 --head L1H0",
        takes="nothing", drawn=False,
        options=(
            Option("head", "the head whose scores are expanded (L1H0)"),
            Option("layers", "how many layers (2)", whole(1), metavar="N"),
            Option("heads", "heads per layer (2)", whole(1), metavar="N"),
            Option("positions", "how positions enter", choices=POSITIONS),
            Option("distance", "under rotary positions: how far the key is before the query (1)", integer, metavar="N"),
            Option("model", "the sizes and switches of a bundled model or a file instead"),
            Option("max_terms", "how many terms to list (200)", whole(1), metavar="N"),
        ),
    ),
    Command(
        "models", bundled, "symbols and files",
        "list the trained models that ship with pathexp",
        "pathexp models",
        takes="nothing", drawn=False,
    ),
)  # fmt: skip
