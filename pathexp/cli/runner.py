"""The one runner: load, run, ask, print, then draw and save."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from textwrap import indent
from typing import Any

from ..answer import Answer, Document, inert, picture, text
from ..circuits.corpus.corpus import REFUSE, Corpus
from ..circuits.corpus.limits import Limits
from ..circuits.corpus.tally import Tally
from ..errors import PathexpError
from ..expansion.header import model_line, prediction_line, text_line
from ..graph import Contrast, check_graph_file, save_graph
from ..model import Model, Trace
from ..workers import small_products
from .cases import averaged, check_cases, declare_cases, of_cases
from .command import (
    FROM_START,
    LENGTH,
    LONGEST,
    SAMPLE,
    SHORTER,
    UNKNOWN,
    WINDOWS,
    Command,
    Option,
    seconds,
    whole,
)
from .inputs import (
    contrast_of,
    declare_inputs,
    measured,
    model_of,
    multiplications,
    set_memory,
    target_of,
    trace_of,
)

OK, NOT_PROVEN, REFUSED, CUT_SHORT = 0, 1, 2, 3
"""Exit codes: done and proven; done, but a check failed; the input was refused; something was cut short."""

ROWS = Option("top", "how many rows to print", whole(0), metavar="K")
TOP = replace(ROWS, read=whole(1))
"""Where it reaches the question, which always ranks something."""
SECONDS = Option("seconds", "stop after this time and show what there is", seconds, metavar="S")
GRAPH = Option("graph", "also write the graph: .dot, .graphml or .json", metavar="FILE")
STATE = Option(
    "resume", "go on from the sums in this .npz, if it is there, and keep them in it", metavar="FILE"
)


def declare(parser: argparse.ArgumentParser, command: Command) -> None:
    """Declare everything that a command takes."""
    declare_inputs(parser, command)
    declare_cases(parser, command)
    for option in command.options:
        option.declare(parser)
    group = parser.add_argument_group("output")
    (TOP if command.top else ROWS).declare(group)
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--latex", action="store_true", help="print LaTeX")
    form.add_argument("--csv", action="store_true", help="print the rows of the main table as CSV")
    about = (
        "the .html file to write" if command.saves else "also draw a picture: .svg, .png, .pdf, .html or .tex"
    )
    group.add_argument("--save", metavar="FILE", help=about, required=command.saves)
    if command.graph:
        GRAPH.declare(group)
    if command.long or command.states:
        SECONDS.declare(group)
    if command.long or command.states or command.saves:
        group.add_argument("--quiet", action="store_true", help="report no progress on stderr")
    if command.states:
        STATE.declare(group)
    if command.windows is not None:
        group = parser.add_argument_group("how much of the corpus to take")
        LENGTH.declare(group)
        SAMPLE.declare(group)
        UNKNOWN.declare(group)
        replace(WINDOWS, help=f"{WINDOWS.help} (default: {command.windows})").declare(group)


def run(command: Command, options: argparse.Namespace) -> int:
    """Do what a command says and return the exit code."""
    check_outputs(command, options)
    subjects: list[Any] = []
    for said, subject in _subjects(command, options):
        subjects = subject
        if said and not _for_machines(options):
            print(said, flush=True)
    announce(f"{command.name}: at work", getattr(options, "quiet", False))
    with small_products(_multiplications(subjects[:1])):
        given = keywords(command, options, subjects)
        answer = (
            averaged(command, subjects[0], options, given)
            if of_cases(options)
            else command.ask(*subjects, **given)
        )
        document = show(answer, options, None if command.top else options.top)
        if command.saves:
            answer.save(options.save)
        elif options.save is not None:
            picture.save(document, options.save)
    if command.serves:
        getattr(answer, "wait")()  # noqa: B009
    if (file := getattr(options, "graph", None)) is not None:
        save_graph(getattr(answer, "to_networkx")(), file)  # noqa: B009
    if (file := getattr(options, "resume", None)) is not None and (
        tally := getattr(answer, "tally", None)
    ) is not None:
        tally.save(file)
    return code_of(answer, document)


def _multiplications(subjects: Sequence[Any]) -> float:
    """How many multiplications the largest product about a run takes; infinity where there is no run."""
    for subject in subjects:
        run = subject.runs[0] if isinstance(subject, Contrast) else subject
        if isinstance(run, Trace):
            return multiplications(run.config, len(run))
    return inf


def check_outputs(command: Command, options: argparse.Namespace) -> None:
    """Refuse, before any work, a picture or a state that could not be written."""
    check_cases(options)
    if command.saves and not options.save.lower().endswith(".html"):
        raise PathexpError(f"--save: expected a file that ends in .html, got {options.save!r}")
    if options.save is not None:
        if not (command.drawn or of_cases(options)):
            raise PathexpError(
                f"--save: the answer of {command.name} has no picture; --csv and --json print its tables"
            )
        if not command.saves:
            picture.check_file(options.save)
            picture.check_extra(options.save)
        _check_folder("--save", options.save)
    if (file := getattr(options, "graph", None)) is not None:
        check_graph_file(file)
        _check_folder("--graph", file)
    if (file := getattr(options, "resume", None)) is not None:
        ending = ".npz" if command.states and not of_cases(options) else ".jsonl"
        if not file.endswith(ending):
            raise PathexpError(f"--resume: expected a file that ends in {ending}, got {file!r}")
        if hasattr(options, "windows") and options.corpus is None:
            raise PathexpError("--resume goes on with a corpus: give --corpus FILE, the same as before")
        _check_folder("--resume", file)


def _check_folder(name: str, file: str) -> None:
    place = Path(file).resolve()
    if not place.parent.is_dir():
        raise PathexpError(f"{name}: the folder of {file!r} does not exist")
    if place.is_dir() or (place.exists() and not place.is_file()):
        raise PathexpError(f"{name}: {file!r} is there and is no file that could be replaced")
    if not os.access(place.parent, os.W_OK):
        raise PathexpError(f"{name}: the folder of {file!r} cannot be written to")


def announce(said: str, quiet: bool) -> None:
    """Print on a terminal's stderr what is being done, before it is done."""
    if sys.stderr.isatty() and not quiet:
        print(f"{inert(said)} …", file=sys.stderr, flush=True)


