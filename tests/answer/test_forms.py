"""Every form of an answer: what it must hold whatever is in the parts."""

import copy
import csv
import io
import json
import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from pathexp.answer import Answer, Check, Column, Facts, Figure, Formula, Matrix, Note, Report, Table, columns
from pathexp.answer.cells import cell
from pathexp.errors import AnswerError, MissingExtraError

HOSTILE = [
    '"><script>alert(1)</script>',
    "&",
    "\x1b[31m",
    "\u202e",
    "$x_1$",
    "a\nb",
    "\\input{x}",
    "\x00",
    "\ud800",
]


def table(n: int = 3, **given) -> Table:
    rows = [(f"L0H{k}", HOSTILE[k % len(HOSTILE)], 1.0 / (k + 1), 0.25, k, True) for k in range(n)]
    head = (columns.text("name"), columns.token("top"), columns.number("adds"), columns.share("part"), columns.count("k"),
            columns.flag("kept"))  # fmt: skip
    return Table(head, rows, "heads", **({"key": ("name",), "value": "adds"} | given))


def answer(**given) -> Report:
    return Report("heads of a model", (
        Facts({"count": 10**30, "bound": float("inf"), "share": float("nan")}, shown=True),
        table(**given), Matrix("m", ("a", "b"), ("x", "y", "z"), np.arange(6.0).reshape(2, 3)),
        Check("paths add up", 1e-14, 1e-12, "rounding"), Note("a note", "title"),
        Formula("T", "A_L1H0 ⊗ W_U W_OV_L1H0 W_E", r"A^{1.0} \otimes W_U"), Figure("bars", "heads", {"rows": ["a"], "values": [1.0]}),
    ))  # fmt: skip


def test_json_is_strict_and_equals_the_dict() -> None:
    data = json.loads(answer().to_json(), parse_constant=lambda word: pytest.fail(word))
    assert data == json.loads(json.dumps(answer().to_dict()))
    assert data["kind"] == "report" and data["schema"] == 1
    assert data["bound"] is None and data["share"] is None and data["count"] == 10**30


def test_records_and_csv_hold_every_row() -> None:
    found = answer(n=40)
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert len(rows) == len(found.records()) == 40
    assert found.records()[1]["top"] == "&" and found.records("heads") == found.records()


def test_no_table_of_a_name_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(AnswerError, match="choose from: heads"):
        answer().records("paths")


@pytest.mark.parametrize("token", HOSTILE)
def test_hostile_tokens_are_inert(token: str) -> None:
    found = Report(token, (Table((columns.token("t"), columns.text(token)), [(token, token)]), Note(token, token),
                           Facts({token: token}, token, shown=True)))  # fmt: skip
    for form in (str(found), found._repr_html_(), found.to_latex(), found.to_csv(), repr(found)):
        assert not set("\x1b\u202e\x00\ud800") & set(form)
    assert "<script" not in found._repr_html_() and "&<" not in found._repr_html_()
    assert r"\input" not in found.to_latex() and "$x_1$" not in found.to_latex()


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_text_fits_the_width(width: int) -> None:
    rows = [(f"E L0H{k} U", "W_U " * 30, *np.arange(9.0)) for k in range(4)]
    head = (columns.path(), Column("formula", "formula"), *(columns.number(f"c{k}") for k in range(9)))
    said = Report("x", (Table(head, rows, key=("path",)),)).text(width=width)
    assert all(len(line) <= width for line in said.split("\n\nW_U")[0].splitlines())
    assert all(f"c{k}" in said for k in range(9))


def test_rows_that_are_not_printed_are_counted_and_summed() -> None:
    said = answer(n=40, shown=5, additive=True).text(width=120)
    assert "… 35 more " in said and f"{sum(1.0 / (k + 1) for k in range(5, 40)):+.4f}" in said
    assert "… 35 more of 40 rows" in answer(n=40, shown=5).text(width=120)
    assert "… 35 more" in answer(n=40, additive=True).to_html(top=5)
    assert "more" not in answer(n=40, shown=None).text(width=120)


