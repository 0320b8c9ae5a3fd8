"""Claim: the 100 largest entries of a 50,000 × 50,000 table of rank 64 in at most 1.5 times the bare product.

    python benchmarks/virtual.py [--tokens 50000] [--rank 64] [--repeats 3] [--tiny]

The limit is the blocked matrix product itself in single precision, with nothing done to its entries. Norm, spectrum, trace,
rows and the diagonal of the same table follow. Each part runs in a process of its own.
"""

from __future__ import annotations

import json
import time

import numpy as np
from alone import alone, machine, measured, parser


def sides(tokens: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The two sides of the table, single precision."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((tokens, rank), dtype=np.float32)
    return left, rng.standard_normal((rank, tokens), dtype=np.float32)


def bare(tokens: int, rank: int, repeats: int) -> dict[str, float]:
    """The product alone, block by block into memory that is used again."""
    left, right = sides(tokens, rank)
    step = 256
    room = np.empty((step, tokens), dtype=np.float32)

    def product() -> None:
        for start in range(0, tokens, step):
            rows = left[start : start + step]
            np.matmul(rows, right, out=room[: len(rows)])

    return measured(product, repeats)[1]


def table(tokens: int, rank: int):
    """The table as a factored map."""
    from pathexp.algebra import Dense, Space, compose

    vocab, inner = Space("vocab", tokens), Space("waist", rank)
    left, right = sides(tokens, rank)
    return compose(Dense(left, vocab, inner, dtype=np.float32), Dense(right, inner, vocab, dtype=np.float32))


def top(tokens: int, rank: int, repeats: int) -> dict[str, float]:
    """The 100 largest entries."""
    from pathexp.algebra import top_entries

    made = table(tokens, rank)
    return measured(lambda: top_entries(made, 100), repeats)[1]


def rest(tokens: int, rank: int, repeats: int) -> dict[str, float]:
    """Everything else that is asked of a table."""
    from pathexp.algebra import diagonal, norm, row

    made = table(tokens, rank)
    found: dict[str, float] = {}
    for name, work in {
        "norm": lambda: norm(made),
        "trace": made.trace,
        "singular values and vectors": made.svd,
        "eigenvalues": made.eigenvalues,
        "one row": lambda: row(made, 7),
        "diagonal": lambda: diagonal(made),
    }.items():
        start = time.perf_counter()
        work()
        found[name] = time.perf_counter() - start
    return found | measured(lambda: None, 1)[1]


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--tokens", type=int, default=50_000)
    made.add_argument("--rank", type=int, default=64)
    made.add_argument("--repeats", type=int, default=3)
    options = made.parse_args(arguments)
    if options.part is not None:
        name, *numbers = options.part.split(":")
        print(json.dumps({"bare": bare, "top": top, "rest": rest}[name](*map(int, numbers))))
        return
    tokens, rank, repeats = (300, 4, 1) if options.tiny else (options.tokens, options.rank, options.repeats)
    sizes, again = f"{tokens}:{rank}:{repeats}", 1 if options.tiny else 2
    print(f"a table of {tokens:,} × {tokens:,}, rank {rank}, float32; {machine()}")
    runs = {name: [alone(__file__, f"{name}:{sizes}") for _ in range(again)] for name in ("bare", "top")}
    best = {name: min(found, key=lambda run: run["seconds"]) for name, found in runs.items()}
    print(f"bare blocked product  {best['bare']['seconds']:6.2f} s   peak {best['bare']['peak']:5.0f} MB")
    print(f"top 100 entries       {best['top']['seconds']:6.2f} s   peak {best['top']['peak']:5.0f} MB")
    print(f"ratio                 {best['top']['seconds'] / best['bare']['seconds']:6.2f}")
    others = alone(__file__, f"rest:{sizes}")
    assert others is not None
    for name in [key for key in others if key not in ("seconds", "before", "peak")]:
        print(f"{name:28} {others[name]:6.2f} s")
    print(
        f"{'peak of all of these':28} {others['peak']:6.0f} MB; the dense table would take {tokens**2 * 4 / 1e6:,.0f} MB"
    )


if __name__ == "__main__":
    main()
