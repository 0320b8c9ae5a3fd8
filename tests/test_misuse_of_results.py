"""What results are asked with: a number or a label that is none is refused by name, and gives no plausible list."""

import inspect

import pytest

import pathexp as px
from pathexp.circuits.corpus.corpus import Corpus
from pathexp.circuits.heads.copying import copying

WRONG = (-1, 0, None, 2.5, "a", True)
TRACE = px.random_model(layers=2, heads=2, seed=1).run([1, 2, 3, 1, 2, 3])
MODEL, TARGET = TRACE.model, TRACE.logit(4)
NEURONS = px.random_model(layers=2, heads=2, d_mlp=7, seed=1)
TEXTS = [[1, 2, 3, 4]]

RESULTS = (
    TRACE,
    px.expand(TRACE),
    px.expand(TRACE)["E L0H1 L1H0 U"],
    px.expand(TRACE).top(2, TARGET),
    px.score(TRACE, "L1H0", query=2, key=1),
    px.score(TRACE, "L1H0", query=2, key=1).top(2),
    px.composition(MODEL),
    px.virtual_heads(MODEL)[0],
    px.virtual_heads(MODEL, px.Corpus(TEXTS, 4)),
    px.virtual_heads(MODEL, px.Corpus(TEXTS, 4)).tally,
    px.order_importance(MODEL, px.Corpus(TEXTS, 4)),
    px.attribution(TRACE, TARGET),
    px.position_flow(TRACE, TARGET),
    px.lens(TRACE, TARGET),
    px.lens(TRACE, TARGET).own,
    px.decompose(TRACE),
    px.interference([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    px.bottlenecks(MODEL),
    px.overlap(MODEL, writer="L0H0", reader="L1H0.Q"),
    px.memory_management(NEURONS),
    px.privileged_basis(MODEL, Corpus(TEXTS, 4)),
    px.privileged_basis(MODEL, Corpus(TEXTS, 4)).activations[0],
    px.heads(MODEL, runs=1),
    px.induction(MODEL, runs=1),
    px.head(MODEL, "L0H0"),
    copying(MODEL),
    px.intervene(TRACE, TARGET, node="L0H0"),
    MODEL,
)

RIGHT = {
    **dict.fromkeys(("position", "row", "index", "distance"), (-1, 0)),
    **dict.fromkeys(("token", "a", "b", "output"), (0,)),
    **dict.fromkeys(("direction", "share", "side", "type", "mode", "at"), ()),
    "positions": (True,),
    "key": (0,),
    **dict.fromkeys(
        ("k", "count", "label", "head", "expert", "point", "space", "name", "kind", "pair", "paths", "port"),
        (),
    ),
    **dict.fromkeys(("query", "condition", "target", "trace", "graph", "how", "head", "tree"), ()),
}
"""By the name of an argument, which of the wrong values are right there."""
LEFT_OUT = {
    "reference",
    "seconds",
    "nodes",
    "memory",
    "progress",
    "sides",
    "ids",
    "path",
    "text",
    "texts",
    "mask",
    "vector",
    "window",
    "measured",
    "merge",
    "index",
    "title",
    "certificate",
}
"""Arguments with tests of their own."""
GIVEN = {
    "target": TARGET,
    "token": 1,
    "a": 1,
    "b": 2,
    "vector": [0.0] * MODEL.config.d_vocab,
    "k": 2,
    "head": "L1H0",
    "expert": "L0E0",
}


def questions(result):
    """The public methods of a result that take an argument (forms of answers apart), and its rows in brackets."""
    for name, function in inspect.getmembers(type(result), inspect.isfunction):
        bound = not isinstance(inspect.getattr_static(type(result), name), staticmethod)
        if bound and name not in vars(px.Answer) and (name[0] != "_" or name == "__getitem__"):
            yield name, list(inspect.signature(function).parameters.values())[1:]


ASKED = [
    pytest.param(result, name, parameters, asked, id=f"{type(result).__name__}.{name}({asked.name})")
    for result in RESULTS
    for name, parameters in questions(result)
    for asked in parameters
    if asked.name not in LEFT_OUT
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize(("result", "name", "parameters", "asked"), ASKED)
def test_wrong_questions_are_refused(result, name, parameters, asked, wrong):
    right = (*RIGHT[asked.name], *(() if asked.default is asked.empty else (asked.default,)))
    if any(wrong == value and type(wrong) is type(value) for value in right):
        return
    needed = {p.name: GIVEN[p.name] for p in parameters if p.default is p.empty and p is not asked}
    with pytest.raises(px.PathexpError) as error:
        getattr(result, name)(**needed | {asked.name: wrong})
    assert len(str(error.value)) > 20
    assert (
        repr(wrong) in str(error.value)
        or str(wrong) in str(error.value)
        or type(wrong).__name__ in str(error.value)
    )


@pytest.mark.parametrize("wrong", [{"norms": None}, {"norms": "z"}], ids=str)
def test_wrong_arguments_of_composition_are_refused(wrong):
    with pytest.raises(px.PathexpError, match=f"{next(iter(wrong))}: expected"):
        px.composition(MODEL, **wrong)
    with pytest.raises(px.PathexpError, match="expected a model, got None"):
        px.composition(None)


@pytest.mark.parametrize("path", [3, 2.5, True, [1, 2], ["L0H0", None]], ids=repr)
def test_a_path_of_composition_is_labels(path):
    with pytest.raises(px.PathexpError, match="path: expected a path as text or labels, got"):
        px.composition(MODEL, path=path)


def test_a_pair_of_composition_is_two_labels():
    table = px.composition(MODEL)
    for pair in ("U", ("U",), ("U", "E", "P"), ("U", None)):
        with pytest.raises(px.PathexpError, match="labels of a reader and a writer"):
            table[pair]
    with pytest.raises(px.PathexpError, match="no composition of reader 'U' with writer 'L9H0'"):
        table["U", "L9H0"]
