"""Many machines: averages on a real Dask cluster of processes equal the serial ones, workers killed or not."""

import os
import signal
from pathlib import Path

import pytest

import pathexp as px
from pathexp.errors import PathexpError
from tests.circuits.cases.test_average import MODEL, drawn, refused

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def killing(trace, target, *, flag):
    """Attribute; the first worker that comes to the case of ten tokens is killed there."""
    if len(trace) == 10 and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return px.attribution(trace, target)


def test_no_digit_changes_and_errors_name_the_case(client):
    cases, executor = drawn(12), client.get_executor()
    for ask in (
        lambda **more: px.average(px.attribution, MODEL, cases, **more),
        lambda **more: px.average(px.tree, MODEL, cases, nodes=6, **more),
        lambda **more: px.average(px.intervene, MODEL, cases, cut="E L0H2 .* U", zero="mean", **more),
        lambda **more: px.faithfulness(MODEL, cases, edges=(1.0, 0.2, 0.0), zero="corrupted", **more),
    ):
        assert ask(executor=executor).to_dict() == ask().to_dict()
    with pytest.raises(PathexpError, match=r"case 3 of 12 .*ten tokens"):
        px.average(refused, MODEL, cases, executor=executor)


def test_the_model_goes_by_a_shared_folder(client, tmp_path):
    cases = drawn(6)
    there = px.average(px.attribution, MODEL, cases, executor=client.get_executor(), folder=tmp_path)
    assert there.to_dict() == px.average(px.attribution, MODEL, cases).to_dict()
    assert not list(tmp_path.iterdir())


def test_a_killed_worker_loses_nothing_and_counts_nothing_twice(client, tmp_path):
    cases, flag = drawn(30), str(tmp_path / "killed")
    found = px.average(killing, MODEL, cases, executor=client.get_executor(), flag=flag)
    assert Path(flag).exists() and found.cases == 30
    assert found.records() == px.average(px.attribution, MODEL, cases).records()
