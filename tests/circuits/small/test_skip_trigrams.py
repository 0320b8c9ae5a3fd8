"""One layer: skip-trigrams off the weights, and the bugs they force."""

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.corpus.limits import Limits
from pathexp.circuits.small import skip_trigram_effects as effects_of
from pathexp.circuits.small.skip_trigram_effects import skip_trigram_effects
from pathexp.circuits.small.skip_trigram_tables import OTHERS, bugs, forced_bug, largest_skip_trigrams
from pathexp.circuits.small.skip_trigrams import skip_trigrams
from pathexp.cli import main
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
    best = largest_skip_trigrams(keep_in_mind(), 2)[0]
    assert (best.source, best.output) == (KEEP, MIND) and best.destination in (IN, AT)
    share = np.exp(8) / (np.exp(8) + OTHERS * (np.exp(8) + 7) / 8)
    np.testing.assert_allclose(best.attention, share)
    np.testing.assert_allclose(best.adds, share * (3 - 5 / 8))


def test_of_one_source_every_output():
    listed = largest_skip_trigrams(keep_in_mind(), 8, source="keep")
    assert [t.output for t in listed[:2]] == [MIND, BAY] and {t.source for t in listed} == {KEEP}
    assert len({t.output for t in listed}) == 8


def test_the_bug_on_paper():
    """ "keep … in mind" and "keep … at bay" force "keep … in bay" and "keep … at mind"."""
    model = keep_in_mind()
    bug = forced_bug(model, "L0H0", "keep", ("in", "mind"), ("at", "bay"))
    assert [(t.destination, t.output) for t in bug.forced] == [(IN, BAY), (AT, MIND)]
    by_pair = {(t.destination, t.output): t.adds for t in bug.all}
    assert by_pair[IN, BAY] == by_pair[AT, BAY] > 0 and by_pair[AT, MIND] == by_pair[IN, MIND] > 0
    measured = skip_trigram_effects(model, bug, contexts=32, length=6)
    assert all(each.significant for each in measured)
    (nothing,) = skip_trigram_effects(
        model, forced_bug(model, "L0H0", "of", ("in", "mind"), ("at", "bay")).intended[0], contexts=32
    )
    assert not nothing.significant


def test_the_rise_is_measured_against_another_token_in_its_place():
    """On paper: six tokens, "keep" among five others that draw nothing (chance draws of "keep" left out)."""
    model = keep_in_mind()
    (trigram, *_) = largest_skip_trigrams(model, 1)
    found = skip_trigram_effects(model, trigram, contexts=400, length=6, gap=2)[0]
    share = np.exp(8) / (np.exp(8) + 5)  # in contexts without another "keep"
    chance = 1 - (7 / 8) ** 4  # that the context holds "keep" anyway, then about the same is there before
    assert (1 - chance) * share * (3 - 5 / 8) * (7 / 8) < found.mean + 3 * found.error < 3


def test_trained_bugs_happen():
    model = px.load("attn-1l")
    found = [(bug, skip_trigram_effects(model, bug, contexts=32)) for bug in bugs(model, 5)]
    assert all(trigram.adds > 2 for bug, _ in found for trigram in bug.all)
    showing = [bug for bug, measured in found if all(each.significant for each in measured)]
    assert len(showing) >= 3
    assert len({bug.intended[0].source for bug, _ in found}) == 5


def test_trained_tables_predict_what_the_model_does():
    model = px.load("attn-1l")
    rises = [
        skip_trigram_effects(model, trigram, contexts=16)[0] for trigram in largest_skip_trigrams(model, 10)
    ]
    assert np.median([rise.mean for rise in rises]) > 2


def test_only_one_layer_has_skip_trigrams():
    with pytest.raises(px.PathexpError, match="skip-trigrams are what one layer makes; induction has 2"):
        skip_trigrams(px.induction_model())
    with pytest.raises(px.PathexpError, match="a source is 1 to length - 1"):
        skip_trigram_effects(keep_in_mind(), largest_skip_trigrams(keep_in_mind(), 1)[0], gap=12, length=12)[
            0
        ]


def test_one_context_is_no_evidence():
    model = keep_in_mind()
    trigram = largest_skip_trigrams(model, 1)[0]
    assert skip_trigram_effects(model, trigram, contexts=32)[0].significant
    found = skip_trigram_effects(model, trigram, contexts=8, limits=Limits(seconds=0))
    assert found.tally.windows == 1 and np.isnan(found[0].error) and not found[0].significant
    assert found.records()[0]["error"] is None


