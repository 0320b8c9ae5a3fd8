"""Tests are many small products: one thread each is faster than handing them around."""

import os
import signal
from zlib import crc32

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["COLUMNS"] = "100"  # pages show what is printed at this width

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


MANY = 8
"""How many cases of one test the fast suite runs; the slow one runs the others."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but `MANY` cases of every test, or one in n of a test marked `sampled(n)`, to the slow suite.

    Which ones stay is drawn by their names, for each test anew: so every architecture meets some laws in the fast suite, and every
    law in CI. PATHEXP_EVERY_CASE=1 keeps all of them.
    """
    if os.environ.get("PATHEXP_EVERY_CASE"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    for some in cases.values():
        marker = some[0].get_closest_marker("sampled")
        stay = -(-len(some) // marker.args[0]) if marker else MANY
        for item in sorted(some, key=lambda item: crc32(item.nodeid.encode()))[stay:]:
            item.add_marker(pytest.mark.slow)
