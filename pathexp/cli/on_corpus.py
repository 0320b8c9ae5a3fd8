"""Commands that average over a corpus."""

from __future__ import annotations

from ..circuits.corpus.order_importance import order_importance
from .command import REQUIRED_CORPUS, Command, Option, whole

COMMANDS = (
    Command(
        "order-importance", order_importance, "a corpus",
        "weigh the orders of a model's paths, and single terms, by loss on a corpus",
        "pathexp order-importance attn-2l --corpus book.txt --windows 8",
        states=True, windows=8,
        options=(
            REQUIRED_CORPUS,
            Option("max_order", "weigh single terms up to this order (default: 1)", whole(-1), metavar="K"),
        ),
    ),
)  # fmt: skip
