"""As two runs come together their contrast becomes the derivative that torch's autograd computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import pathexp as px  # noqa: E402
from pathexp.circuits.attribution.sweeps import pulled  # noqa: E402
from pathexp.graph import pull  # noqa: E402
from pathexp.graph.nodes import Source  # noqa: E402
from tests.interop.double import in_double  # noqa: E402
from tests.interop.test_expert_families import made as experts_made  # noqa: E402
from tests.interop.test_families import made  # noqa: E402
from tests.interop.test_latent_families import made as latents_made  # noqa: E402

pytestmark = pytest.mark.interop

CASES = ("gpt2", "gpt_neox parallel", "llama", "qwen3", "gemma2", "olmo2", "granite", "bert", "phi")
EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss")
LATENTS = ("deepseek_v2", "deepseek_v3", "deepseek_v3 queries from the stream, pairs half apart")
TEXT, AHEAD, BEHIND = [3, 17, 8, 21, 3, 11], 5, 12


def autograd(case: str, folder: Path, toward: np.ndarray) -> tuple[px.Model, np.ndarray, np.ndarray]:
    """The model, what its embedding gives every token, (V, d), and torch's gradient of a sum of logits there, (n, d)."""
    with in_double():
        makers = dict.fromkeys(EXPERTS, experts_made) | dict.fromkeys(LATENTS, latents_made)
        theirs = makers.get(case, made)(case, folder)
        ours = px.load(folder)
        with torch.enable_grad():
            every = theirs.get_input_embeddings()(torch.arange(29)).detach()  # some families multiply in here
            embedded = every[torch.tensor(TEXT)][None].clone().requires_grad_()
            (theirs(inputs_embeds=embedded).logits[0, -1] * torch.tensor(toward)).sum().backward()
    return ours, every.numpy(), embedded.grad[0].numpy()


def one_hot(token: int) -> np.ndarray:
    found = np.zeros(29)
    found[token] = 1.0
    return found


@pytest.mark.parametrize("case", (*CASES, *EXPERTS, *LATENTS))
def test_a_run_against_itself_is_autograds_gradient(case: str, tmp_path: Path) -> None:
    ours, every, slopes = autograd(case, tmp_path, one_hot(AHEAD) - one_hot(BEHIND))
    by_token = slopes @ every.T  # toward every token of the vocabulary, (n, V)
    trace = ours.run(TEXT)
    graph = px.contrast(trace, trace)
    source = graph.by_label["E"]
    assert isinstance(source, Source)
    found = pull(source.write, pulled(graph, trace.logit_difference(AHEAD, BEHIND))[0])
    np.testing.assert_allclose(found, by_token, atol=1e-10 * np.abs(by_token).max())


@pytest.mark.parametrize("case", ["gpt2", "llama", "gemma2", "olmo2"])
def test_shares_of_near_runs_are_gradient_times_difference(case: str, tmp_path: Path) -> None:
    gap = 1e-7
    ours, every, slopes = autograd(case, tmp_path, one_hot(AHEAD))
    moved = np.array(ours.weights.W_E)
    step = np.cos(np.arange(len(moved)))
    for token, near in ((8, 9), (11, 10)):
        moved[:, near] = moved[:, token] + gap * step
    untied = replace(ours, weights=replace(ours.weights, W_E=moved), config=replace(ours.config, tied=False))
    here, there = untied.run([3, 17, 9, 21, 3, 10]), untied.run(TEXT)
    shares = px.attribution(px.contrast(here, there), here.logit(AHEAD), by="token")
    expected = slopes @ step * float(every[0, 0]) / ours.weights.W_E[0, 0]
    assert shares.ok and len(shares.names) == 2
    np.testing.assert_allclose(
        shares.values / gap, expected[[2, 5]], rtol=1e-5, atol=1e-6 * np.abs(expected).max()
    )
