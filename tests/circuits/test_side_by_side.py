"""Questions whose parts do not need each other work on as many at a time as there are cores, with the same answer."""

import threading
from itertools import count

import pytest
import threadpoolctl

import pathexp as px
from pathexp.circuits.heads import copying, induction_pairs, induction_score, removal
from pathexp.circuits.heads.repeated_tokens import RepeatedTokens
from pathexp.circuits.subspaces import memory_management, overlap

MODEL = px.load("attn-2l")
TEXTS = RepeatedTokens(MODEL, 8)
SHARED = {
    "overlap": (overlap, "written_basis", lambda: px.overlap(MODEL).to_dict()),
    "memory management": (memory_management, "written_basis", lambda: px.memory_management(MODEL, k=4).to_dict()),
    "spectra of memory management": (
        memory_management, "spectrum", lambda: px.memory_management(MODEL, k=4).to_dict()
    ),
    "copying": (copying, "_copying", lambda: copying.copying(MODEL).to_dict()),
    "induction pairs": (
        induction_pairs, "ov_spectrum",
        lambda: [(pair.strength, pair.copying.score) for pair in induction_pairs.induction_pairs(MODEL)],
    ),
    "induction score": (
        induction_score, "_explained",
        lambda: induction_score.induction_score(MODEL, "L1H0", "L0H2", length=8).share,
    ),
    "induction scores": (
        induction_score, "_explained",
        lambda: [
            found.share
            for found in induction_score.induction_scores(
                TEXTS, [induction_score.Makers("L1H0", "L0H2", "L0H2")], 2
            )
        ],
    ),
    "removals": (removal, "_fall", lambda: removal.removals(TEXTS, ["L1H0", "L1H3"], 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_parts_are_worked_on_side_by_side_and_the_answer_is_the_same(name, monkeypatch):
    module, part, ask = SHARED[name]
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        alone = ask()
    met, begun, work = threading.Barrier(2), count(), getattr(module, part)

    def together(*given):
        if next(begun) < 2:
            met.wait(timeout=30)  # the first waits until the second is begun too
        return work(*given)

    monkeypatch.setattr(module, part, together)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert ask() == alone
    assert next(begun) >= 2
