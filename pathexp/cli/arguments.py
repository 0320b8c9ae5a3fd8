"""What several commands share: the model, the text, the target, the form of the output, the exit codes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from ..errors import PathexpError
from ..model import Model, Target, Trace, load

DEFAULT_MODEL = "attn-2l"
DEFAULT_TEXT = "Macbeth shall sleep no more. Macbeth shall"

OK, NOT_PROVEN, REFUSED, CUT_SHORT = 0, 1, 2, 3
"""Exit codes: done and proven; done, but a check failed; the input was refused; a list was cut short."""


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the model, --json, and the decisions that loading may ask for."""
    parser.add_argument("model", nargs="?", default=DEFAULT_MODEL, help="a bundled model or a file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loading_arguments(parser)


def add_loading_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what a file of weights may leave open; see pathexp.load."""
    loading = parser.add_argument_group("what a file of weights may leave open")
    loading.add_argument("--tie", action="store_true", help="one table of tokens serves as both")
    loading.add_argument(
        "--vocab-from-checkpoint", action="store_true", help="believe the tensors about the vocabulary's size"
    )
    loading.add_argument("--strict", action="store_true", help="refuse where the default is to warn")
    loading.add_argument(
        "--ignore", action="append", metavar="KEY", help="a configuration key that does not matter"
    )


def model_of(options: argparse.Namespace) -> Model:
    """Load the model of the command line."""
    given = {name: getattr(options, name) for name in ("tie", "vocab_from_checkpoint", "strict", "ignore")}
    return load(options.model, **{name: value for name, value in given.items() if value})


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the model, the text or the tokens, and --json."""
    add_model_argument(parser)
    parser.add_argument("text", nargs="?", default=None, help="what to run it on")
    parser.add_argument("--tokens", help="token ids instead of text, such as 3,14,15")


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the logit (or difference of two) and the position asked about."""
    parser.add_argument(
        "--target", default=None, metavar="TOKEN", help="the logit asked about: a token, or an id as #17"
    )
    parser.add_argument(
        "--versus", default=None, metavar="TOKEN", help="ask for the difference of two logits"
    )
    parser.add_argument("--position", type=int, default=-1, help="the position asked about")


def amount(text: str) -> int:
    """How many to list: a whole number from 0 up."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"takes a whole number from 0 up, not {text!r}")
    return int(text)


def run_of(model: Model, options: argparse.Namespace) -> Trace:
    """Run a model on the text or tokens of the command line."""
    return model.run(input_of(options))


def input_of(options: argparse.Namespace) -> str | list[int]:
    """The text or the token ids of the command line."""
    if options.tokens is None:
        return DEFAULT_TEXT if options.text is None else str(options.text)
    if options.text is not None:
        raise PathexpError("give a text or --tokens, not both")
    try:
        return [int(token) for token in options.tokens.replace(",", " ").split()]
    except ValueError:
        raise PathexpError(f"--tokens takes whole numbers such as 3,14,15, not {options.tokens!r}") from None


def target_of(trace: Trace, options: argparse.Namespace) -> Target:
    """The target of the command line; by default the logit of the predicted token."""
    wanted = trace.top_token(options.position) if options.target is None else token_of(options.target)
    if options.versus is None:
        return trace.logit(wanted, position=options.position)
    return trace.logit_difference(wanted, token_of(options.versus), position=options.position)


def token_of(text: str) -> str | int:
    """A token as text, or as an id written #17."""
    return int(text[1:]) if text.startswith("#") and text[1:].isdigit() else text


def show(data: Callable[[], Any], text: Callable[[], str], options: argparse.Namespace) -> None:
    """Print a result as JSON or as text."""
    print(json.dumps(data(), indent=1) if options.json else text())
