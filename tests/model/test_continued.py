"""A run without part of what attention gave is continued as a whole run with that edit, in every architecture."""

import numpy as np
import pytest

from pathexp.model.continued import ContinuedRuns, logits_of_rows, without_result
from pathexp.model.forward import rerun
from tests.zoo import FAMILIES, ZOO

MODELS = {**ZOO, **FAMILIES}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_head_is_removed_as_in_a_run_anew(name):
    model = MODELS[name]()
    if not model.config.n_layers:
        pytest.skip("a model without layers has no heads")
    trace = model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, min(7, model.config.n_ctx)))
    for layer in range(model.config.n_layers):
        head = layer % model.config.n_heads
        result = trace.z[layer, head] @ model.weights.W_O[layer, head].T
        stream, later = without_result(trace, layer, result), ContinuedRuns([trace], 0, len(trace))
        for behind in range(layer + 1, model.config.n_layers):
            stream = later.block(stream, behind)
        anew = rerun(trace, {f"L{layer}.attn_result": lambda given, result=result: given - result}).logits
        size = 1 + np.abs(anew).max()
        np.testing.assert_allclose(logits_of_rows(later, stream), anew, rtol=0, atol=1e-11 * size)
