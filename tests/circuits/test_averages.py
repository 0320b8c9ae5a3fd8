"""Every average over texts: stopped, saved, taken up and equal; endless texts; progress; memory that stays flat."""

import gc
import itertools
import tracemalloc
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.corpus.corpus import Corpus
from pathexp.circuits.corpus.limits import Limits
from pathexp.circuits.corpus.tally import Tally
from pathexp.circuits.heads.induction_score import induction_score
from pathexp.cli import main

TEXT = "Macbeth shall sleep no more. Macbeth shall sleep no more, and so shall I not sleep. "


def endless():
    while True:
        yield TEXT


def texts(amount):
    return itertools.islice(endless(), amount)


AVERAGES = {
    "bigrams": lambda n, corpus, **how: px.bigrams(
        px.load("attn-0l"), corpus, min_count=1, chunks=n, limits=Limits(**how)
    ),
    "virtual_heads": lambda n, corpus, **how: px.virtual_heads(
        px.load("attn-2l"), px.Corpus(corpus, 8, n), k=1, zero="zero", limits=Limits(**how)
    ),
    "order_importance": lambda n, corpus, **how: px.order_importance(
        px.load("attn-1l"), px.Corpus(corpus, 8, n), max_order=0, limits=Limits(**how)
    ),
    "heads": lambda n, _, **how: px.heads(px.load("attn-2l"), runs=n, length=12, limits=Limits(**how)),
    "heads of a text": lambda n, corpus, **how: px.heads(
        px.load("attn-2l"), corpus=corpus, runs=n, length=9, limits=Limits(**how)
    ),
    "induction": lambda n, _, **how: px.induction(
        px.load("attn-2l"), runs=n, length=12, score_runs=0, limits=Limits(**how)
    ),
    "induction_score": lambda n, _, **how: induction_score(
        px.load("attn-2l"), "L1H0", "L0H2", runs=n, length=6, queries=2, limits=Limits(**how)
    ),
    "skip_trigrams": lambda n, _, **how: px.skip_trigrams(
        px.load("attn-1l"), k=1, bugs=1, contexts=n, limits=Limits(**how)
    ),
}

STREAMS = {
    "memory_management": lambda n, corpus: px.memory_management(px.load("attn-2l"), Corpus(corpus, 8, n)),
    "bottlenecks": lambda n, corpus: px.bottlenecks(px.load("attn-1l"), Corpus(corpus, 8, n)),
    "privileged_basis": lambda n, corpus: px.privileged_basis(px.load("attn-1l"), Corpus(corpus, 8, n)),
}
"""Averages over runs whose stopping and going on have tests of their own."""


def numbers(found):
    """All numbers of a result but its sums, in order."""
    if isinstance(found, px.Answer):
        return numbers([list(row.values()) for row in found.records()])
    if is_dataclass(found):
        return [x for f in fields(found) if f.name != "tally" for x in numbers(getattr(found, f.name))]
    if isinstance(found, dict):
        return [x for value in found.values() for x in numbers(value)]
    if isinstance(found, tuple | list):
        return [x for value in found for x in numbers(value)]
    return np.ravel(found).tolist() if isinstance(found, np.ndarray | float | int) else []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", AVERAGES)
def test_stopped_saved_and_taken_up(name, tmp_path):
    ask = AVERAGES[name]
    whole, some = ask(5, endless()), ask(2, endless())
    assert (some.tally.windows, whole.tally.windows) == (2, 5)
    some.tally.save(tmp_path / "sums.npz")
    again = ask(5, endless(), start=Tally.load(tmp_path / "sums.npz"))
    assert again.tally.windows == 5 and len(numbers(whole)) > 1
    np.testing.assert_allclose(numbers(again), numbers(whole), rtol=1e-12)
    assert ask(5, endless(), seconds=0).tally.windows == 1
    with pytest.raises(px.PathexpError, match="begin anew"):
        ask(5, endless(), start=Tally("another question", 1, 1, {}))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", AVERAGES)
def test_an_interrupt_keeps_what_was_counted(name, monkeypatch, capsys):
    ask, runs = AVERAGES[name], itertools.count()
    real = Tally.plus

    def plus(self, *arguments):
        if next(runs) == 3:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(Tally, "plus", plus)
    found = ask(9, endless(), progress=True)
    assert found.tally.windows == 3 and "stopped after 3 windows" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", [*AVERAGES, *STREAMS])
def test_memory_is_flat(name):
    """Ten times the texts take no more memory; runs that are kept would take several times as much, each time.

    What other threads of this process allocate meanwhile is noise, which only adds.
    """
    ask = (AVERAGES | STREAMS)[name]
    ask(2, endless())

    def peak(n):
        gc.collect()  # what other tests left to be collected is not of this question
        tracemalloc.start()
        try:
            ask(n, endless())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = max(peak(3), peak(3))
    assert min(peak(30) for _ in range(3)) < 1.5 * few + 50_000


@pytest.mark.parametrize("name", ["bigrams", "virtual_heads", "order_importance", "heads of a text"])
def test_no_text_is_refused_and_so_is_what_is_none(name):
    ask = AVERAGES[name]
    for corpus in ([], iter(()), [""], ["T"]):
        with pytest.raises(px.PathexpError, match="token"):
            ask(3, corpus)
    for corpus in (3, [3], [None], [[1.5, 2.5, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]], ["\u2603" * 9]):
        with pytest.raises(px.PathexpError):
            ask(3, corpus)


COMMANDS = {
    "bigrams": (["bigrams", "--corpus", "FILE", "--min-count", "1"], "--chunks"),
    "virtual-heads": (
        ["virtual-heads", "attn-2l", "--corpus", "FILE", "--length", "8", "--zero", "zero"],
        "--windows",
    ),
    "order-importance": (["order-importance", "attn-1l", "--corpus", "FILE", "--length", "8"], "--windows"),
    "heads": (["heads", "attn-2l", "--length", "9"], "--runs"),
    "heads of a text": (["heads", "attn-2l", "--length", "9", "--corpus", "FILE"], "--runs"),
    "induction": (["induction", "attn-2l", "--length", "9"], "--runs"),
    "skip-trigrams": (["skip-trigrams", "--top", "2", "--bugs", "2"], "--contexts"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_resume(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pathexp.circuits.corpus.corpus.CHUNK", 256)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join([TEXT] * 20))
    command, amount = COMMANDS[name]
    command = [str(corpus) if word == "FILE" else word for word in command] + ["--json"]
    assert main([*command, amount, "4"]) == 0
    whole = capsys.readouterr().out
    state = ["--resume", str(tmp_path / "sums.npz")]
    assert main([*command, amount, "2", *state]) == 0
    some = capsys.readouterr().out
    assert Tally.load(tmp_path / "sums.npz").windows == 2 and some != whole
    assert main([*command, amount, "4", *state]) == 0
    assert capsys.readouterr().out == whole and Tally.load(tmp_path / "sums.npz").windows == 4
    (tmp_path / "sums.npz").write_bytes(b"PK no")
    assert main([*command, *state]) == 2 and "sums.npz" in capsys.readouterr().err
