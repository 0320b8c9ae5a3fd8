"""Commands about one run of a model."""

from __future__ import annotations

from ..circuits.attribution.attribution import UNITS, attribution
from .command import Command, Option

COMMANDS = (
    Command(
        "attribution", attribution, "one run",
        "attribute a logit to components, heads, layers, paths or source tokens",
        "pathexp attribution attn-2l 'To be, or not to be' --by layer",
        takes="target", options=(Option("by", "the units that add up", choices=UNITS),),
    ),
)  # fmt: skip
