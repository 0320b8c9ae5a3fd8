"""A short run of the fuzzer over every loader and state; `python -m tests.fuzzing` runs it long."""

import tracemalloc

import pytest

from pathexp.errors import PathexpError
from tests.fuzzed_fields import families_left_out
from tests.fuzzing import Seed, fuzzed, seeds, verdict


def test_damaged_files_are_refused_by_name_in_bounded_time_and_memory():
    counts, faults = fuzzed(150, seed=1)
    assert not faults, "\n".join(faults)
    assert sum(counts.values()) == 150 and any("refused" in name for name in counts)


@pytest.mark.parametrize("name", seeds())
def test_whole_files_are_read(name):
    tracemalloc.start()
    seed = seeds()[name]
    assert verdict(seed, seed.files) == "read"
    tracemalloc.stop()


def test_every_family_has_its_configuration_damaged():
    assert not families_left_out()


def test_the_fuzzer_sees_faults():
    def bare(folder):
        raise KeyError("x")

    def endless(folder):
        while True:
            pass

    def greedy(folder):
        return [bytes(100 << 20)]

    def acting(folder):
        raise PathexpError("\x1b[31m")

    tracemalloc.start()
    try:
        found = [verdict(Seed({}, read), {}) for read in (bare, greedy, acting)]
    finally:
        tracemalloc.stop()
    assert "KeyError" in found[0] and "bytes held" in found[1] and "acting" in found[2]