def _subjects(command: Command, options: argparse.Namespace) -> Iterator[tuple[str, list[Any]]]:
    """Yield what the question is asked about as far as it is known, with the lines that announce it."""
    if command.takes == "nothing":
        yield "", []
        return
    set_memory(options)
    announce(f"loading {options.model}", getattr(options, "quiet", False))
    model = model_of(options)
    yield model_line(model), [model]
    if command.takes == "model" or of_cases(options):
        return
    trace = trace_of(model, options)
    yield text_line(trace), [trace]
    if command.takes == "target":
        target = target_of(trace, options)
        yield prediction_line(trace, target.position), [trace, target]
        if (graph := contrast_of(trace, options)) is not None:
            other = graph.runs[1]
            said = f"{text_line(other)}\n{prediction_line(other, target.position)}"
            yield f"against\n{indent(said, '  ')}", [graph, measured(graph, target, options)]


def keywords(command: Command, options: argparse.Namespace, subjects: Sequence[Any]) -> dict[str, Any]:
    """Return the options that were given, as the question's keywords."""
    given: dict[str, Any] = {option.keyword or option.name: None for option in command.options}
    for option in command.options:
        given |= _given(option, options, given)
    if command.top is not None:
        given[command.top] = options.top
    if command.saves or command.serves:
        given["name"] = options.model
    if command.saves:
        given["progress"] = not options.quiet and sys.stderr.isatty()
    if command.windows is not None:
        given["corpus"] = corpus_of(subjects[0], command.windows, options)
    if (command.long or command.states) and not of_cases(options):
        given |= limits_of(command, options)
    return {name: value for name, value in given.items() if value is not None}


