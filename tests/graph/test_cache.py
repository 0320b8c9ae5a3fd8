"""What is made once for an object is made once, whichever threads ask for it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from pathexp.graph import WeakCache


class Owner:
    """Somebody that values belong to."""


def test_what_another_thread_makes_for_an_owner_is_waited_for():
    cache, owner, made, asked = WeakCache(), Owner(), [], threading.Barrier(2)

    def make():
        made.append(threading.get_ident())
        time.sleep(0.05)  # the other asks meanwhile
        return object()

    def ask(_):
        asked.wait(timeout=30)
        return cache.get(owner, "key", make)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, range(2))
    assert first is second and len(made) == 1
