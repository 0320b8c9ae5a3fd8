"""Claim: a contrast's shares add up, and its totals follow live patching closer than gradients and UNPACK's credits do.

    python benchmarks/peer_unpack.py [--peer PYTHON] [--folder FOLDER] [--prompts 12] [--tiny]

A GPT-2 of 3 layers × 4 heads that repeats random tokens, trained here in the peer's environment in a few minutes (kept in
--folder); prompts are repeats, their twins lack the earlier copy of the last token. On the same prompts: the contrast;
attribution patching (Nanda 2023), the mean of both runs' gradients; path patching (Goldowsky-Dill et al. 2023) of the edges from
every head and MLP to the logits; UNPACK (Chen et al. 2026) in each of its presets, which asks one run alone; and, as what is true of
a node, live patching of the whole node, the mean of both directions. `--peer` is a Python with UNPACK, torch and transformers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from alone import alone, machine, parser

Array = npt.NDArray[np.float64]
VOCAB, HALF = 48, 12
PRESETS = ("kqv_aligned", "kqv_weighted", "kqv_l2", "k_only_aligned", "k_only_weighted", "k_only_l2")
"""UNPACK's own configurations, its default first."""
INSTALL = """UNPACK is not there. To measure beside it, give it an environment of its own:
    git clone https://github.com/Fun-Cry/unpacklm && python -m venv peer && peer/bin/pip install torch transformers ./unpacklm
    python benchmarks/peer_unpack.py --peer peer/bin/python"""


# Ours --------------------------------------------------------------------------------------------------


def prompts(count: int, seed: int = 1) -> list[tuple[list[int], list[int], int]]:
    """Repeats of random tokens, their twins, and the token that repeats on."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        segment = rng.choice(VOCAB, HALF, replace=False)
        at = int(rng.integers(4, HALF - 1))
        text = [int(token) for token in (*segment, *segment[: at + 1])]
        twin = list(text)
        twin[at] = int(rng.choice(np.setdiff1d(np.arange(VOCAB), segment)))
        found.append((text, twin, int(segment[at + 1])))
    return found


def measure(model: Any, text: list[int], twin: list[int], token: int) -> dict[str, Any]:
    """Every method but UNPACK on one prompt: totals by node, sums of direct edges, seconds."""
    from contrast_against_patching import totals
    from live_patching import Patched, output_changes

    import pathexp as px

    toward = np.full(VOCAB, -1 / VOCAB)
    toward[token] += 1
    here, there = model.run(text), model.run(twin)
    target, changes = here.direction(toward), output_changes(here, there)
    whole = float((here.logits[-1] - there.logits[-1]) @ toward)
    (contrast, ported), slow = timed(
        lambda: (totals(graph := px.contrast(here, there), changes, target), graph)
    )
    runs = (here, there)
    slopes, steep = timed(lambda: [totals(px.contrast(r, r), changes, r.direction(toward)) for r in runs])
    live, long = timed(
        lambda: (Patched(there, here).effects(target) - Patched(here, there).effects(target)) / 2
    )
    shares = px.attribution(ported, target, by="head")
    straight = px.attribution(ported, target, by="component", beside=("gradient",), k=10**6)
    writers = [start_difference(here, there), *changes.values()]
    ends, lost = timed(
        lambda: [
            straight_effect(run, writers, toward, sign) for run, sign in zip(runs, (1.0, -1.0), strict=True)
        ]
    )
    return {
        "whole": whole, "contrast": contrast.tolist(), "gradient": np.mean(slopes, axis=0).tolist(), "live": live.tolist(),
        "path patching": np.mean(ends, axis=0)[1:].tolist(),
        "sums": {
            "contrast": shares.values.sum() / whole, "gradient": np.nansum(straight.beside["gradient"]) / whole,
            "path patching": np.mean(ends, axis=0).sum() / whole,
        },
        "seconds": {"contrast": slow, "gradient": steep, "path patching": lost, "live": long},
    }  # fmt: skip


def start_difference(here: Any, there: Any) -> Array:
    """What the embeddings differ by, (n, d)."""
    found: Array = here.residuals["embed"] - there.residuals["embed"]
    return found


def straight_effect(run: Any, writers: list[Array], toward: Array, sign: float) -> Array:
    """Path patching from each writer straight to the logits: the final stream with one writer's output exchanged.

    `writers` are outputs here minus there; `sign` is +1 for the run here, whose outputs they are taken from, −1 for there.
    """
    from pathexp.model.parts import unembedded

    end = run.residuals["final_in"][-1]
    values = unembedded(run.model, np.stack([end, *(end - sign * change[-1] for change in writers)])) @ toward
    return np.asarray(sign * (values[0] - values[1:]))


def timed(work: Any) -> tuple[Any, float]:
    """A result and the processor seconds it took."""
    start = time.process_time()
    return work(), time.process_time() - start


# The peer's ----------------------------------------------------------------------------------------------


def train(folder: str, steps: int = 2000) -> dict[str, float]:
    """Train the GPT-2 on repeats of every period, so that no position tells what comes next, and save it."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    torch.set_num_threads(1)
    ends = {"bos_token_id": None, "eos_token_id": None}
    sizes = {
        "vocab_size": VOCAB,
        "n_positions": 2 * HALF,
        "n_embd": 64,
        "n_layer": 3,
        "n_head": 4,
        "n_inner": 128,
    }
    model = GPT2LMHeadModel(GPT2Config(**sizes, **ends, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0))
    rule = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    slower = torch.optim.lr_scheduler.OneCycleLR(rule, 2e-3, total_steps=steps)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        period = int(torch.randint(4, HALF + 1, ()))
        segment = torch.rand(32, VOCAB).argsort(dim=1)[:, :period]
        text = segment.repeat(1, 2 * HALF // period + 1)[:, : 2 * HALF]
        logits = model(text).logits[:, period:-1]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), text[:, period + 1 :].reshape(-1))
        rule.zero_grad()
        loss.backward()
        rule.step()
        slower.step()
    model.save_pretrained(folder)
    return {"loss": float(loss.detach())}


