"""Every rewrite on every model of the zoo: the same logits where it is valid, a refusal that says why where not."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st

import pathexp as px
from pathexp.model.rewrite import Step, basis, check_steps, norms, rewritten
from pathexp.model.rewrite.basis import orthogonal
from tests.drawn import models
from tests.zoo import FAMILIES, MORE_EXPERTS, ZOO

MODELS = {**ZOO, **FAMILIES, **MORE_EXPERTS}
rewrite = px.rewrite


def prepared(model):
    """Whatever has to be done before the stream can be turned."""
    model = rewrite.fold_norms(model)
    return (
        rewrite.layernorm_to_rmsnorm(rewrite.center_writing(model))
        if model.config.norm == "layernorm"
        else model
    )


REWRITES = {
    "fold_norms": rewrite.fold_norms,
    "fold_value_biases": rewrite.fold_value_biases,
    "fold_multipliers": rewrite.fold_multipliers,
    "center_writing": rewrite.center_writing,
    "center_unembedding": rewrite.center_unembedding,
    "untie": rewrite.untie,
    "rotate": lambda model: rewrite.rotate(model, 3),
    "layernorm_to_rmsnorm": rewrite.layernorm_to_rmsnorm,
    "all of them, then rotate": lambda model: rewrite.rotate(prepared(rewrite.untie(model)), 3),
}


def refused(name, model):
    """Whether a rewrite must be refused, told from the conditions and not from the code."""
    c, w = model.config, model.weights
    fold = w.g_attn_post is not None or w.g_embed is not None
    fold = fold or (c.positions == "qk" and w.g_attn is not None)
    centers = (
        c.norm == "layernorm" and c.norm_placement in ("pre", "sandwich") and c.final_norm and c.first_norm
    )
    stream_gains = any(
        getattr(w, f"{kind}_{site}") is not None
        for kind in ("g", "b")
        for site in ("embed", "attn", "attn_post", "mlp", "mlp_post", "before_transform", "final")
        if not (site == "final" and c.transform)
        if not (kind == "b" and c.norm != "layernorm")
    )
    return {
        "fold_norms": fold,
        "fold_value_biases": c.sinks and w.b_V is not None,
        "center_writing": not centers,
        "center_unembedding": c.logit_cap is not None,
        "rotate": c.norm == "layernorm" or stream_gains,
        "layernorm_to_rmsnorm": c.norm == "layernorm",
        "all of them, then rotate": fold or (c.norm == "layernorm" and not centers),
    }.get(name, False)


def tokens_of(model, length=33):
    return np.random.default_rng(7).integers(0, model.config.d_vocab, min(length, model.config.n_ctx))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rewriting", REWRITES)
@pytest.mark.parametrize("name", MODELS)
def test_every_rewrite_of_every_model(name, rewriting):
    model = MODELS[name]()
    before = {key: array.copy() for key, array in model.weights.arrays().items()}
    if refused(rewriting, model):
        with pytest.raises(
            px.PathexpError, match=r"rotate|fold_norms|fold_value_biases|center_|layernorm_to"
        ):
            REWRITES[rewriting](model)
    else:
        changed = REWRITES[rewriting](model)
        tokens = tokens_of(model)
        a, b = model.run(tokens), changed.run(tokens)
        np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-10)
        np.testing.assert_allclose(a.patterns, b.patterns, atol=1e-10)
        if rewriting != "center_unembedding":
            np.testing.assert_allclose(a.logits, b.logits, atol=1e-10)
        assert px.expand(b).where("S U").verify().ok
    for key, array in model.weights.arrays().items():
        assert np.array_equal(array, before[key]), f"{key} of the original was written to"


@pytest.mark.parametrize("rewriting", [name for name in REWRITES if "rotate" not in name])
@pytest.mark.parametrize("name", MODELS)
def test_twice_is_once_bit_for_bit(name, rewriting):
    """Case F-11, for every rewrite."""
    model = MODELS[name]()
    if refused(rewriting, model):
        return
    once = REWRITES[rewriting](model)
    twice = REWRITES[rewriting](once)
    assert twice.config == once.config and twice.history == once.history
    assert once.weights.arrays().keys() == twice.weights.arrays().keys()
    for key, array in once.weights.arrays().items():
        assert array.tobytes() == twice.weights.arrays()[key].tobytes(), key


@settings(max_examples=25, deadline=None)
@given(model=models(), seed=st.integers(0, 99))
def test_drawn_models_are_rewritten_or_refused(model, seed):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, model.config.d_vocab, 7)
    before = model.run(tokens)
    for rewriting in REWRITES.values():
        try:
            changed = rewriting(model)
        except px.PathexpError as error:
            assert "would change what" not in str(error), "a rewrite that is invalid is refused, not tried"
            continue
        np.testing.assert_allclose(before.log_probs, changed.run(tokens).log_probs, atol=1e-9, rtol=1e-9)


def test_what_was_done_is_recorded_and_kept_in_files(tmp_path):
    model = px.random_model(norm="layernorm", biases=True, tied=True)
    assert model.history == ()
    done = rewrite.center_unembedding(rewrite.fold_value_biases(rewrite.fold_norms(rewrite.untie(model))))
    assert done.history == ("untie", "fold_norms(attn, final)", "fold_value_biases", "center_unembedding")
    done.save(tmp_path / "done.npz")
    assert px.load(tmp_path / "done.npz").history == done.history


def test_a_file_with_a_strange_history_is_refused(tmp_path):
    import json

    path = tmp_path / "model.npz"
    px.random_model().save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for history in ("fold", [1]):
        header = json.loads(arrays["header"].tobytes()) | {"history": history}
        np.savez(path, **arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
        with pytest.raises(px.PathexpError, match="history"):
            px.load(path)


def test_folding_some_norms_only():
    model = FAMILIES["gemma2"]()
    with pytest.raises(
        px.PathexpError, match=r"attn_post stands on what a branch writes.*norms=\['attn', 'mlp', 'final'\]"
    ):
        rewrite.fold_norms(model)
    folded = rewrite.fold_norms(model, norms=["attn", "mlp", "final"])
    assert folded.weights.g_attn is None and folded.weights.g_attn_post is not None
    np.testing.assert_allclose(folded.run([1, 2]).logits, model.run([1, 2]).logits, atol=1e-12)
    for unknown in (["attention"], "attn", ["embed"]):
        with pytest.raises(
            px.PathexpError, match="not known; this model has attn, attn_post, mlp, mlp_post, final"
        ):
            rewrite.fold_norms(model, unknown)


def test_a_rotated_stream_means_something_else_by_coordinate_and_the_neurons_do_not():
    model = px.random_model(norm="rmsnorm", d_mlp=17, seed=2)
    turned = rewrite.rotate(model, 5)
    a, b = model.run([1, 2, 3]), turned.run([1, 2, 3])
    R = orthogonal(model.config.d_model, 5)
    for point, stream in a.residuals.items():
        np.testing.assert_allclose(b.residuals[point], stream @ R.T, atol=1e-12)
    assert np.abs(a.residuals["embed"] - b.residuals["embed"]).max() > 0.1
    np.testing.assert_allclose(a.mlp_hidden, b.mlp_hidden, atol=1e-12)


@pytest.mark.parametrize(
    ("basis", "text"),
    [
        (np.eye(3), r"shape \(24, 24\), found \(3, 3\)"),
        (2 * np.eye(24), "not orthogonal"),
        (np.full((24, 24), np.nan), "not"),
        (np.eye(24) + 1j, "a matrix of real numbers, or a seed of at least 0"),
        ("Haar", "a matrix of real numbers, or a seed of at least 0; found 'Haar'"),
        ([[1.0, 0.0], [1.0]], "a matrix of real numbers"),
        (-1, "a seed of at least 0; found -1"),
        (True, "found True"),
    ],
)
def test_a_basis_must_be_orthogonal(basis, text):
    with pytest.raises(px.PathexpError, match=text):
        rewrite.rotate(px.random_model(), basis)


def test_one_wrong_step_is_named_and_all_others_pass():
    """Case F-20: the bias of layer 1's norm is forgotten in one fold."""
    model = px.random_model(layers=3, norm="layernorm", biases=True, seed=1)
    steps = list(norms._steps(model, "attn"))

    def forgets(draft):
        draft.edit("b_attn")[1] = 0.0
        steps[1].edit(draft)

    wrong = [steps[0], Step(steps[1].name, forgets), *steps[2:]]
    assert [check.ok for check in check_steps(model, steps)] == [True] * 4
    checks = check_steps(model, wrong)
    assert [(check.name, check.ok) for check in checks if not check.ok] == [("fold_norms L1.attn", False)]
    with pytest.raises(
        px.PathexpError, match=r"the first step that does is fold_norms L1.attn\. LOGITS DIFFER"
    ) as error:
        rewritten(model, "fold_norms(attn)", wrong)
    report = str(error.value)
    assert "fold_norms L0.attn: PASS" in report and "fold_norms L1.attn: FAIL" in report
    assert report.count("FAIL") == 1 and report.count("PASS") == 3


