"""Commands that average over a corpus."""

from __future__ import annotations

from .command import Command

COMMANDS: tuple[Command, ...] = ()
