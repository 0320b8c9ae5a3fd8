"""A corpus as windows: of files, texts and tokens; all, the first, or chosen ones; refused in words."""

from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.corpus.corpus import CHUNK, Corpus
from pathexp.circuits.corpus.limits import Limits
from pathexp.errors import LoadError, PathexpError, TokenError

MODEL = px.random_model(d_vocab=9, n_ctx=6)


def cut(*given, **how):
    return [window.tolist() for window in Corpus(*given, **how).cut(MODEL)]


def test_windows_follow_one_another_within_a_text():
    texts = [[0, 1, 2, 3, 4], [5], [], [6, 7, 8, 0]]
    assert cut(texts, 2) == [[0, 1], [2, 3], [6, 7], [8, 0]]
    assert cut(texts, 2, 3) == [[0, 1], [2, 3], [6, 7]] == cut(np.array(texts, dtype=object), 2, 3)
    assert cut(texts) == [] and cut([range(8)]) == [[0, 1, 2, 3, 4, 5]]


def test_chosen_windows_are_those_of_these_numbers():
    texts = [list(range(8))]
    assert cut(texts, 2, [3, 0, 3]) == [[0, 1], [6, 7]] == cut(texts, 2, np.array([0, 3]))
    assert cut(texts, 2, [9]) == [] == cut(texts, 2, [])
    chosen = Corpus(texts, 2, [1, 2]).accumulate(MODEL, lambda window: {"sum": window.sum()}, "sum", Limits())
    assert chosen.windows == 2 and chosen.sums["sum"] == 14 and chosen.question.endswith("number 1, 2")


def test_an_endless_corpus_is_read_no_further_than_needed():
    read = []

    def endless():
        while True:
            read.append(1)
            yield [1, 2]

    assert len(cut(endless(), 2, 3)) == 3 and len(read) == 3
    assert len(cut(endless(), 2, [0, 2])) == 2 and len(read) == 6


def test_files_are_read_in_chunks_and_several_are_one_corpus(tmp_path):
    lines = "\n".join(f"line {i} " + "x" * 50 for i in range(3 * CHUNK // 50))
    (tmp_path / "a.txt").write_text(lines)
    (tmp_path / "b.txt").write_text("more")
    pieces = list(Corpus(tmp_path / "a.txt").texts())
    assert len(pieces) > 1 and "".join(pieces) == lines == "".join(Corpus(str(tmp_path / "a.txt")).texts())
    assert all(piece.endswith("\n") for piece in pieces[:-1])
    both = Corpus([tmp_path / "a.txt", "between", tmp_path / "b.txt"])
    assert [*both.texts()] == [*pieces, "between", "more"]


def test_a_corpus_stays_what_it_is_and_a_source_becomes_one():
    corpus, model = Corpus(["text"], windows=3), px.load("attn-1l")
    assert Corpus.of(corpus, model, windows=9) is corpus
    assert Corpus.of(["text"], model, 9).windows == 9 and Corpus.of("file.txt", model).windows is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source": 3}, "a corpus is the path of a text file"),
        ({"source": [], "length": 1}, "length"),
        ({"source": [], "length": True}, "length"),
        ({"source": [], "length": 2.5}, "length"),
        ({"source": [], "windows": 0}, "windows"),
        ({"source": [], "windows": [-1]}, "windows"),
        ({"source": [], "windows": "all"}, "windows"),
    ],
)
def test_what_is_no_corpus_is_refused_when_it_is_made(wrong, message):
    with pytest.raises(PathexpError, match=message):
        Corpus(**wrong)


def test_what_cannot_be_read_is_refused_when_it_is_read(tmp_path):
    with pytest.raises(PathexpError, match="from 2 to 6 tokens"):
        cut([[1, 2]], 7)
    with pytest.raises(LoadError, match="nowhere"):
        cut(Path("nowhere.txt"))
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(LoadError, match="UTF-8"):
        cut(tmp_path / "latin.txt")
    for text in (None, 3, [1.5], [[1, 2]], [None]):
        with pytest.raises(TokenError, match="a text of a corpus"):
            cut([text], 2)
