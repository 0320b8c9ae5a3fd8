"""Claim: of 100,000 searches made to break a proof, no claim is false of the exact values of all paths.

    python benchmarks/adversarial_searches.py [--cases 100000] [--first 0] [--workers 2] [--shells] [--tiny]

Graphs and models as in the tests: sharp attention, denormals, pairs that cancel at 2^±60, ties, zeros, sizes of 1e±150,
duplicates, post-norms, constants, contrasts of two runs and what they are made of, queries that cut. Each is searched within
limits and enumerated; all values are checked in integers times powers of two. With `--shells` every part of two columns is enclosed as
the wide parts of large models are.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from alone import machine, parser

sys.path.insert(0, str(Path(__file__).parents[1]))

from pathexp.expansion.search import unions
from tests.expansion.adversaries import RandomDice, drawn_case, judged_twice

BATCH = 250


def batch(first: int, last: int, shells: bool) -> tuple[Counter[str], list[float], list[str]]:
    """Outcomes, margins of proofs over their largest value, and the false claims of some seeds."""
    if shells:
        unions.WIDE = 2
    outcomes, margins, false = Counter[str](), list[float](), list[str]()
    for seed in range(first, last):
        try:
            judgements = judged_twice(drawn_case(RandomDice(np.random.default_rng(seed))))
        except Exception as error:  # whatever goes wrong, the seed says where
            false.append(f"seed {seed}: {type(error).__name__} {error}")
            continue
        for found in judgements:
            outcomes["left out" if found is None else "proven" if found.exact else "not proven"] += 1
            margins += [found.margin] if found is not None and found.exact else []
    return outcomes, margins, false


def main(arguments: list[str] | None = None) -> None:
    made: argparse.ArgumentParser = parser(__doc__)
    made.add_argument("--cases", type=int, default=100_000)
    made.add_argument("--first", type=int, default=0)
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--progress", action="store_true", help="say on stderr how far it is")
    made.add_argument("--shells", action="store_true", help="enclose small parts as wide ones are")
    options = made.parse_args(arguments)
    cases = 20 if options.tiny else options.cases
    print(f"adversarial searches; {machine()}")
    start, last = time.perf_counter(), options.first + cases
    firsts = range(options.first, last, BATCH)
    outcomes, margins, false = Counter[str](), list[float](), list[str]()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the workers: their matrices are small
    with ProcessPoolExecutor(1 if options.tiny else options.workers, get_context("spawn")) as pool:
        for some, found, wrong in pool.map(
            batch, firsts, [min(at + BATCH, last) for at in firsts], [options.shells] * len(firsts)
        ):
            outcomes += some
            margins += found
            false += wrong
            if options.progress:
                print(f"{sum(outcomes.values()):,} searches, {len(false)} false", file=sys.stderr, flush=True)
    print(", ".join(f"{amount:,} {what}" for what, amount in sorted(outcomes.items())))
    if margins:
        print(
            f"margin over the largest value: median {np.nanmedian(margins):.1g}, 99th percentile {np.nanquantile(margins, 0.99):.1g}"
        )
    print(f"{len(false)} false claims, {time.perf_counter() - start:,.0f} s", *false, sep="\n")
    if false:
        sys.exit(1)


if __name__ == "__main__":
    main()
