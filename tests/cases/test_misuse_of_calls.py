"""Every public call, each of its arguments wrong in many ways: a PathexpError, or a result, and never anything else."""

import inspect
import warnings

import numpy as np
import pytest

import pathexp as px
from pathexp.circuits.corpus.limits import Limits
from pathexp.circuits.heads import copying, head_edits, spectrum
from pathexp.circuits.heads.head_types import head_types
from pathexp.circuits.heads.induction_pairs import induction_pairs
from pathexp.circuits.heads.induction_score import induction_score
from pathexp.circuits.heads.repeated_tokens import repeated_runs

WRONG = (
    3.5,
    float("nan"),
    "no such",
    "",
    object(),
    -99,
    [],
    {},
    (),
    [None],
    b"x",
    True,
    np.zeros((2, 2)),
    ...,
)
TEXTS = [[1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6], [2] * 12]


@pytest.fixture(scope="module")
def calls():
    """A good call of every public function: its arguments by name, or in order."""
    model = px.random_model(layers=2, heads=2, norm="layernorm", biases=True, seed=1, n_ctx=12)
    one = px.random_model(layers=1, heads=2, positions="none", seed=1, n_ctx=14)
    plain = px.random_model(layers=2, heads=2, norm="layernorm", seed=1, n_ctx=12)
    trace, other = model.run([1, 2, 3]), model.run([3, 2, 1])
    target, terms, graph = trace.logit(2), px.expand(trace), px.freeze(trace)
    head, vw = (
        px.head(model, "L1H0"),
        px.virtual_weight(model, "L0H0", "L1H0.Q"),
    )
    term = terms["E L0H0 U"]
    short = {"model": model, "length": 4}
    cases = [px.Case([1, 2, 3], answer=2, wrong=1), px.Case([3, 1], answer=1, wrong=2)]
    return {
        "attribution": {"what": trace, "target": target, "by": "head", "k": 3},
        "average": {"question": px.attribution, "model": model, "cases": cases, "contrast": False, "quantiles": (0.5,), "executor": None, "folder": None},
        "bigrams": {"model": model, "corpus": TEXTS, "min_count": 1, "chunks": 2},
        "bottlenecks": {"model": model, "corpus": TEXTS, "limits": Limits()},
        "composition": {"model": model, "path": ["L0H0", "L1H0"], "norms": "raw", "distance": 0},
        "copying": {"model": model},
        "decompose": {"trace": trace, "point": "L0.out"},
        "equivariance": {"what": trace, "seed": 1},
        "evaluate": {"expr": term.expr, "arrays": terms.arrays()},
        "explore": {"what": model, "text": "1 2 3", "target": None, "port": 0, "browser": False, "name": "x"},
        "faithfulness": {"model": model, "cases": cases, "edges": (1.0, 0.5), "circuit": None, "how": "frozen", "zero": "zero", "inputs": "qkv", "ranking": "flow"},
        "expand": {"what": trace, "query": "E .* U"},
        "derive_score": {"head": "L1H0", "layers": 2, "heads": 1, "positions": "rotary", "distance": 2, "max_terms": 3},
        "entropy": {"trace": trace},
        "contrast": {"run": trace, "other": other},
        "derive": {"layers": 2, "heads": 1, "query": "E .* U", "max_terms": 3},
        "tree": {"what": trace, "target": target, "query": "E .* U", "nodes": 3, "share": 0.5, "direction": "back"},
        "rebase": {"trace": plain.run([1, 2]), "head": "L0H0", "circuit": "OV", "basis": np.eye(5), "seed": 1},
        "score": {"trace": trace, "head": "L1H0", "query": 2, "key": 1, "graph": graph, "kind": "direct", "k": 3},
        "swap": {"trace": trace, "head": "L1H0", "other": "L0H0", "circuit": "QK", "k": 3},
        "induction_score": {**short, "head": "L1H0", "previous_head": "L0H0", "queries": 1, "runs": 1, "seed": 1},
        "flow": {"what": trace, "target": target, "query": "E .* U", "per_position": False, "share": 0.5},
        "freeze": {"trace": trace, "mlp": "gate", "neurons": {}, "cap": "ratio"},
        "head": {"model": model, "label": "L1H0", "distance": 1, "k": 2},
        "head_types": {**short, "corpus": TEXTS, "runs": 2, "prefix": [1], "seed": 1, "limits": Limits(9.0)},
        "heads": {**short, "corpus": TEXTS, "runs": 2, "prefix": [1], "seed": 1, "limits": Limits(9.0)},
        "induction": {**short, "runs": 2, "prefix": [1], "seed": 1, "score_runs": 1},
        "induction_model": {"d_vocab": 8, "n_ctx": 9, "name": "x"},
        "induction_pairs": {"model": model, "positions": 8},
        "interference": {"what": model, "label": "L0H0", "norms": "raw", "k": 2},
        "intervene": {"trace": trace, "target": target, "cut": "E U", "patch_from": other, "zero": "zero", "inputs": "qk"},
        "paths_along": {"writer": "L0H0", "reader": "L1H0"},
        "paths_through": {"label": "L0H0"},
        "lens": {"trace": trace, "target": target, "mid": True},
        "load": {"name_or_path": "attn-0l"},
        "memory_management": {"model": model, "corpus": TEXTS, "k": 2, "limits": Limits()},
        "models": {},
        "memory_budget": {"size": "2GiB"},
        "order_importance": {"model": model, "corpus": TEXTS, "max_order": 0},
        "ov_spectrum": {"head": head},
        "overlap": {"model": model, "writer": "L0H0", "reader": "L1H0", "norms": "raw"},
        "privileged_basis": {"model": model, "corpus": TEXTS, "seed": 1, "limits": Limits()},
        "qk_spectrum": {"head": head, "distance": None},
        "position_flow": {"trace": trace, "target": target},
        "query": {"text": "E U"},
        "random_model": {"layers": 1, "heads": 2, "d_model": 8, "d_head": 2, "norm": None, "seed": 1, "biases": True},
        "rebase_ov": {"model": model, "label": "L0H0", "basis": np.eye(5)},
        "rebase_qk": {"model": plain, "label": "L0H0", "basis": np.eye(5)},
        "repeated_runs": {**short, "runs": 1, "prefix": [1], "seed": 1},
        "rerun": {"trace": trace, "edits": {"embed": lambda x: x}},
        "rotate_basis": {"model": model, "k": 3, "seed": 1},
        "row_maximum_on_diagonal": {"map": vw @ vw.T},
        "skip_trigrams": {"model": one, "k": 2, "head": "L0H0", "source": 1, "bugs": 1, "contexts": 2},
        "spectrum": {"map": vw @ vw.T},
        "swap_ov": {"model": model, "a": "L0H0", "b": "L1H0"},
        "swap_qk": {"model": model, "a": "L0H0", "b": "L1H0"},
        "ungrouped": {"model": model},
        "verify": {"terms": list(terms), "graph": graph, "reference": trace.logits},
        "virtual_heads": {"model": model, "corpus": TEXTS, "order": 2, "k": 1},
        "virtual_weight": {"what": trace, "writer": "L0H0", "reader": "L1H0", "through": "direct", "norms": "folded"},
    }  # fmt: skip


