"""Commands about one run of a model."""

from __future__ import annotations

from ..circuits.attribution.attribution import UNITS, attribution
from ..expansion.summary import summary
from .command import QUERY, Command, Option

COMMANDS = (
    Command(
        "expand", summary, "one run",
        "expand a run of a model into path terms that add up to its prediction",
        "pathexp expand attn-2l 'To be, or not to be' --query 'E .* L1H1 U'",
        takes="target", top="k", long=True,
        options=(QUERY, Option("mlp", "whether paths pass through MLPs or start at them", choices=("gate", "source"))),
    ),
    Command(
        "attribution", attribution, "one run",
        "attribute a logit to components, heads, layers, paths or source tokens",
        "pathexp attribution attn-2l 'To be, or not to be' --by layer",
        takes="target", options=(Option("by", "the units that add up", choices=UNITS),),
    ),
)  # fmt: skip
