"""One layer: skip-trigrams off the weights, and the bugs they force."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.raised import all_raised, happens, raised
from pathexp.circuits.skip_trigrams import OTHERS, bugs, forced_bug, skip_trigrams
from pathexp.model import Tokenizer

WORDS = ("keep", "in", "at", "mind", "bay", "the", "a", "of")
KEEP, IN, AT, MIND, BAY = range(5)


def keep_in_mind():
    """One head: "in" and "at" look at "keep" with score 8, which raises "mind" by 3 and "bay" by 2."""
    size = len(WORDS)
    Q, K, V, O = np.zeros((1, size)), np.zeros((1, size)), np.zeros((1, size)), np.zeros((size, 1))
    Q[0, [IN, AT]] = 8
    K[0, KEEP] = V[0, KEEP] = 1
    O[[MIND, BAY], 0] = 3, 2
    config = px.Config(
        n_layers=1, n_heads=1, d_model=size, d_head=1, d_vocab=size, n_ctx=16, attention_scale=1.0
    )
    weights = px.Weights(
        W_E=np.eye(size), W_U=np.eye(size), W_Q=Q[None, None], W_K=K[None, None], W_V=V[None, None],
        W_O=O[None, None],
    )  # fmt: skip
    return px.Model(config, weights, Tokenizer(WORDS), "keep")


def test_on_paper():
    best = skip_trigrams(keep_in_mind(), 2)[0]
    assert (best.source, best.output) == (KEEP, MIND) and best.destination in (IN, AT)
    share = np.exp(8) / (np.exp(8) + OTHERS * (np.exp(8) + 7) / 8)
    np.testing.assert_allclose(best.attention, share)
    np.testing.assert_allclose(best.adds, share * (3 - 5 / 8))


def test_of_one_source_every_output():
    listed = skip_trigrams(keep_in_mind(), 8, source="keep")
    assert [t.output for t in listed[:2]] == [MIND, BAY] and {t.source for t in listed} == {KEEP}
    assert len({t.output for t in listed}) == 8


def test_the_bug_on_paper():
    """ "keep … in mind" and "keep … at bay" force "keep … in bay" and "keep … at mind"."""
    model = keep_in_mind()
    bug = forced_bug(model, "L0H0", "keep", ("in", "mind"), ("at", "bay"))
    assert [(t.destination, t.output) for t in bug.forced] == [(IN, BAY), (AT, MIND)]
    by_pair = {(t.destination, t.output): t.adds for t in bug.all}
    assert by_pair[IN, BAY] == by_pair[AT, BAY] > 0 and by_pair[AT, MIND] == by_pair[IN, MIND] > 0
    measured = happens(model, bug, contexts=32, length=6)
    assert all(each.happens for each in measured)
    nothing = raised(
        model, forced_bug(model, "L0H0", "of", ("in", "mind"), ("at", "bay")).asked[0], contexts=32
    )
    assert not nothing.happens


def test_the_rise_is_measured_against_another_token_in_its_place():
    """On paper: six tokens, "keep" among five others that draw nothing (chance draws of "keep" left out)."""
    model = keep_in_mind()
    (trigram, *_) = skip_trigrams(model, 1)
    found = raised(model, trigram, contexts=400, length=6, gap=2)
    share = np.exp(8) / (np.exp(8) + 5)  # in contexts without another "keep"
    chance = 1 - (7 / 8) ** 4  # that the context holds "keep" anyway, then about the same is there before
    assert (1 - chance) * share * (3 - 5 / 8) * (7 / 8) < found.mean + 3 * found.error < 3


def test_trained_bugs_happen():
    model = px.load("attn-1l")
    found = [(bug, happens(model, bug, contexts=32)) for bug in bugs(model, 5)]
    assert all(trigram.adds > 2 for bug, _ in found for trigram in bug.all)
    showing = [bug for bug, measured in found if all(each.happens for each in measured)]
    assert len(showing) >= 3
    assert len({bug.asked[0].source for bug, _ in found}) == 5


def test_trained_tables_predict_what_the_model_does():
    model = px.load("attn-1l")
    rises = [raised(model, trigram, contexts=16) for trigram in skip_trigrams(model, 10)]
    assert np.median([rise.mean for rise in rises]) > 2


def test_only_one_layer_has_skip_trigrams():
    with pytest.raises(px.PathexpError, match="skip-trigrams are what one layer makes; induction has 2"):
        skip_trigrams(px.induction_model())
    with pytest.raises(px.PathexpError, match="a source stands 1 to length - 1"):
        raised(keep_in_mind(), skip_trigrams(keep_in_mind(), 1)[0], gap=12, length=12)


def test_one_context_is_no_evidence():
    model = keep_in_mind()
    trigram = skip_trigrams(model, 1)[0]
    assert raised(model, trigram, contexts=32).happens
    found = raised(model, trigram, contexts=8, seconds=0.0)
    assert found.tally.windows == 1 and np.isnan(found.error) and not found.happens


def test_measured_together_is_measured_alone():
    """The same contexts, one tally: taken up again it gives what it gives at once, and of others it is refused."""
    model = px.random_model(layers=1, heads=2, d_vocab=8, positions="none", seed=4)
    first, *others = trigrams = skip_trigrams(model, 3)
    together = all_raised(model, trigrams, contexts=9)
    for each in together:
        alone = raised(model, each.trigram, contexts=9)
        assert (each.mean, each.error) == (alone.mean, alone.error) and each.tally is together[0].tally
    some = all_raised(model, trigrams, contexts=4)[0].tally
    again = all_raised(model, trigrams, contexts=9, start=some)
    assert [each.mean for each in again] == [each.mean for each in together]
    (bug,) = bugs(model, 1)
    started = happens(model, bug, contexts=4)
    assert (
        happens(model, bug, contexts=9, start=started[0].tally)[3].mean
        == happens(model, bug, contexts=9)[3].mean
    )
    with pytest.raises(px.PathexpError, match="begin anew"):
        all_raised(model, others, contexts=9, start=some)
    with pytest.raises(px.PathexpError, match="begin anew"):
        raised(model, first, contexts=9, start=some)
    assert all_raised(model, []) == ()
