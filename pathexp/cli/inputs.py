"""From the words of the command line to a model, a run and a target."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ..budget import bytes_of, memory_budget
from ..errors import LoadError, PathexpError
from ..graph import MEASURES, Contrast, contrast
from ..model import Config, Model, Target, Trace, load, models
from ..model.model import ids_of
from ..workers import small_products
from .command import UNKNOWN, Command, Option, integer, token

DEFAULT_TEXT = "Macbeth shall sleep no more. Macbeth shall"

LOADING = (
    Option("tie", "one token table serves as embedding and unembedding", flag=True),
    Option("vocab_from_checkpoint", "take the size of the vocabulary from the tensors", flag=True),
    Option("strict", "refuse where the default is to warn", flag=True),
    Option("revision", "of a model of the Hugging Face Hub: the branch, tag or commit", metavar="NAME"),
    Option("download", "fetch a model of the Hugging Face Hub that is not in the local cache", flag=True),
    Option("adapter", "the folder of a low-rank adapter of peft to apply", many=True, metavar="DIR"),
    Option("tokenizer", "the tokenizer.json of a model whose own is missing or not known", metavar="FILE"),
    Option("header", "a JSON file that says what the arrays of the model's file are", metavar="FILE"),
    Option("ignore", "a configuration key that does not matter", many=True, metavar="KEY"),
)


def memory(word: str) -> int:
    """Read a number of bytes.

    >>> memory("3GB")
    3000000000
    """
    try:
        return bytes_of(word)
    except PathexpError:
        raise argparse.ArgumentTypeError(
            f"expected a number of bytes such as 3000000000, 3GB or 512MiB, got {word!r:.40}"
        ) from None


MEMORY = Option(
    "memory",
    "bytes that may be kept to be used again, such as 3GB: raised weights, maps, tables (default: PATHEXP_MEMORY, or 2GiB)",
    memory,
    metavar="BYTES",
)

TARGET = (
    Option("target", "the logit to explain: a token, or an id as #17 (default: the predicted token)", token),
    Option("versus", "explain the difference to the logit of this token", token, metavar="TOKEN"),
    Option("position", "the position of the prediction", integer, metavar="N"),
)

CONTRAST = Option(
    "contrast",
    "explain the difference to the run of this text, through values, keys and queries; with --tokens: of these token ids",
    metavar="OTHER",
)

MEASURE = Option(
    "measure", "of a contrast: the token's logit, its log-probability or its probability", choices=MEASURES
)


def declare_inputs(parser: argparse.ArgumentParser, command: Command) -> None:
    """Declare the model, the text and the target, as far as the command takes them."""
    if command.takes == "nothing":
        return
    about = "a bundled model, a file, a folder, or org/name of the Hugging Face cache (default: %(default)s)"
    parser.add_argument("model", nargs="?", default=command.model, help=about)
    if command.takes in ("run", "target"):
        parser.add_argument(
            "text", nargs="?", default=None, help=f"the text to run the model on (default: {DEFAULT_TEXT!r})"
        )
        parser.add_argument("--tokens", help="token ids instead of text, such as 3,14,15")
        UNKNOWN.declare(parser)
    if command.takes == "target":
        group = parser.add_argument_group("what to explain")
        for option in (*TARGET, *((CONTRAST, MEASURE) if command.contrasts else ())):
            option.declare(group)
    group = parser.add_argument_group("options for ambiguous checkpoints")
    for option in LOADING:
        option.declare(group)
    MEMORY.declare(parser)


def set_memory(options: argparse.Namespace) -> None:
    """Set the budget of bytes to what the command line says, if it does."""
    if options.memory is not None:
        memory_budget(options.memory)


def model_of(options: argparse.Namespace, name: str = "") -> Model:
    """Load the model of the command line, or another by the same options; a name that looks like a text is said to be one."""
    given = {option.name: getattr(options, option.name) for option in LOADING}
    name = name or options.model
    if not hasattr(options, "windows"):  # what is cut into windows copes with characters itself
        given["unknown"] = getattr(options, "unknown", None)
    try:
        return load(name, **{option: value for option, value in given.items() if value not in (None, [])})
    except LoadError as error:
        raise LoadError(f"{error}{_hint(name)}") from None


def _hint(name: str) -> str:
    if Path(name).exists():
        return ""
    if re.fullmatch(r"L\d+[HMN].*", name):
        return f"\n{name!r} looks like a component: the first argument is the model, components are given by options"
    if " " in name or len(name) > 60:
        return f"\n{name!r:.60} looks like a text: the model comes first, such as pathexp expand {models()[-1].name} TEXT"
    return ""


def trace_of(model: Model, options: argparse.Namespace) -> Trace:
    """Run the model on the text or the token ids of the command line."""
    if options.tokens is not None and options.text is not None:
        raise PathexpError("give a text or --tokens, not both")
    text = DEFAULT_TEXT if options.text is None else str(options.text)
    ids = ids_of(model, text if options.tokens is None else tokens_of(options.tokens))
    with small_products(multiplications(model.config, len(ids))):
        return model.run(ids)


def multiplications(config: Config, positions: int) -> int:
    """Return how many multiplications the largest product of a layer takes.

    >>> from pathexp.model import Config
    >>> multiplications(Config(n_layers=1, n_heads=1, d_model=4, d_head=4, d_mlp=6, d_vocab=5, n_ctx=8), 3)
    72
    """
    return positions * config.d_model * max(config.d_mlp, config.d_model)


def contrast_of(trace: Trace, options: argparse.Namespace) -> Contrast | None:
    """Return the contrast of a run with the one of --contrast, if it is given: a text, or token ids beside --tokens."""
    other = getattr(options, CONTRAST.name, None)
    if other is None:
        if getattr(options, MEASURE.name, None) is not None and hasattr(options, CONTRAST.name):
            raise PathexpError(
                "--measure compares two runs: give --contrast OTHER; probabilities are no sum over the paths of one run"
            )
        return None
    return contrast(
        trace, trace.model.run(other if options.tokens is None else tokens_of(other, "--contrast"))
    )


def measured(graph: Contrast, target: Target, options: argparse.Namespace) -> Target:
    """Return the target as what --measure names."""
    return graph.measured(target, options.measure or MEASURES[0])


def tokens_of(words: str, name: str = "--tokens") -> list[int]:
    """Return token ids.

    >>> tokens_of("3,14 15")
    [3, 14, 15]
    """
    try:
        return [int(word) for word in words.replace(",", " ").split()]
    except ValueError:
        raise PathexpError(f"{name}: expected integers such as 3,14,15, got {words!r:.60}") from None


def target_of(trace: Trace, options: argparse.Namespace) -> Target:
    """Return the target of the command line; by default the logit of the predicted token."""
    position = -1 if options.position is None else options.position
    wanted = trace.top_token(position) if options.target is None else options.target
    if options.versus is None:
        return trace.logit(wanted, position=position)
    return trace.logit_difference(wanted, options.versus, position=position)
