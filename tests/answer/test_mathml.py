"""Formulas as MathML: every formula that the library writes becomes well-formed elements, with every letter in place."""

import re
from xml.etree import ElementTree

import pytest

import pathexp as px
from pathexp.answer.mathml import elements, mathml


def formulas():
    for switches in ({}, {"d_mlp": 8, "norm": "rmsnorm", "biases": True}, {"d_mlp": 8, "norm": "layernorm", "gated": True},
                     {"positions": "rotary", "norm": "rmsnorm", "d_head": 4}):  # fmt: skip
        trace = px.random_model(layers=2, heads=2, seed=1, **switches).run([1, 2, 3])
        yield from (term.latex() for term in px.expand(trace))
        yield from (term.latex() for term in px.score(trace, "L1H0").top(5))
    model = px.load("attn-2l")
    pair = [model.run(f"Macbeth {word} sleep") for word in ("shall", "doth")]
    yield from (term.latex() for term in px.expand(px.contrast(*pair)))


def test_every_formula_is_well_formed_and_keeps_every_letter_and_number():
    seen = set(formulas())
    assert len(seen) > 300
    for latex in seen:
        tree = ElementTree.fromstring(mathml(latex))
        assert "\\" not in "".join(tree.itertext()), latex
        for node in tree.iter():
            assert node.tag not in ("msub", "msup", "mover") or len(node) == 2, latex
            assert node.tag != "msubsup" or len(node) == 3, latex
        shown = "".join(tree.itertext())
        for digits in re.findall(r"\d+", latex):
            assert digits in shown
        assert shown.count("⊗") == latex.count(r"\otimes")


@pytest.mark.parametrize(
    "latex",
    [
        "",
        "{",
        "}",
        "^",
        "_",
        "x^",
        r"\left",
        r"\bar",
        r"\mathrm",
        r"\mathrm{",
        r"\unknown{x}",
        "<b>&",
        "x_{y",
        "\\",
    ],
)
def test_what_is_no_formula_is_shown_and_does_not_fail(latex):
    ElementTree.fromstring(mathml(latex))
    assert elements(latex)[0] == "math"