class Words:
    """A tokenizer of numbers, as far as UNPACK asks."""

    pad_token, pad_token_id, eos_token, eos_token_id = "0", 0, "0", 0

    def __call__(self, text: Any, **_: Any) -> Any:
        import torch
        from transformers.tokenization_utils_base import BatchEncoding

        rows = [[int(word) for word in each.split()] for each in ([text] if isinstance(text, str) else text)]
        ids = torch.tensor(rows)
        return BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(text)]

    def decode(self, ids: Any) -> str:
        return str(int(ids[0]))

    def convert_ids_to_tokens(self, ids: Any) -> list[str]:
        return [str(int(token)) for token in ids]


def unpack(folder: str, file: str, preset: str) -> dict[str, Any]:
    """UNPACK's credits of every prompt and of its twin by one preset, and the seconds of one trace."""
    import torch
    from transformers import GPT2LMHeadModel
    from unpack import Tracer

    torch.set_num_threads(1)
    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    model.config.output_attentions = model.config.output_hidden_states = True
    rows, seconds = [], []
    for text, twin, token in json.loads(Path(file).read_text()):
        found = []
        for tokens in (text, twin):
            start = time.process_time()
            with torch.no_grad():
                traced = Tracer(model=model, tokenizer=Words()).trace(
                    " ".join(map(str, tokens)), target=str(token), config=preset
                )
            seconds.append(time.process_time() - start)
            found.append(traced)
        flows = [{name: float(value) for name, value in each.component_flow.items()} for each in found]
        added = [sum(each.importance.values()) / each.target_logit_centered for each in found]
        rows.append({"flows": flows, "added": added[0], "paths": len(found[0].paths)})
    return {"rows": rows, "seconds": float(np.median(seconds))}


# Report --------------------------------------------------------------------------------------------------