def _given(option: Option, options: argparse.Namespace, before: Mapping[str, Any]) -> dict[str, Any]:
    """An option as a keyword, if it was given and nothing else was that says the same."""
    value, keyword = getattr(options, option.name), option.keyword or option.name
    if value is None:
        return {}
    if option.loads:
        announce(f"loading {value}", getattr(options, "quiet", False))
        value = model_of(options, value)
    if before[keyword] is not None:
        raise PathexpError(f"give {keyword} or {option.spelled}, not both")
    return {keyword: value}


def corpus_of(model: Model, windows: int, options: argparse.Namespace) -> Corpus | None:
    """Return the windows of the corpus that is given, if one is."""
    if options.corpus is not None:
        unknown = REFUSE if options.unknown is None else options.unknown
        begun = options.sample is None or options.sample == FROM_START
        seed = None if begun else options.sample
        found = Corpus(options.corpus, _length(model, options), options.windows or windows, seed, unknown)
        found = found.spread(model) if options.sample is None else found
        if options.length is None and found.length is not None and not _for_machines(options):
            print(_part_of(found, model), flush=True)
        return found
    if options.length is not None or options.windows is not None:
        raise PathexpError("--length and --windows cut a corpus into windows: give --corpus FILE")
    return None


def _length(model: Model, options: argparse.Namespace) -> int | None:
    """How many tokens a window has; where the command line leaves it open and the model takes many, few, which is said."""
    if options.length is not None:
        return int(options.length)
    return None if model.config.n_ctx <= LONGEST else SHORTER


def _part_of(corpus: Corpus, model: Model) -> str:
    """Return how much of a corpus is taken by default, and how to take more.

    >>> import pathexp as px
    >>> _part_of(Corpus("/nowhere.txt", 64, 20), px.random_model(n_ctx=300))
    'windows  20 of 64 tokens; --windows N takes more, --length 300 all that the model does'
    """
    file = Path(str(corpus.source))
    size = f", of a file of {file.stat().st_size:,} bytes" if file.is_file() else ""
    return (
        f"windows  {corpus.most:,} of {corpus.length} tokens{size}; --windows N takes more, "
        f"--length {model.config.n_ctx} all that the model does"
    )


def _for_machines(options: argparse.Namespace) -> bool:
    return bool(options.json or options.csv or options.latex)


def limits_of(command: Command, options: argparse.Namespace) -> dict[str, Any]:
    """Return the limits of a long question, and the sums it goes on from, as its keywords."""
    progress = not options.quiet and sys.stderr.isatty()
    if not command.states:
        return {"seconds": options.seconds, "progress": progress}
    file = options.resume
    start = Tally.load(file) if file is not None and Path(file).exists() else None
    return {"limits": Limits(options.seconds, progress, start, file)}


def show(answer: Answer, options: argparse.Namespace, top: int | None) -> Document:
    """Print an answer in the form that is asked for, in print part by part as parts are made; return its document."""
    form = next((form for form in FORMS if getattr(options, form)), None)
    if form is not None:
        print(FORMS[form](answer).rstrip("\n"), flush=True)
        return answer.document
    if getattr(options, "model", None) is not None:
        print()
    return text.stream(answer, top=top)


FORMS: Mapping[str, Callable[[Answer], str]] = {
    "json": lambda answer: answer.to_json(),
    "csv": lambda answer: answer.to_csv(),
    "latex": lambda answer: answer.to_latex(),
}


def code_of(answer: Answer, document: Document) -> int:
    """Return the exit code of an answer: what it proves comes first, then whether it is whole."""
    if any(not check.ok for check in document.checks):
        return NOT_PROVEN
    tally = getattr(answer, "tally", None)
    return OK if answer.complete and not getattr(tally, "interrupted", False) else CUT_SHORT
