"""Every panel on every architecture: an answer that is plain data and adds up, or a refusal in words."""

import json

import pytest

import pathexp as px
from pathexp.page.session import Session
from pathexp.page.view import View
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


def ask(session, panel, given):
    try:
        found = session.ask(panel, given)
    except px.PathexpError as error:
        assert str(error)
        return None
    json.dumps(found, allow_nan=False)
    return found


def questions(session, base, queries):
    for panel in ("run", "verify", "paths", "heads", "lens", "flow"):
        yield panel, {}
    for by in ("induction", "copying", "previous-token"):
        yield "heads", {"by": by}
    for query in queries:
        for panel in ("branch", "cut", "query", "paths", "flow"):
            yield panel, {"query": query}
        for each in session.ask("branch", {**base, "query": query})["components"]:
            yield from (
                [("head", {"head": each["base"]}), ("score", {"head": each["base"]})]
                if each["head"]
                else [("neurons", {"query": query, "mlp": each["base"]})]
            )


@pytest.mark.sampled(8)
@pytest.mark.parametrize("contrasted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_panel_answers_or_refuses_in_words(name, contrasted):
    model = MODELS[name]()
    ids = [token % model.config.d_vocab for token in (3, 1, 2, 1)][: model.config.n_ctx]
    base = {"text": " ".join(map(str, ids))}
    if contrasted:
        base["other"] = " ".join(
            map(str, [ids[0], *((token + 1) % model.config.d_vocab for token in ids[1:])])
        )
    session = Session(px.Model(model.config, model.weights, None, name), View(base["text"]))
    root = session.ask("tree", base)["root"]
    children = root.get("children", [])
    below = [child["query"] for child in children[:2]]
    below += [grandchild["query"] for child in children for grandchild in child.get("children", [])[:1]][:2]
    for panel, given in questions(session, base, below):
        found = ask(session, panel, base | given)
        if panel == "query":
            assert found["ok"]
        if panel == "branch" and found["positions"]:
            assert sum(each["value"] for each in found["positions"]) == pytest.approx(
                found["value"], abs=1e-9
            )
        if panel == "flow" and "query" not in given:
            assert found["value"] == pytest.approx(root["value"], abs=1e-9)
        if panel == "verify":
            assert [part["outcome"] for part in found["parts"] if part["part"] == "check"] == ["holds"]