def their_name(node: str) -> str:
    """A node as UNPACK calls it.

    >>> their_name("L2H3"), their_name("L1M")
    ('attn_2_head_3', 'mlp_1')
    """
    layer, _, head = node[1:].partition("H")
    return f"attn_{layer}_head_{head}" if head else f"mlp_{layer[:-1]}"


def agreement(found: list[Array], live: list[Array]) -> str:
    """Pearson's and Spearman's correlation with live effects, means over prompts with standard errors."""
    from contrast_against_patching import mean_and_error, ranks

    pairs = list(zip(found, live, strict=True))
    pearson = np.array([np.corrcoef(a, b)[0, 1] for a, b in pairs])
    spearman = np.array([np.corrcoef(ranks(a), ranks(b))[0, 1] for a, b in pairs])
    return f"{mean_and_error(pearson):>16}{mean_and_error(spearman):>16}"


def report(mine: list[dict[str, Any]], names: tuple[str, ...], theirs: dict[str, Any]) -> None:
    """Print one row a method, and of UNPACK two rows a preset that ran."""
    from contrast_against_patching import mean_and_error

    live = [np.array(row["live"]) for row in mine]
    print(f"{'method':34}{'sum / whole':>16}{'Pearson':>16}{'Spearman':>16}{'s per prompt':>14}")
    for method in ("contrast", "gradient", "path patching"):
        sums = mean_and_error(np.array([row["sums"][method] for row in mine]))
        seconds = np.median([row["seconds"][method] for row in mine])
        print(
            f"{method:34}{sums:>16}{agreement([np.array(row[method]) for row in mine], live)}{seconds:>14.4f}"
        )
    print(f"{'live patching':34}{'':>48}{np.median([row['seconds']['live'] for row in mine]):>14.4f}")
    for preset, found in theirs.items():
        flows = [
            [np.array([each[their_name(name)] for name in names]) for each in row["flows"]]
            for row in found["rows"]
        ]
        sums = mean_and_error(np.array([row["added"] for row in found["rows"]]))
        rows = {f"UNPACK {preset}": [a for a, _ in flows], "  minus its twin": [a - b for a, b in flows]}
        for title, credits in rows.items():
            print(f"{title:34}{sums:>16}{agreement(credits, live)}{found['seconds']:>14.4f}")


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--peer", default=sys.executable, help="a Python with UNPACK, torch and transformers")
    made.add_argument("--folder", help="where the trained GPT-2 is, or is kept")
    made.add_argument("--prompts", type=int, default=12)
    options = made.parse_args(arguments)
    if options.part:
        part, *words = options.part.split(",")
        print(json.dumps({"train": train, "unpack": unpack}[part](*words)))
        return
    from live_patching import nodes

    import pathexp as px

    print(f"UNPACK's neighbourhood; {machine()}")
    with tempfile.TemporaryDirectory() as scratch:
        folder, file = Path(options.folder or scratch), Path(scratch) / "prompts.json"
        trained = (folder / "config.json").exists()
        if not trained and not options.tiny:
            found = alone(__file__, f"train,{folder}", options.peer)
            print("trained:", found) if found else print(INSTALL)
            trained = found is not None
        model = px.load(folder) if trained else px.random_model(
            layers=3, heads=4, d_model=64, d_head=16, d_mlp=128, norm="layernorm", positions="learned", d_vocab=VOCAB,
            n_ctx=2 * HALF, seed=1,
        )  # fmt: skip
        texts = prompts(2 if options.tiny else options.prompts)
        mine = [measure(model, *each) for each in texts]
        file.write_text(json.dumps(texts))
        presets = PRESETS if trained else ()
        theirs = {name: alone(__file__, f"unpack,{folder},{file},{name}", options.peer) for name in presets}
        wholes = [abs(row["whole"]) for row in mine]
        print(
            f"{len(mine)} prompts, {len(nodes(model.config))} nodes, mean |difference| {np.mean(wholes):.3f}"
        )
        report(mine, nodes(model.config), {name: found for name, found in theirs.items() if found})
        print(
            "sum: of edges straight to the logits, over the whole difference; UNPACK's: importances over one run's centered logit"
        )


if __name__ == "__main__":
    main()