def test_html_has_tables_and_the_whole_answer() -> None:
    said = answer()._repr_html_()
    assert said.count("<table") >= 3 and "<script" not in said and "heads of a model" in said


def test_html_of_an_answer_without_a_table_shows_its_checks_or_facts_as_one() -> None:
    for part in (Check("paths add up", 1e-14, 1e-12), Facts({"count": 3})):
        said = Report("a verdict", (part,)).to_html()
        assert said.count("<table") == 1 and ("paths add up" in said or "3" in said)


def test_formulas_come_with_a_legend() -> None:
    assert "attention pattern" in str(answer()) and "norm" not in str(answer())


def test_repr_is_a_line() -> None:
    assert "\n" not in repr(Report("a\nb" * 1000, ())) and len(repr(Report("a" * 1000, ()))) <= 240


@dataclass(frozen=True, eq=False)
class Found(Answer):
    live: ClassVar[frozenset[str]] = frozenset({"run"})
    run: object
    values: np.ndarray

    def headline(self) -> str:
        return f"{self.run}"

    def parts(self):
        return (Table((columns.number("x"),), [(value,) for value in self.values], shown=2),)


def test_copies_keep_the_words_and_leave_the_run() -> None:
    found = Found(lambda: 0, np.arange(5.0))
    for other in (
        copy.deepcopy(Found("run", np.arange(5.0))),
        pickle.loads(pickle.dumps(Found("run", np.arange(5.0)))),
    ):
        assert str(other) == str(Found("run", np.arange(5.0))) and not other.values.flags.writeable
        assert other.text(top=1) != str(other)
        with pytest.raises(AttributeError, match="ask again"):
            _ = other.run
        assert str(pickle.loads(pickle.dumps(other))) == str(other)
    assert found.live


def test_checks_have_three_outcomes_and_never_a_false_inequality() -> None:
    assert (
        "≤" in str(Check("x", 1.0, 2.0))
        and "≤" not in str(Check("x", 2.0, 1.0))
        and ">" in str(Check("x", 2.0, 1.0))
    )
    for undecided in (
        Check("x", float("nan"), 1.0),
        Check("x", 0.0, float("inf")),
        Check("x", 0.0, 1.0, reason="too coarse"),
    ):
        assert undecided.outcome == "undecided" and not undecided.ok and "cannot tell" in str(undecided)


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(AnswerError, match="expected 1 values a row, got 2"):
        Table((columns.text("a"),), [("x", "y")])
    with pytest.raises(AnswerError, match="not a column"):
        Table((columns.text("a"),), [], key=("b",))
    with pytest.raises(AnswerError, match="does not fit"):
        Matrix("m", ("a",), ("b",), np.ones((2, 2)))
    with pytest.raises(AnswerError, match="expected text, a number"):
        Table((columns.text("a"),), [(object(),)])


def test_an_absent_extra_is_named_with_its_command() -> None:
    from pathexp.answer.extras import extra

    with pytest.raises(MissingExtraError, match=r"-m pip install '.*\[viz\]'$"):
        extra("no_such_module_here", "viz", "pictures")


def test_data_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = answer().to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and list(frame["name"]) == ["L0H0", "L0H1", "L0H2"]


def test_numbers_too_small_for_decimals_are_shown_in_significant_digits():
    head = (columns.text("name"), columns.number("tiny", unit="nats"), columns.number("mixed", unit="logits"))
    table = Table(head, [("a", 2.5e-9, 2.5e-9), ("b", -1.25e-11, 3.0), ("c", 0.0, 0.0)])
    shown = table.printed()
    assert [[cell(v, c) for v, c in zip(row, shown.columns, strict=True)] for row in shown.rows] == [
        ["a", "+2.5e-09", "0.0000"],
        ["b", "-1.25e-11", "+3.0000"],
        ["c", "0", "0.0000"],
    ]


def test_noise_beside_large_numbers_of_its_unit_stays_zero():
    head = (columns.number("moves", unit="logits"), columns.number("constants", unit="logits"))
    shown = Table(head, [(15.4, 1.5e-16), (-3.0, 0.0)]).printed()
    assert [cell(row[1], shown.columns[1]) for row in shown.rows] == ["0.0000", "0.0000"]
