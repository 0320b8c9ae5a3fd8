"""TikZ of trees, flows and paths: inert, to scale, and what has none is refused."""

import re
import shutil
import subprocess
import sys
from itertools import pairwise

import pytest

import pathexp as px
from pathexp.answer import Figure
from pathexp.answer.tikz import KINDS, tikz
from pathexp.cli import main
from pathexp.errors import AnswerError

HOSTILE = ("\\input{/etc/passwd}", "$x_1$", "%", "#&~^", "{", "}", "\u202e", "\\end{document}")


@pytest.fixture(scope="module")
def run():
    return px.load("attn-2l").run("Macbeth shall sleep no more. Macbeth shall")


def figures(run):
    target = run.logit(run.top_token())
    terms = px.expand(run)
    for answer in (terms.tree(target), px.flow(run, target, share=0.9), terms.top(8, target)):
        yield next(figure for figure in answer.figures().values() if figure.kind in KINDS)


def rectangles(picture):
    return [
        tuple(map(float, found))
        for found in re.findall(r"\(([-\d.]+),([-\d.]+)\) rectangle \(([-\d.]+),([-\d.]+)\)", picture)
    ]


def test_boxes_are_as_wide_as_their_values_and_children_lie_inside_their_parent(run):
    target = run.logit(run.top_token())
    tree = px.expand(run).tree(target, nodes=1)
    found = rectangles(tikz(tree.figures()["tree"], width=10.0))
    assert found[0][0] == 0.0 and found[0][2] == 10.0
    size = sum(abs(child.value) for child in tree.root.children)
    for child, (left, _, right, _) in zip(tree.root.children, found[1:], strict=False):
        assert right - left == pytest.approx(10 * abs(child.value) / size, abs=0.011)


def test_every_picture_stays_within_its_width(run):
    for figure in figures(run):
        for width in (8.4, 17.8):
            picture = tikz(figure, width)
            places = [float(x) for x in re.findall(r"\(([-\d.]+),[-\d.]+\)", picture)]
            assert min(places) >= 0.0 and max(places) <= width + 0.01


def test_paths_that_share_an_edge_are_one_ribbon(run):
    best = px.expand(run).top(8, run.logit(" sleep"))
    figure = best.figures()["bundle"]
    flows = {(edge["source"], edge["target"]): edge["flow"] for edge in figure.data["edges"]}
    into = sum(flow for (_, reader), flow in flows.items() if reader == "U")
    assert into == pytest.approx(best.value, abs=1e-12)
    assert sum(flow for (writer, _), flow in flows.items() if writer == "E") == pytest.approx(
        best.value, abs=1e-12
    )
    pairs = [pair for path in (term.path for term in best) for pair in pairwise(path)]
    assert set(flows) == set(pairs) and len(flows) < len(pairs)


def test_what_has_no_tikz_is_refused(run, tmp_path):
    with pytest.raises(AnswerError, match=r"no TikZ of a figure of kind 'bars'"):
        px.attribution(run, run.logit(3)).save(str(tmp_path / "x.tex"))
    with pytest.raises(AnswerError, match="width above 0"):
        tikz(next(figures(run)), 0.0)


def test_of_several_figures_the_first_that_can_be_tikz_is_taken(run, tmp_path):
    best = px.expand(run).top(3, run.logit(" sleep"))
    best.save(str(tmp_path / "x.tex"))
    assert (tmp_path / "x.tex").read_text() == tikz(best.figures()["bundle"])


def test_the_command_writes_it_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    file = tmp_path / "tree.tex"
    assert main(["tree", "attn-2l", "To be", "--save", str(file)]) == 0
    assert file.read_text().count("\\begin{tikzpicture}") == 1


def hostile():
    nodes = [{"id": n, "parent": None if n == 0 else 0, "label": label, "query": "", "value": 1.0 if n else 7.0, "count": 1, "depth": min(n, 1)}
             for n, label in enumerate(HOSTILE)]  # fmt: skip
    return Figure("flame", "x", {"nodes": nodes})


def test_labels_are_text():
    picture = tikz(hostile(), 60.0)
    words = "".join(re.findall(r"\{([^{}]*(?:\{\}[^{}]*)*)\};", picture))
    assert "\\input" not in picture and "\\end{document}" not in picture and words
    assert picture.count("{") == picture.count("}") or "\\{" in picture


def test_empty_pictures_are_whole():
    assert tikz(Figure("flow", "x", {"nodes": [], "edges": []})).count("tikzpicture") == 2
    assert tikz(Figure("flame", "x", {"nodes": []})).count("tikzpicture") == 2


@pytest.mark.interop
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX on this machine")
def test_latex_sets_them(run, tmp_path):
    pictures = [tikz(figure) for figure in [*figures(run), hostile()]]
    body = "\n\n".join(picture.replace("% needs \\usepackage{tikz}\n", "") for picture in pictures)
    file = tmp_path / "paper.tex"
    file.write_text(
        f"\\documentclass{{article}}\\usepackage{{tikz}}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", file.name],
        cwd=tmp_path,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout.decode("latin-1")[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 5_000
