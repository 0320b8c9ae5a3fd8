"""Every command, by name: the one place where a question meets the command line."""

from __future__ import annotations

from collections.abc import Mapping

from . import on_cases, on_corpus, one_model, one_run, page, symbols
from .command import Command

TABLE: Mapping[str, Command] = {
    command.name: command
    for command in (
        *one_run.COMMANDS,
        *page.COMMANDS,
        *one_model.COMMANDS,
        *on_cases.COMMANDS,
        *on_corpus.COMMANDS,
        *symbols.COMMANDS,
    )
}