def test_the_self_check_can_fail_by_constants_too():
    model = px.random_model(biases=True)

    def scales(draft):
        draft.edit("W_U")[...] *= 1.0001

    with pytest.raises(px.PathexpError, match="the first step that does is scale"):
        rewritten(model, "scale", [Step("scale", scales)], up_to=lambda found: found.by_constants)


def test_differences_say_what_they_are():
    model = px.random_model(biases=True)
    other = replace(model, weights=replace(model.weights, b_U=model.weights.b_U + 3))
    assert "logits are equal" in str(rewrite.compare(model, model))
    shifted = rewrite.compare(model, other)
    assert "differ by a per-position constant (up to 3)" in str(shifted) and shifted.by_constants
    wrong = rewrite.compare(model, px.random_model(biases=True, seed=9))
    assert "LOGITS DIFFER" in str(wrong) and not wrong.by_constants and wrong.same_top < 9
    with pytest.raises(px.PathexpError, match="11 and 5 tokens"):
        rewrite.compare(model, px.random_model(d_vocab=5))


def test_gains_that_hold_multipliers_are_refused_by_where_they_came_from():
    """Behind a norm of a branch a multiplier is a gain, which no map can take; before it there was nothing to refuse."""
    placed = {"norm": "rmsnorm", "norm_placement": "sandwich", "residual_multiplier": 0.5}
    sizes = {"layers": 2, "heads": 2, "d_mlp": 9, **placed}
    model = px.random_model(**sizes)
    turned = rewrite.fold_multipliers(rewrite.rotate(model, 1))
    assert rewrite.compare(model, turned).equal and turned.weights.g_mlp_post is not None
    folded = rewrite.fold_multipliers(model)
    for call in (rewrite.fold_norms, lambda model: rewrite.rotate(model, 1)):
        with pytest.raises(px.PathexpError, match=r"attn_post.*fold_multipliers puts.*do this before it"):
            call(folded)
    with pytest.raises(px.PathexpError, match="attn_post") as error:
        rewrite.rotate(px.random_model(**sizes, biases=True), 1)
    assert "fold_multipliers" not in str(error.value)


