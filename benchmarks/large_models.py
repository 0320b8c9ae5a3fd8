"""Claim: what a model asks for is one layer at a time: memory does not grow with the file, and time with what is read.

    python benchmarks/large_models.py [--shapes smollm2 llama-1.2b llama-8b] [--tokens 12] [--work run verify flow tree composition contrast sources]
                                      [--memory 2GiB] [--folder FOLDER] [--tiny]

Files of bfloat16 of these shapes are made of seeded random numbers in a temporary folder (0.3, 2.5 and 16 GB) and deleted afterwards;
with --folder they are left there and found again. Every work runs in a process of its own, from loading on; its peak is that of the
whole process, and nothing of a file is mapped, so that all of it is private memory.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from alone import alone, machine, parser, peak

import pathexp as px


@dataclass(frozen=True)
class Shape:
    """A model of Llama's family: layers, heads, key/value heads, d_head, d_model, d_mlp, vocabulary, and whether it is tied."""

    layers: int
    heads: int
    kv_heads: int
    d_head: int
    d_model: int
    d_mlp: int
    d_vocab: int
    tied: bool = True

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes in the order of the file."""
        d, q, k = self.d_model, self.heads * self.d_head, self.kv_heads * self.d_head
        yield "model.embed_tokens.weight", (self.d_vocab, d)
        for layer in range(self.layers):
            block = f"model.layers.{layer}."
            for name, rows in (("q", q), ("k", k), ("v", k)):
                yield f"{block}self_attn.{name}_proj.weight", (rows, d)
            yield f"{block}self_attn.o_proj.weight", (d, q)
            for name in ("gate", "up"):
                yield f"{block}mlp.{name}_proj.weight", (self.d_mlp, d)
            yield f"{block}mlp.down_proj.weight", (d, self.d_mlp)
            for name in ("input_layernorm", "post_attention_layernorm"):
                yield f"{block}{name}.weight", (d,)
        yield "model.norm.weight", (d,)
        if not self.tied:
            yield "lm_head.weight", (self.d_vocab, d)

    def config(self) -> dict[str, Any]:
        """What config.json says."""
        return {
            "model_type": "llama", "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads, "head_dim": self.d_head, "hidden_size": self.d_model,
            "intermediate_size": self.d_mlp, "vocab_size": self.d_vocab, "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": self.tied, "hidden_act": "silu",
        }  # fmt: skip


SHAPES = {
    "smollm2": Shape(30, 9, 3, 64, 576, 1536, 49152),
    "llama-1.2b": Shape(16, 32, 8, 64, 2048, 8192, 128256),
    "llama-8b": Shape(32, 32, 8, 128, 4096, 14336, 128256, tied=False),
}
TINY = Shape(3, 4, 2, 8, 32, 64, 97)
AT_ONCE = 2**22
"""Numbers that are drawn at a time."""


def make(folder: Path, shape: Shape, seed: int = 0) -> Path:
    """Write a model of a shape to a folder, if it is not there: every tensor of about unit gain, norms about one."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "model.safetensors"
    (folder / "config.json").write_text(json.dumps(shape.config()))
    header: dict[str, Any] = {}
    begin = 0
    for name, size in shape.tensors():
        end = begin + 2 * int(np.prod(size))
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [begin, end]}
        begin = end
    raw = json.dumps(header).encode()
    if place.is_file() and place.stat().st_size == 8 + len(raw) + begin:
        return folder
    rng = np.random.default_rng(seed)
    with open(place, "wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        for _, size in shape.tensors():
            for count in _pieces(int(np.prod(size))):
                drawn = rng.integers(-32768, 32768, count, dtype=np.int16).astype(np.float32) / 18919
                values = 1 + drawn / 16 if len(size) == 1 else drawn / np.float32(np.sqrt(size[-1]))
                file.write((values.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes())
    return folder


def _pieces(amount: int) -> Iterator[int]:
    for begin in range(0, amount, AT_ONCE):
        yield min(AT_ONCE, amount - begin)


WORK: dict[str, Callable[[px.Trace, px.Target], object]] = {
    "run": lambda trace, target: trace.logits,
    "verify": lambda trace, target: px.expand(trace).verify().ok,
    "flow": lambda trace, target: px.flow(trace, target).check(),
    "tree": lambda trace, target: str(px.tree(trace, target, nodes=200)),
    "composition": lambda trace, target: px.composition(trace.model).q.shape,
    "contrast": lambda trace, target: px.expand(px.contrast(trace, changed(trace))).verify().ok,
    "sources": lambda trace, target: px.expand(px.freeze(trace, mlp="source")).top(10, target).exact,
}
"""What is asked, of a run and the logit of what it predicts."""


def changed(trace: px.Trace) -> px.Trace:
    """The run of the same tokens but for one in the middle."""
    tokens = np.array(trace.tokens)
    tokens[len(tokens) // 2] = (tokens[len(tokens) // 2] + 1) % trace.config.d_vocab
    return trace.model.run(tokens)


def part(folder: Path, work: str, tokens: int) -> dict[str, float]:
    """Load, run, and do one work: seconds of each, processor time, and the peak memory in MB."""
    times = [time.perf_counter()]
    model = px.load(folder)
    times.append(time.perf_counter())
    trace = model.run(np.random.default_rng(1).integers(0, model.config.d_vocab, tokens))
    times.append(time.perf_counter())
    WORK[work](trace, trace.logit(trace.top_token()))
    times.append(time.perf_counter())
    load, run, rest = np.diff(times)
    return {
        "load": load,
        "run": run,
        "seconds": run if work == "run" else rest,
        "cpu": time.process_time(),
        "peak": peak(),
    }


def report(folders: dict[str, Path], works: Sequence[str], tokens: int, memory: str) -> None:
    """A row for each shape and work."""
    print(f"{machine()}; {tokens} tokens, budget {memory}")
    print(f"{'shape':14}{'work':14}{'load s':>8}{'work s':>9}{'cpu s, all':>12}{'peak GB':>9}{'file GB':>9}")
    for name, folder in folders.items():
        size = (folder / "model.safetensors").stat().st_size / 1e9
        for work in works:
            if found := alone(__file__, f"{folder}:{work}:{tokens}:{memory}"):
                print(
                    f"{name:14}{work:14}{found['load']:8.2f}{found['seconds']:9.2f}{found['cpu']:12.2f}"
                    f"{found['peak'] / 1e3:9.2f}{size:9.2f}",
                    flush=True,
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the files and measure."""
    made = parser(__doc__)
    made.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["smollm2", "llama-1.2b"])
    made.add_argument("--work", nargs="+", choices=list(WORK), default=list(WORK))
    made.add_argument("--tokens", type=int, default=12)
    made.add_argument("--memory", default="2GiB")
    made.add_argument("--folder", type=Path, default=None)
    given = made.parse_args(arguments)
    if given.part:
        folder, work, tokens, memory = given.part.rsplit(":", 3)
        px.memory_budget(memory)
        print(json.dumps(part(Path(folder), work, int(tokens))))
        return
    shapes = {"tiny": TINY} if given.tiny else {name: SHAPES[name] for name in given.shapes}
    with TemporaryDirectory() as scratch:
        base = given.folder or Path(scratch)
        report(
            {name: make(base / name, shape) for name, shape in shapes.items()},
            given.work,
            given.tokens,
            given.memory,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