SHELVED = {
    call.__name__: call
    for call in (
        head_edits.rebase_ov, head_edits.rebase_qk, head_edits.swap_ov, head_edits.swap_qk, head_edits.ungrouped,
        copying.copying, copying.ov_spectrum, copying.qk_spectrum, spectrum.row_maximum_on_diagonal, spectrum.spectrum, head_types,
        induction_pairs, induction_score, repeated_runs,
    )
}  # fmt: skip
"""Functions that are imported from the files of their shelf."""


def function(name):
    return getattr(px, name, None) or SHELVED[name]


NAMES = sorted(
    name
    for name in {*px.__all__, *SHELVED}
    if not inspect.isclass(function(name)) and not inspect.ismodule(function(name))
)


def done(name, arguments):
    """Call, and take what is lazy as far as its first element."""
    call = function(name)
    found = call(**arguments) if isinstance(arguments, dict) else call(*arguments)
    if inspect.isgenerator(found):
        next(found)
    if name == "explore":
        found.stop()
    if name == "memory_budget":
        px.memory_budget("2GiB")  # other tests share it
    return found


def test_every_public_function_has_a_good_call(calls):
    assert sorted(calls) == NAMES
    for name, arguments in calls.items():
        done(name, arguments)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_are_refused_in_words(calls, name):
    good = calls[name]
    good = good if isinstance(good, dict) else dict(enumerate(good))
    failures = []
    for which in good:
        for wrong in (None, *WRONG):
            arguments = good | {which: wrong}
            arguments = arguments if isinstance(calls[name], dict) else tuple(arguments.values())
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    done(name, arguments)
            except px.PathexpError as error:
                if len(str(error)) < 15:
                    failures.append(f"{which}={wrong!r:.20}: says nothing: {error}")
            except Exception as error:
                failures.append(f"{which}={wrong!r:.20}: {type(error).__name__}: {error}")
    assert not failures, "\n".join([name, *failures])
