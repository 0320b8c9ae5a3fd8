"""The page as one file: whole, small, inert, and its keys those that the page asks for."""

import json
import re
import signal
import threading
from collections import Counter
from itertools import count

import pytest
import threadpoolctl

import pathexp as px
from pathexp.cli import main
from pathexp.model import Tokenizer
from pathexp.page.bundle import bundled, joined
from pathexp.page.computed import BRANCHES, CUTS, HEADS, PERCENTS, computed, first, following, general, key
from pathexp.page.files import static
from pathexp.page.report import once_a_second, report
from pathexp.page.session import Session

MODULES = (
    "dom.js",
    "ask.js",
    "state.js",
    "answer.js",
    "text.js",
    "flame.js",
    "flow.js",
    "lens.js",
    "branch.js",
    "tabs.js",
    "take.js",
    "main.js",
)
HOSTILE = (
    "</script>",
    "<img src=x onerror=alert(1)>",
    "\u202e",
    "\x00",
    "<!--",
    "&amp;",
    "\u2028",
    '"',
    "'",
    "]]>",
)


def held(html):
    return json.loads(re.search(r'<script type="application/json" id="held">(.*?)</script>', html, re.S)[1])


def hostile():
    model = px.random_model(layers=1, heads=2, d_vocab=len(HOSTILE), seed=1)
    return px.Model(model.config, model.weights, Tokenizer(HOSTILE), "<script>alert(2)</script>")


@pytest.fixture(scope="module")
def found():
    trace = px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")
    return report(trace, trace.logit(" sleep"))


def test_it_is_whole_and_small(found):
    assert len(found.html.encode()) < 5e6
    answers = held(found.html)["answers"]
    assert not [key for key, answer in answers.items() if "refused" in answer]
    assert {key.split(" ")[0] for key in answers} == {
        "run", "verify", "paths", "tree", "flow", "heads", "lens", "branch", "query", "cut", "head", "score"
    }  # fmt: skip


def test_nothing_in_it_leads_elsewhere(found):
    page = found.html.replace("http://www.w3.org/2000/svg", "").replace(
        "http://www.w3.org/1998/Math/MathML", ""
    )
    assert not re.search(r"https?://", page)
    assert not re.search(r"""(src|href)=(?!"data:,")""", page.split("<script")[0])


def test_tokens_that_look_like_markup_end_no_script():
    html = report(hostile().run(list(range(len(HOSTILE))))).html
    assert html.count("</script>") == 2 and html.count("<script") == 2
    assert "<img" not in html and "<!--" not in html
    assert "alert(2)" in json.dumps(held(html))


def test_modules_can_be_joined_no_two_use_one_name_at_their_top():
    names = []
    for name in MODULES:
        text = static(name)
        names += re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", text, re.M)
        for imported in re.findall(r"^import \{([^}]*)\}", text, re.M):
            assert " as " not in imported
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    script = joined()
    assert not re.search(r"^\s*(import|export)\b", script, re.M)
    assert all(f"// {name}" in script for name in MODULES)


def test_every_file_of_the_page_is_named_in_it():
    page = static("index.html")
    assert all(name in (*MODULES,) or name in page for name in ("style.css", "main.js"))
    assert "innerHTML" not in joined() and "eval(" not in joined() and "insertAdjacentHTML" not in joined()


def test_the_title_is_text():
    assert "<title>a &lt;b> &amp; c</title>" in bundled("a <b> & c", {"start": {}, "answers": {}})


def test_the_command_writes_it(tmp_path, capsys):
    file = tmp_path / "page.html"
    assert main(["report", "attn-1l", "To be, or not to be", "--save", str(file)]) == 0
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert held(file.read_text(encoding="utf-8"))["start"]["name"] == "attn-1l"
    assert "a page of" in capsys.readouterr().out


@pytest.mark.parametrize("file", ["page.svg", "no/such/folder/page.html"])
def test_a_file_that_cannot_be_written_is_refused_before_any_work(tmp_path, capsys, file):
    assert main(["report", "attn-1l", "--save", str(tmp_path / file)]) == 2
    assert "--save" in capsys.readouterr().err


def test_a_report_is_of_a_run():
    with pytest.raises(px.PathexpError, match="takes a run"):
        report("attn-1l")


def test_the_largest_branches_are_told_and_some_of_them_cut():
    boxes = [{"query": f"E .* L{n}H0 U", "value": float(n)} for n in range(99)]
    root = {"query": "E .* U", "value": 100.0, "children": boxes}
    trees = {key("tree", {"by": by}): {"root": root} for by in ("endings", "beginnings")}
    questions = [each for stage in (first, general, following) for group in stage(trees) for each in group]
    asked = Counter(name for name, _ in questions)
    assert asked["branch"] == asked["query"] == 2 * BRANCHES and asked["cut"] == CUTS + CUTS // 2
    assert asked["head"] == asked["score"] == HEADS and asked["flow"] == len(PERCENTS)
    largest = [given["query"] for name, given in questions if name == "branch"][:2]
    assert largest == ["E .* U", "E .* L98H0 U"]


def test_branches_are_asked_about_side_by_side_with_the_answers_of_one_after_the_other(found, monkeypatch):
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        alone = computed(found.session)
    met, begun, ask = threading.Barrier(2), count(), Session.ask

    def together(session, panel, given):
        if panel == "branch" and next(begun) < 2:
            met.wait(timeout=30)  # the first waits until the second is asked about too
        return ask(session, panel, given)

    monkeypatch.setattr(Session, "ask", together)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert computed(found.session) == alone


@pytest.mark.parametrize("panel", ["tree", "lens", "branch"])
def test_an_interrupt_leaves_out_what_is_left(found, panel):
    def press(what):
        if what.startswith(panel):
            signal.raise_signal(signal.SIGINT)

    answers = computed(found.session, press)["answers"]
    names = {key.split()[0] for key in answers}
    assert "run" in names and len(answers) < len(found.held["answers"])
    assert ("branch" in names) == (panel == "branch") and "head" not in names


@pytest.mark.parametrize("quiet", [False, True])
def test_on_a_terminal_it_says_what_it_computes(quiet, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    words = [
        "report",
        "attn-1l",
        "To be",
        "--save",
        str(tmp_path / "page.html"),
        *(["--quiet"] if quiet else []),
    ]
    assert main(words) == 0
    assert ("report: run" in capsys.readouterr().err) != quiet


def test_what_is_computed_is_said_once_a_second(capsys, monkeypatch):
    times = iter([0.0, 0.4, 1.0, 1.9, 2.0])
    monkeypatch.setattr("pathexp.page.report.monotonic", lambda: next(times))
    say = once_a_second()
    for what in "abcde":
        say(what)
    assert capsys.readouterr().err == "report: a\nreport: c\nreport: e\n"
