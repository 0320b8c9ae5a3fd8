"""Every question's answer in every form, on a trained model and on one whose tokens and name try to act."""

import copy
import csv
import io
import json
import pickle
import re
import unicodedata
from dataclasses import replace

import numpy as np
import pytest

import pathexp as px
from pathexp.answer import Answer, Table
from pathexp.circuits.attribution.contrast_summary import contrast_summary
from pathexp.circuits.composition.virtual_weight import largest_entries
from pathexp.circuits.heads.attention import attention
from pathexp.circuits.interventions.causal_tracing import causal_tracing
from pathexp.circuits.small.skip_trigram_effects import skip_trigram_effects
from pathexp.circuits.subspaces.nearest_tokens import nearest_tokens
from pathexp.circuits.subspaces.rewriting import rewriting
from pathexp.cli.table import TABLE
from pathexp.expansion.summary import summary
from pathexp.model import Tokenizer

HOSTILE = (
    '"><script>alert(1)</script>', "<img src=x onerror=alert(1)>", "\x1b[31mred", "\u202eback", "a\nb", "$x_1$",
    "\\input{x}", "&amp;", "\x00", "=1+1", "\x9b2J",
)  # fmt: skip
NAME = "m<script>\x1b[31m"


def hostile(layers: int) -> px.Model:
    model = px.random_model(layers=layers, heads=2, d_vocab=len(HOSTILE), n_ctx=12, seed=3)
    return replace(model, tokenizer=Tokenizer(HOSTILE), name=NAME)


