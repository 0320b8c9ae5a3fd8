"""Commands that average over a corpus."""

from __future__ import annotations

from ..circuits.corpus.order_importance import order_importance
from ..circuits.small.bigrams import bigrams
from .command import REQUIRED_CORPUS, ZERO, Command, Option, whole

COMMANDS = (
    Command(
        "order-importance", order_importance, "a corpus",
        "weigh the orders of a model's paths, and single terms, by loss on a corpus",
        "pathexp order-importance attn-2l --corpus book.txt --windows 8",
        states=True, windows=8,
        options=(
            REQUIRED_CORPUS,
            ZERO, Option("max_order", "weigh single terms up to this order (default: 1)", whole(-1), metavar="K"),
        ),
    ),
    Command(
        "bigrams", bigrams, "a corpus", "compare a model's direct path with the bigrams of a corpus",
        "pathexp bigrams attn-0l --corpus book.txt --min-count 10",
        model="attn-0l", states=True,
        options=(
            REQUIRED_CORPUS,
            Option("min_count", "compare bigrams that occur so often (default: 5)", whole(1), metavar="N"),
            Option("chunks", "read only so many chunks of 65,536 characters", whole(1), metavar="N"),
        ),
    ),
)  # fmt: skip
