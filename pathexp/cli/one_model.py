"""Commands about the weights of one model."""

from __future__ import annotations

from .command import Command

COMMANDS: tuple[Command, ...] = ()
