"""Notebooks: what every object shows in a cell, and what completes."""

import itertools
from html.parser import HTMLParser

import pytest

import pathexp as px
from pathexp.graph.completion import labels
from pathexp.model import Tokenizer

HOSTILE = ("<script>alert(1)</script>", "</td>", "\u202e", "\x00", "&amp;", '"')
VOID = {"br", "img", "hr"}


class Strict(HTMLParser):
    """Every element is closed where it was opened, and nothing in it acts."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.words = [], []

    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "img", "iframe", "object", "style", "link")
        assert all(not name.startswith("on") for name, _ in attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(html):
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return " ".join(parser.words)


@pytest.fixture(scope="module")
def run():
    model = px.random_model(layers=2, heads=2, d_vocab=len(HOSTILE), seed=1)
    model = px.Model(model.config, model.weights, Tokenizer(HOSTILE), "<b>hostile</b>")
    return model.run(list(range(len(HOSTILE))))


def test_what_objects_show_is_closed_and_inert(run):
    terms = px.expand(run)
    other = run.model.run([1, *range(1, len(HOSTILE))])
    for shown in (
        run,
        run.model,
        terms,
        terms.where("E U"),
        terms.rest(),
        next(iter(terms)),
        px.freeze(run),
        px.contrast(run, other),
    ):
        assert read(shown._repr_html_())
    assert "<b>hostile</b>" in read(run.model._repr_html_())


def test_a_run_shows_every_token_and_what_follows(run):
    words = read(run._repr_html_())
    assert '"<script>alert(1)</script>"' in words and '"\\u202e"' in words
    assert words.count("→") == len(run)


def test_an_expansion_shows_counts_and_formulas_without_listing_all():
    run = px.random_model(layers=12, heads=12, d_model=32, d_head=4, d_vocab=20, seed=1).run([1, 2, 3])
    words = read(px.expand(run)._repr_html_())
    assert "46,596,170,244,962 terms" in words and "⊗" in words and "attention patterns" in words
    sizes = px.expand(px.ResidualGraph.attention_only(layers=12, heads=12))
    assert "numbers come with a run" in read(sizes._repr_html_())


def test_a_term_shows_its_formula_as_mathematics(run):
    term = px.expand(run)["E L0H0 L1H1 U"]
    assert "<math>" in term._repr_html_() and term._repr_latex_() == f"${term.latex()}$"


def test_paths_complete_and_all_exist(run):
    terms = px.expand(run)
    offered = terms._ipython_key_completions_()
    assert offered == [str(path) for path in terms.paths()]
    deep = px.expand(px.ResidualGraph.attention_only(layers=12, heads=12))
    offered = deep._ipython_key_completions_()
    assert len(offered) == 1_000
    assert offered == [str(path) for path in itertools.islice(deep.paths(), 1_000)]


def test_names_of_bundled_models_complete():
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell.instance()
    shell.run_cell("import pathexp as px\n%load_ext pathexp")
    shell.user_ns["terms"] = px.expand(px.load("attn-1l").run("To be"))
    shell.user_ns["model"] = px.load("attn-2l")
    shell.user_ns["run"] = shell.user_ns["model"].run("To be")
    shell.Completer.use_jedi = False
    for text, wanted in (
        ('px.load("attn-', "attn-2l"),
        ("model = px.load('attn-1", "attn-1l"),
        ('terms["E L0H3', "L0H3 U"),
        ('px.head(model, "L0H', "L0H3"),
        ('px.virtual_weight(model, "L0H1", "L1H', "L1H7"),
        ('found = terms.where("E .* L0H', "L0H3"),
        ("px.score(run, 'L1H0', query_paths='E .* L0H", "L0H2"),
    ):
        _, found = shell.complete(text="", line=text, cursor_pos=len(text))
        assert wanted in found, (text, found)
    _, found = shell.complete(text="", line='open("attn-', cursor_pos=11)
    assert "attn-2l" not in found


def test_labels_complete_where_they_are_taken_and_nowhere_else():
    model = px.random_model(layers=2, heads=2, d_mlp=8, seed=1)
    run = model.run([1, 2])
    names = {"model": model, "run": run, "terms": px.expand(run), "graph": px.freeze(run), "other": object()}
    every = list(px.freeze(run).alphabet.labels)
    heads = ["L0H0", "L0H1", "L1H0", "L1H1"]
    for line, wanted in {
        'px.head(model, "': heads,
        "px.score(run, '": heads,
        "px.score(run, 'L1H0', key_paths='E L": [label for label in every if label.startswith("L")],
        'px.virtual_weight(model, "': every,
        'px.virtual_weight(model, "L0H1", "L1': [label for label in every if label.startswith("L1")],
        'terms.where("E .* (L0H1|L1': [label for label in every if label.startswith("L1")],
        'graph.without("L0': [label for label in every if label.startswith("L0")],
        'model.run("L': [],  # a text
        'run.logit("L': [],  # a token
        'px.head(model, "L0H1", ': [],  # outside of a string
        'px.head(model, "L0H1"': [],
        'px.head(other, "L': [],
        'px.head(absent, "L': [],
        'px.head(model, "Q': [],
        'px.load("L': [],
    }.items():
        assert labels(line, names) == wanted, line


def test_labels_of_a_contrast_have_ports_and_many_are_not_all_offered():
    run = px.load("attn-1l").run("To be")
    graph = px.contrast(run, run.model.run("To do"))
    assert labels('px.expand(graph, "L0H0.', {"graph": graph}) == ["L0H0.V", "L0H0.K", "L0H0.Q"]
    wide = px.ResidualGraph.attention_only(layers=40, heads=40)
    assert len(labels('wide.without("L', {"wide": wide})) == 1_000