MODELS = {
    "trained": (
        lambda: px.load("attn-2l"),
        lambda: px.load("attn-1l"),
        "Macbeth shall sleep no more. Macbeth shall",
    ),
    "hostile": (lambda: hostile(2), lambda: hostile(1), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
}


class Asked:
    """What questions are asked of: a model of two layers, one of one, a run, a target, a corpus."""

    def __init__(self, name: str) -> None:
        two, one, text = MODELS[name]
        self.model, self.one = two(), one()
        self.trace = self.model.run(text)
        self.target = self.trace.logit(self.trace.top_token())
        tokens = self.trace.tokens.tolist()
        self.corpus = px.Corpus([tokens, tokens[::-1]], length=6)
        self.texts = [tokens, tokens]
        self.cases = [px.Case(tokens, 1, wrong=2), px.Case(tokens[:5], 3)]


QUESTIONS = {
    "expand": lambda a: summary(a.trace, a.target),
    "tree": lambda a: px.tree(a.trace, a.target, nodes=9),
    "attribution": lambda a: px.attribution(a.trace, a.target, by="token"),
    "contrast": lambda a: contrast_summary(a.trace, a.target, other=a.trace.tokens[::-1].tolist(), nodes=9),
    "contrast-shares": lambda a: px.attribution(
        px.contrast(a.trace, a.model.run(a.trace.tokens[::-1].tolist())), a.target, by="port"
    ),
    "decompose": lambda a: px.decompose(a.trace),
    "lens": lambda a: px.lens(a.trace, a.target),
    "position-flow": lambda a: px.position_flow(a.trace, a.target),
    "flow": lambda a: px.flow(a.trace, a.target, per_position=True),
    "equivariance": lambda a: px.equivariance(a.trace),
    "composition": lambda a: px.composition(a.model),
    "virtual-weight": lambda a: largest_entries(a.model),
    "skip-trigrams": lambda a: px.skip_trigrams(a.one, k=3, bugs=1, contexts=2),
    "virtual-heads": lambda a: px.virtual_heads(a.model, a.corpus, k=3),
    "overlap": lambda a: px.overlap(a.model),
    "interference": lambda a: px.interference(a.model),
    "bottlenecks": lambda a: px.bottlenecks(a.model, a.corpus),
    "memory-management": lambda a: px.memory_management(a.model, a.corpus),
    "privileged-basis": lambda a: px.privileged_basis(a.model, a.corpus),
    "rotate-basis": lambda a: px.rotate_basis(a.model),
    "order-importance": lambda a: px.order_importance(a.model, a.corpus),
    "bigrams": lambda a: px.bigrams(a.one, a.texts, min_count=1),
    "derive": lambda a: px.derive(),
    "derive-score": lambda a: px.derive_score(),
    "head": lambda a: px.head(a.model, "L1H0"),
    "heads": lambda a: px.heads(a.model, runs=1),
    "entropy": lambda a: px.entropy(a.trace),
    "induction": lambda a: px.induction(a.model, runs=1),
    "score": lambda a: px.score(a.trace, "L1H0", query=-1),
    "attention": lambda a: attention(a.trace, a.target, head="L1H0"),
    "causal-tracing": lambda a: causal_tracing(a.trace, a.target, draws=1),
    "nearest-tokens": lambda a: nearest_tokens(a.model, token=1, k=3),
    "rewrite": lambda a: rewriting(a.model, step=["untie"]),
    "swap": lambda a: px.swap(a.trace, "L1H0", "L0H0"),
    "rebase": lambda a: px.rebase(a.trace, "L1H0"),
    "intervene": lambda a: px.intervene(a.trace, a.target, cut="E L0H0 .* U"),
    "skip-trigram-effects": lambda a: skip_trigram_effects(
        a.one, list(px.skip_trigrams(a.one, k=2, bugs=0)), contexts=2
    ),
    "verdict": lambda a: px.expand(a.trace).verify(),
    "average": lambda a: px.average(px.flow, a.model, a.cases),
    "mean-tree": lambda a: px.average(px.tree, a.model, a.cases, nodes=5),
    "faithfulness": lambda a: px.faithfulness(a.model, a.cases, edges=(1.0, 0.5, 0.0)),
    "ranking": lambda a: px.expand(a.trace).top(5, a.target),
}  # fmt: skip


@pytest.fixture(scope="module", params=MODELS)
def asked(request):
    return Asked(request.param)


@pytest.fixture(scope="module")
def answers(asked):
    found = {}

    def of(name: str) -> Answer:
        if name not in found:
            found[name] = QUESTIONS[name](asked)
        return found[name]

    return of


def test_every_command_of_the_table_is_asked_here():
    pages = {"explore", "report"}  # tests/page
    assert set(TABLE) - {"models", "rotate"} - pages <= set(QUESTIONS)


def acting(text: str, allowed: str = "\n") -> set[str]:
    """The characters of a text that could move a cursor, color a screen or reorder a line."""
    return {c for c in text if unicodedata.category(c)[0] in "CZ" and c not in " " + allowed}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_has_every_form(name, answers):
    answer = answers(name)
    assert isinstance(answer, Answer)
    assert 0 < len(repr(answer)) < 300 and "\n" not in repr(answer)
    assert str(answer).strip() and "nan" not in str(answer).lower().split()
    data = json.loads(answer.to_json(), parse_constant=lambda word: pytest.fail(word))
    assert data == json.loads(json.dumps(answer.to_dict()))
    assert '<div class="pathexp">' in answer._repr_html_() and answer.to_latex().strip()
    rows = list(csv.DictReader(io.StringIO(answer.to_csv())))
    assert len(rows) == len(answer.records()) > 0
    names = [part.name for part in answer.document.of(Table)]
    assert list(answer.tables()) == names == list(data.get("tables", {})), (
        "a table of the same name would be lost"
    )
    for table in answer.tables():
        assert len(answer.records(table)) == len(list(csv.DictReader(io.StringIO(answer.to_csv(table)))))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUESTIONS)
def test_copies_say_the_same_and_are_read_only(name, answers):
    answer = answers(name)
    for same in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert str(same) == str(answer) and same.to_json() == answer.to_json() and repr(same) == repr(answer)
        assert all(not array.flags.writeable for array in arrays(vars(same)))


def arrays(value):
    """Every array in a value, however deep."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from arrays(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from arrays(each)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUESTIONS)
def test_untrusted_text_is_inert_in_every_form(name, answers):
    answer = answers(name)
    for said in (
        str(answer),
        repr(answer),
        answer.to_html(),
        answer.to_latex(),
        answer.to_csv(),
        answer.to_json(),
    ):
        assert not acting(said)
    assert not re.search(r"<\s*/?\s*(script|img)|<[^>]*\bonerror", answer.to_html())
    assert "\\input{" not in answer.to_latex()