def test_measured_together_is_measured_alone():
    """The same contexts, one tally: taken up again it gives what it gives at once, and of others it is refused."""
    model = px.random_model(layers=1, heads=2, d_vocab=8, positions="none", seed=4)
    first, *others = trigrams = largest_skip_trigrams(model, 3)
    together = skip_trigram_effects(model, trigrams, contexts=9)
    for each in together:
        alone = skip_trigram_effects(model, each.trigram, contexts=9)[0]
        assert (each.mean, each.error) == (alone.mean, alone.error)
    some = skip_trigram_effects(model, trigrams, contexts=4).tally
    again = skip_trigram_effects(model, trigrams, contexts=9, limits=Limits(start=some))
    assert [each.mean for each in again] == [each.mean for each in together]
    (bug,) = bugs(model, 1)
    started = skip_trigram_effects(model, bug, contexts=4)
    assert (
        skip_trigram_effects(model, bug, contexts=9, limits=Limits(start=started.tally))[3].mean
        == skip_trigram_effects(model, bug, contexts=9)[3].mean
    )
    with pytest.raises(px.PathexpError, match="begin anew"):
        skip_trigram_effects(model, others, contexts=9, limits=Limits(start=some))
    with pytest.raises(px.PathexpError, match="begin anew"):
        skip_trigram_effects(model, first, contexts=9, limits=Limits(start=some))[0]
    assert len(skip_trigram_effects(model, [])) == 0


@pytest.mark.slow
def test_the_command_prints_the_same_answer(capsys):
    command = ["skip-trigrams", "attn-1l", "--top", "5", "--bugs", "1", "--contexts", "4", "--source", "q"]
    found = skip_trigrams(px.load("attn-1l"), k=5, bugs=1, contexts=4, source="q")
    assert main([*command, "--json"]) == 0
    assert capsys.readouterr().out == found.to_json() + "\n"
    assert len(found) == 5 == len(found.records()) and {row["source"] for row in found.records()} == {"q"}
    assert [row["part"] for row in found.records("bugs")] == ["intended", "intended", "forced", "forced"]
    assert [row["measured"] for row in found.records("bugs")] == [each.mean for each in found.effects]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "bugs: where a head and a source" in printed and "4 random contexts" in printed
    assert main(["skip-trigrams", "attn-2l"]) == 2


def test_every_cell_of_the_heat_map_is_what_the_tables_add():
    model = px.random_model(layers=1, heads=2, d_vocab=8, positions="none", seed=4)
    found = skip_trigrams(model, k=6, bugs=0)
    for row, (label, source, destination) in enumerate(
        dict.fromkeys((t.head, t.source, t.destination) for t in found)
    ):
        every = {t.output: t for t in largest_skip_trigrams(model, 99, label, source)}
        for column, output in enumerate(dict.fromkeys(t.output for t in found)):
            if every[output].destination == destination:
                np.testing.assert_allclose(found.heat[row, column], every[output].adds, atol=1e-13)


@pytest.mark.parametrize("contexts", [2, 5])
def test_the_error_is_that_of_a_mean_of_so_many_contexts(contexts, monkeypatch):
    """The standard deviation with n − 1, over the root of n: the rises of every context by hand."""
    model, rises = keep_in_mind(), []
    measured = effects_of._rise

    def kept(*arguments):
        both = measured(*arguments)
        rises.append(both[0])
        return both

    monkeypatch.setattr(effects_of, "_rise", kept)
    found = skip_trigram_effects(
        model, largest_skip_trigrams(model, 1)[0], contexts=contexts, length=6, gap=2
    )[0]
    assert len(rises) == contexts
    assert found.mean == pytest.approx(np.mean(rises)) and np.std(rises) > 0
    assert found.error == pytest.approx(np.std(rises, ddof=1) / np.sqrt(contexts))


def test_bugs_are_told_row_by_row():
    model = px.random_model(layers=1, heads=2, d_vocab=8, positions="none", seed=4)
    found = skip_trigrams(model, k=2, bugs=2, contexts=3)
    rows = found.records("bugs")
    assert [row["part"] for row in rows] == ["intended", "intended", "forced", "forced"] * len(found.bugs)
    every = [trigram for bug in found.bugs for trigram in bug.all]
    names = [tuple(model.token_string(token) for token in (t.source, t.destination, t.output)) for t in every]
    assert [(row["source"], row["destination"], row["output"]) for row in rows] == names
    assert [row["measured"] for row in rows] == [effect.mean for effect in found.effects]
