"""The command line: a table of commands and one runner.

Exit codes: 0 done and proven; 1 done, but a check failed; 2 the input was refused; 3 a list was cut short.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..errors import PathexpError
from ..startup import INTERRUPTED as SAID
from ..version import VERSION
from .command import GROUPS, Command
from .runner import OK, REFUSED, declare, run
from .table import TABLE
from .terminal import calm, speak_any_encoding, terminated_like_interrupted, warned_in_one_line

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    speak_any_encoding()
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return OK
    try:
        with terminated_like_interrupted(), warned_in_one_line():
            code = run(TABLE[options.command], options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(SAID, file=sys.stderr)
        return INTERRUPTED
    except PathexpError as error:
        said = as_options(str(error), TABLE[options.command])
        print(f"{type(error).__name__}: {calm(said)}", file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        _silence()
        return OK
    except OSError as error:
        _silence()
        print(f"cannot write the output: {error.strerror or error}", file=sys.stderr)
        return REFUSED


def as_options(message: str, command: Command) -> str:
    """Return what is said of a question's keyword as said of the option that it was given by.

    >>> as_options("top(), k: expected an integer ≥ 1, got 0", TABLE["expand"])
    '--top: expected an integer ≥ 1, got 0'
    """
    names = {option.keyword or option.name: option.spelled for option in command.options}
    names |= {command.top: "--top"} if command.top else {}
    return re.sub(r"^\w+\(\), (\w+):", lambda found: f"{names.get(found[1], found[0][:-1])}:", message)


def _silence() -> None:
    """Send what is still to be written nowhere, as nobody reads it; so nothing is raised at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Parser(argparse.ArgumentParser):
    """A parser that takes options between positionals, and whose errors show an example that works."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Give words that follow an option to the optional positionals that are still open, which argparse leaves out."""
        found, left = super().parse_known_args(args, namespace)
        if not any(word.startswith("-") for word in left):
            for action in self._get_positional_actions():
                if left and action.nargs == "?" and getattr(found, action.dest) is None:
                    setattr(found, action.dest, left.pop(0))
        return found, left

    def error(self, message: str) -> NoReturn:
        """Print the usage, what is wrong and the example, and leave."""
        self.print_usage(sys.stderr)
        self.exit(REFUSED, f"{self.prog}: error: {message}\n" + (f"{self.epilog}\n" if self.epilog else ""))


def _parser() -> Parser:
    parser = Parser(
        prog="pathexp",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Take a transformer apart into paths that provably add up to its forward pass.\n\n"
        + overview(),
        epilog="Try: pathexp expand. `pathexp COMMAND --help` shows the options and an example.\n"
        "Exit codes: 0 done and proven, 1 a check failed, 2 the input was refused, 3 something was cut short.",
    )
    parser.add_argument("--version", action="version", version=f"pathexp {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", help="one of the above")
    for name, row in TABLE.items():
        declare(commands.add_parser(name, description=row.help, epilog=f"Example: {row.example}"), row)
    return parser


def overview() -> str:
    """Return every command with its question, by group."""
    lines = []
    for group in GROUPS:
        lines.append(f"{group}:")
        lines += [f"  {row.name:<20} {row.help}" for row in TABLE.values() if row.group == group]
    return "\n".join(lines)
