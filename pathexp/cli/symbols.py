"""Commands about symbols and files."""

from __future__ import annotations

from .command import Command

COMMANDS: tuple[Command, ...] = ()