def test_the_norm_before_a_transform_is_folded_into_it():
    model = FAMILIES["modernbert"]()
    folded = rewrite.fold_norms(model, ["before_transform"])
    assert folded.weights.g_before_transform is None and folded.weights.b_before_transform is None
    np.testing.assert_allclose(folded.run([1, 2, 3]).logits, model.run([1, 2, 3]).logits, atol=1e-12)
    with pytest.raises(px.PathexpError, match="a layer before its unembedding"):
        _ = px.head(model, "L0H0").ov_table


def side_by_side(work):
    """The same work; the first waits until a second is begun too."""
    met = threading.Barrier(2)

    def together(*given):
        met.wait(timeout=30)
        return work(*given)

    return together


def test_both_models_of_a_comparison_are_run_side_by_side(monkeypatch):
    model = px.random_model(layers=2, seed=5)
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        alone = rewrite.compare(model, replace(model))
    monkeypatch.setattr(px.Model, "run", side_by_side(px.Model.run))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert str(rewrite.compare(model, replace(model))) == str(alone)


def test_layers_are_turned_side_by_side_and_as_each_alone(monkeypatch):
    turn, layers = basis.random_rotation(12, 0), np.random.default_rng(0).normal(size=(2, 12, 5))
    alone = [turn.of_rows(layer) for layer in layers]
    monkeypatch.setattr(basis.Rotation, "of_rows", side_by_side(basis.Rotation.of_rows))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert np.allclose(basis._by_layers(layers, turn.of_rows), alone, rtol=1e-14, atol=1e-14)
