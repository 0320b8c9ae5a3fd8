"""Tests are many small products: one thread each is faster than handing them around."""

import os
import signal
from collections import Counter
from zlib import crc32

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["COLUMNS"] = "100"  # pages show what is printed at this width

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave one in n of the cases of a test marked `sampled(n)` to the fast suite, the others to the slow one.

    Tests begin at different cases, so that every architecture meets some law in the fast suite and every law in CI.
    """
    seen: Counter[str] = Counter()
    for item in items:
        if (marker := item.get_closest_marker("sampled")) is not None:
            test, one_in = item.nodeid.split("[")[0], marker.args[0]
            if (seen[test] + crc32(test.encode())) % one_in:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1
