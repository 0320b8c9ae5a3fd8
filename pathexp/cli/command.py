"""A command as a value: its name, the question it asks, what it takes, its group and an example."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..answer import Answer

Group = Literal["one run", "one model", "a corpus", "symbols and files"]
GROUPS: tuple[Group, ...] = ("one run", "one model", "a corpus", "symbols and files")

Takes = Literal["nothing", "model", "run", "target"]
"""What the question is asked about: nothing, a model, a run of it, or a run and a target on it."""


@dataclass(frozen=True)
class Option:
    """An option of a command, passed to its question as the keyword `name`, or as `keyword` where it says the same otherwise.

    `read` turns the word of the command line into the value; `default` None means that the question decides. What `loads`
    is another model, which is loaded as the first one is, with the same options for ambiguous checkpoints.
    """

    name: str
    help: str
    read: Callable[[str], Any] = str
    default: Any = None
    choices: tuple[str, ...] | None = None
    metavar: str | None = None
    flag: bool = False
    many: bool = False
    required: bool = False
    positional: bool = False
    keyword: str = ""
    loads: bool = False

    @property
    def spelled(self) -> str:
        """As it is written on the command line."""
        return self.name if self.positional else f"--{self.name.replace('_', '-')}"

    def declare(self, parser: argparse._ActionsContainer) -> None:
        """Add the option to a parser."""
        if self.positional:
            parser.add_argument(self.name, nargs="?", default=self.default, type=self.read, help=self.help)
            return
        name = self.spelled
        if self.flag:
            parser.add_argument(name, dest=self.name, action="store_true", default=None, help=self.help)
            return
        metavar = None if self.choices else self.metavar or self.name.upper()
        shape: dict[str, Any] = {"action": "append"} if self.many else {}
        parser.add_argument(
            name, dest=self.name, type=self.read, default=self.default, choices=self.choices, metavar=metavar,
            help=self.help, required=self.required, **shape,
        )  # fmt: skip


@dataclass(frozen=True)
class Command:
    """One command: `pathexp NAME [MODEL] [TEXT] [options]`.

    Parameters
    ----------
    ask: the question: called with what `takes` says (nothing; a model; a trace; a trace and a target), then the
        options that were given, by keyword.
    model: the bundled model that is taken where none is named.
    top: the keyword through which --top reaches the question; None where --top only cuts what is printed.
    long: whether the question takes `seconds` and `progress`.
    states: whether the question takes `limits`: seconds, progress, and the sums that it goes on from; what it
        returns has a `tally`, which --resume keeps.
    windows: how many windows of --corpus are taken where --windows does not say; None where a corpus is not cut into
        windows. The question gets the windows as `corpus`.
    text: the text that is run where none is given; None: the question decides.
    contrasts: whether the question may also be asked of the contrast of two runs, which --contrast makes.
    graph: whether the answer has `to_networkx`, which --graph writes to a file.
    drawn: whether the answer has a picture, which --save writes to a file.
    saves: whether the answer itself is the file that --save writes, and must; else --save draws its picture.
    serves: whether the answer goes on until it is stopped: the command waits for it.
    """

    name: str
    ask: Callable[..., Answer]
    group: Group
    help: str
    example: str
    takes: Takes = "model"
    options: tuple[Option, ...] = ()
    model: str = "attn-2l"
    top: str | None = None
    long: bool = False
    states: bool = False
    windows: int | None = None
    contrasts: bool = False
    graph: bool = False
    drawn: bool = True
    saves: bool = False
    serves: bool = False


def whole(least: int = 0) -> Callable[[str], int]:
    """Return a reader of integers of at least `least`.

    >>> whole(1)("3")
    3
    """

    def read(word: str) -> int:
        try:
            found = int(word)
        except ValueError:
            found = least - 1
        if found < least:
            raise argparse.ArgumentTypeError(f"expected an integer ≥ {least}, got {word!r}")
        return found

    return read


def words(listed: str) -> tuple[str, ...]:
    """Read words between commas; a hyphen stands for a blank.

    >>> words("gradient,path-patching")
    ('gradient', 'path patching')
    """
    return tuple(word.strip().replace("-", " ") for word in listed.split(","))


def integer(word: str) -> int:
    """Read an integer of any sign."""
    try:
        return int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected an integer, got {word!r}") from None


def seconds(word: str) -> float:
    """Read a positive number of seconds.

    >>> seconds("2.5")
    2.5
    """
    return positive(word, "a number of seconds")


def positive(word: str, what: str = "a number") -> float:
    """Read a finite number above zero."""
    try:
        found = float(word)
    except ValueError:
        found = 0.0
    if not (math.isfinite(found) and found > 0):
        raise argparse.ArgumentTypeError(f"expected {what} > 0, got {word!r}")
    return found


def fraction(word: str) -> float:
    """Read a number from 0 to 1."""
    try:
        found = float(word)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, got {word!r}")
    return found


def token(word: str) -> str | int:
    """Read a token as text, or as an id written #17.

    >>> token("#17"), token(" the")
    (17, ' the')
    """
    return int(word[1:]) if word.startswith("#") and word[1:].isdigit() else word


def ids(word: str) -> list[int]:
    """Read token ids.

    >>> ids("3,14,15")
    [3, 14, 15]
    """
    try:
        return [int(each) for each in word.replace(",", " ").split()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected integers such as 3,14,15, got {word!r}") from None


FROM_START = "start"


def seed_or_start(word: str) -> int | str:
    """Read a seed, or the word for a file's beginning.

    >>> seed_or_start("3"), seed_or_start("start")
    (3, 'start')
    """
    try:
        return word if word == FROM_START else whole(0)(word)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or {FROM_START}, the file's beginning") from None


SEED = Option("seed", "the seed of what is drawn at random", whole(0), metavar="N")
CORPUS = Option("corpus", "a UTF-8 text file to measure on", metavar="FILE")
REQUIRED_CORPUS = replace(CORPUS, required=True)
LONGEST, SHORTER = 128, 64
"""Windows have all of n_ctx up to so many tokens by default; of models that take more, so many."""
LENGTH = Option(
    "length",
    f"tokens per window (default: all of n_ctx up to {LONGEST}, else {SHORTER})",
    whole(2),
    metavar="N",
)
WINDOWS = Option("windows", "how many windows to take", whole(1), metavar="N")
UNKNOWN = Option(
    "unknown",
    "characters that a bundled model does not know: refuse, skip, or a text in their place",
    metavar="WHAT",
)
SAMPLE = Option(
    "sample",
    f"draw the windows at random lines, with this seed (0); {FROM_START}: take them from the file's beginning",
    seed_or_start,
    metavar="SEED",
)
QUERY = Option("query", "only paths that match, such as 'E .* L1H3 U'")
ZERO = Option("zero", "what stands in place of removed paths", choices=("zero", "mean", "resample"))
NORMS = Option("norms", "whether norms are folded into readers", choices=("folded", "raw"))
