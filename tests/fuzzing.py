"""Damaged and hostile files for every loader and every saved state: refused by name, in bounded time and memory.

python -m tests.fuzzing --inputs 20000 [--seed 0]
"""

from __future__ import annotations

import argparse
import io
import json
import random
import signal
import sys
import tempfile
import traceback
import tracemalloc
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import pathexp as px
from pathexp.circuits.cases.edge_run import EdgeList
from pathexp.circuits.cases.edge_scores import EdgeScores, read_eap
from pathexp.circuits.cases.read_cases import read_cases
from pathexp.circuits.corpus.tally import Tally
from pathexp.errors import PathexpError
from pathexp.model import Tokenizer
from tests.fuzzed_fields import field_seeds
from tests.model.load import checkpoints, test_llama2c

SECONDS = 10
"""Processor time that one file may take."""
CONSTANT = 64 << 20
"""Bytes that a loader may hold beside twice the size of its files."""
HOSTILE: tuple[Any, ...] = (
    0, -1, 1, 2, 7, 10**9, 2**31, 2**40, 2**63, 10**40, 0.0, -0.5, 1e308, float("nan"), float("inf"), -float("inf"), True, False, None,
    "", "x", "x" * 300, "\x1b[31m", "../../etc/passwd", "\x00", "é" * 40, [], [None], [0], {}, {"a": 1}, [[[[]]]], [10**9] * 3,
)  # fmt: skip


class TooLong(BaseException):
    """A loader that does not come to an end."""


@dataclass(frozen=True)
class Seed:
    """Whole files by name, and what reads them from their folder."""

    files: dict[str, bytes]
    read: Callable[[Path], Any]
    damaged: tuple[str, ...] = ()
    """The only files that are damaged, in their fields; any file, in any way, if none is named."""


def _loaded(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        return px.load(folder / name if name else folder).run([0, 1])

    return read


@cache
def seeds() -> dict[str, Seed]:
    """Return one set of whole files for every loader and state."""
    found, model = (
        {},
        px.random_model(
            layers=1, heads=2, d_model=6, d_head=3, d_vocab=5, n_ctx=8, norm="layernorm", d_mlp=4, biases=True
        ),
    )
    named = px.Model(model.config, model.weights, Tokenizer(tuple("abcde")), "tiny")
    edges = EdgeList.of(px.freeze(model.run([1, 2])))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        named.save(folder / "m.npz")
        found["npz"] = Seed(_files(folder, "m.npz"), _loaded("m.npz"))
        Tally("loss", 2, 6, {"losses": np.ones(3)}, 7).save(folder / "t.npz")
        found["state"] = Seed(_files(folder, "t.npz"), lambda there: Tally.load(there / "t.npz"))
        llama = checkpoints.folder(folder / "llama")
        found["huggingface"] = Seed(_files(llama, *(file.name for file in llama.iterdir())), _loaded(""))
        arrays = checkpoints.llama_arrays()
        told = {"config": model.config.to_dict(), "names": {name: name for name in ("W_E", "W_U", "W_pos")}}
        arrays_by_name = {n: np.asarray(a) for n, a in model.weights.arrays().items()}
        told["names"] |= {
            n: f"{n}.{{layer}}"
            for n, a in arrays_by_name.items()
            if n not in told["names"] and "final" not in n
        }
        told["names"] |= {n: n for n in arrays_by_name if "final" in n or n == "b_U"}
        raw = {n: a for n, a in arrays_by_name.items() if told["names"][n] == n}
        raw |= {f"{n}.{l}": one for n, a in arrays_by_name.items() if n not in raw for l, one in enumerate(a)}
        np.savez(folder / "r.npz", header=json.dumps(told), **raw)
        found["raw"] = Seed(_files(folder, "r.npz"), _loaded("r.npz"))
        (folder / "j.json").write_text(json.dumps({name: array.tolist() for name, array in raw.items()}))
        (folder / "h.json").write_text(json.dumps(told))
        found["named"] = Seed(
            _files(folder, "j.json", "h.json"),
            lambda there: px.load(there / "j.json", header=there / "h.json").run([0, 1]),
        )
        tuned = checkpoints.folder(folder / "tuned")
        q = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
        lora = {f"{q}A.weight": np.ones((2, 8)), f"{q}B.weight": np.ones((24, 2))}
        checkpoints.write(tuned / "adapter_model.safetensors", lora)
        says = {
            "peft_type": "LORA",
            "r": 2,
            "lora_alpha": 4,
            "rank_pattern": {"q_proj": 2},
            "use_rslora": False,
        }
        (tuned / "adapter_config.json").write_text(json.dumps(says))
        found["adapter"] = Seed(_files(tuned, *(file.name for file in tuned.iterdir())), _loaded(""))
        sharded = folder / "shards"
        sharded.mkdir()
        (sharded / "config.json").write_text(json.dumps(dict(checkpoints.LLAMA)))
        checkpoints.write_index(sharded, checkpoints.shards(sharded, arrays))
        found["shards"] = Seed(_files(sharded, *(file.name for file in sharded.iterdir())), _loaded(""))
        test_llama2c.written(folder / "l.bin", test_llama2c.arrays())
        found["llama2c"] = Seed(_files(folder, "l.bin"), _loaded("l.bin"))
        (folder / "c.jsonl").write_text(
            json.dumps(
                {
                    "prompt": [1, 2],
                    "answer": 3,
                    "wrong": [1, 2],
                    "corrupted": [2, 2],
                    "roles": {"S": 1},
                    "name": "n",
                }
            )
        )
        found["jsonl"] = Seed(_files(folder, "c.jsonl"), lambda there: read_cases(there / "c.jsonl"))
        (folder / "c.csv").write_text("prompt,answer,wrong,role:S\n#1 #2,#3,a|#1,0\n")
        found["csv"] = Seed(_files(folder, "c.csv"), lambda there: read_cases(there / "c.csv"))
        journal = partial(px.average, px.attribution, model, [px.Case([1, 2], 3), px.Case([2, 1], 4)])
        journal(resume=folder / "k.kept")
        found["journal"] = Seed(_files(folder, "k.kept"), lambda there: journal(resume=there / "k.kept"))
        EdgeScores(edges, np.where(edges.all(), 1.0, np.nan)).save_eap(folder / "e.json", model.config)
        found["edges"] = Seed(_files(folder, "e.json"), lambda there: read_eap(there / "e.json", edges))
        found |= _gguf(folder)
    return found | {name: Seed(each.files, each.read, each.damaged) for name, each in field_seeds()}


def _gguf(folder: Path) -> dict[str, Seed]:
    try:
        from tests.model.load import test_gguf
    except BaseException:  # the package, or pytest, is not here
        return {}
    model = test_gguf.model_of("llama")
    words = [f"w{number}" for number in range(model.config.d_vocab)]
    tokens = {
        "model": "gpt2",
        "tokens": words,
        "token_type": [1] * len(words),
        "merges": ["w 1"],
        "bos_token_id": 1,
    }
    test_gguf.written(
        folder / "g.gguf", "llama", test_gguf.fields_of(model, "llama"), test_gguf.tensors_of(model), tokens
    )
    return {"gguf": Seed(_files(folder, "g.gguf"), _loaded("g.gguf"))}


def _files(folder: Path, *names: str) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names}


# Damage ----------------------------------------------------------------------------------------------------


def damaged(seed: Seed, draw: random.Random) -> dict[str, bytes]:
    """Return the files with one of them damaged, or left out."""
    if seed.damaged:
        name = draw.choice(seed.damaged)
        return seed.files | {name: _json(seed.files[name], draw)}
    name = draw.choice(sorted(seed.files))
    if len(seed.files) > 1 and draw.random() < 0.03:
        return {other: whole for other, whole in seed.files.items() if other != name}
    whole = seed.files[name]
    ways = [_bytes]
    if name.endswith(".npz"):
        ways += [_members, _members, _flags]
    if name.endswith((".json", ".jsonl")):
        ways += [_json, _json, _json]
    if name.endswith(".safetensors"):
        ways += [_header, _header]
    return seed.files | {name: draw.choice(ways)(whole, draw)}


def _bytes(whole: bytes, draw: random.Random) -> bytes:
    data = bytearray(whole)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(data) + 1) if draw.random() < 0.5 else draw.randrange(min(len(data) + 1, 200))
        match draw.randrange(6):
            case 0:
                data[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                data = data[:at]
            case 2:
                del data[at : at + draw.randrange(1, 64)]
            case 3:
                data[at:at] = data[at : at + draw.randrange(1, 64)]
            case 4:
                size = draw.choice((4, 8))
                data[at : at + size] = draw.choice((b"\xff", b"\x00", b"\x7f", b"\x80")) * size
            case _:
                data[at : at + 8] = draw.choice((2**40, 2**31 - 1, 2**62, 1)).to_bytes(8, "little")
    return bytes(data)


def _json(whole: bytes, draw: random.Random) -> bytes:
    try:
        value = json.loads(whole)
    except ValueError:
        return _bytes(whole, draw)
    if draw.random() < 0.03:
        return b"[" * 100_000
    return json.dumps(_replaced(value, draw)).encode()


def _replaced(value: Any, draw: random.Random) -> Any:
    """A JSON value with one member somewhere replaced, left out or renamed."""
    if isinstance(value, dict) and value and draw.random() < 0.95:
        name = draw.choice(sorted(value))
        kept = {key: each for key, each in value.items() if key != name}
        chance = draw.random()
        if chance < 0.1:
            return kept
        return kept | (
            {draw.choice(("", "\x1b[2J", name * 90)): value[name]}
            if chance < 0.2
            else {name: _replaced(value[name], draw)}
        )
    if isinstance(value, list) and value and draw.random() < 0.8:
        at = draw.randrange(len(value))
        return [*value[:at], _replaced(value[at], draw), *value[at + 1 :]]
    return draw.choice(HOSTILE)


def _header(whole: bytes, draw: random.Random) -> bytes:
    """Safetensors whose header says something else, its length fitting or not."""
    size = int.from_bytes(whole[:8], "little")
    header = _json(whole[8 : 8 + size], draw)
    return (len(header) if draw.random() < 0.9 else size).to_bytes(8, "little") + header + whole[8 + size :]


def _members(whole: bytes, draw: random.Random) -> bytes:
    """An archive whose sums are right, one member of which is damaged, renamed, doubled, left out or a bomb."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(sorted(members))
    match draw.randrange(6):
        case 0:
            members.pop(name)
        case 1:
            members[draw.choice(("\x1b[31m.npy", "../x.npy", "x" * 300 + ".npy"))] = members[name]
        case 2:
            members["bomb.npy"] = members[name][:128] + bytes(1 << 24)
        case 3:
            held = io.BytesIO()
            np.save(
                held,
                np.array(draw.choice(HOSTILE[:19]), dtype=draw.choice((None, object))),
                allow_pickle=True,
            )
            members[name] = held.getvalue()
        case _:
            members[name] = _bytes(members[name], draw)
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    return held.getvalue()


def _flags(whole: bytes, draw: random.Random) -> bytes:
    """An archive whose directory claims encryption, another way of packing, or other sizes."""
    data, at = bytearray(whole), whole.find(b"PK\x01\x02")
    place, size = draw.choice(((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (42, 4)))
    data[at + place : at + place + size] = bytes(draw.choice((0x01, 0xFF, 0x63)) for _ in range(size))
    return bytes(data)


# Judgement -------------------------------------------------------------------------------------------------


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise TooLong where the work takes more processor time."""

    def over(number: int, frame: Any) -> None:
        raise TooLong(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def verdict(seed: Seed, files: dict[str, bytes]) -> str:
    """Return "read" or "refused", or what is wrong: a bare exception, no end, too much memory."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in files.items():
            (Path(place) / name).write_bytes(data)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            with bounded(SECONDS):
                seed.read(Path(place))
            said = "read"
        except PathexpError as error:
            said = "refused" if _calm(str(error)) else f"acting characters in {str(error)!r:.200}"
        except TooLong as error:
            said = str(error)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error!s:.120} at {Path(where.filename).name}:{where.lineno}"
        grown = tracemalloc.get_traced_memory()[1] - before
    return said if grown <= 2 * sum(map(len, files.values())) + CONSTANT else f"{grown:,} bytes held ({said})"


def _calm(message: str) -> bool:
    return "\x1b" not in message and "\x00" not in message


def fuzzed(inputs: int, seed: int = 0) -> tuple[Counter[str], dict[str, int]]:
    """Return how often each verdict fell, by loader, and the faults with the number of the first input that has each."""
    draw, every = random.Random(seed), seeds()
    counts: Counter[str] = Counter()
    faults: dict[str, int] = {}
    tracemalloc.start()
    try:
        for number in range(inputs):
            name = draw.choice(sorted(every))
            said = verdict(every[name], damaged(every[name], draw))
            counts[f"{name} {said if said in ('read', 'refused') else 'fault'}"] += 1
            if said not in ("read", "refused"):
                faults.setdefault(f"{name}: {said}", number)
    finally:
        tracemalloc.stop()
    return counts, faults


def main() -> None:
    """Print how many inputs were read, refused, or faults, and each fault once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts, faults = fuzzed(options.inputs, options.seed)
    print("\n".join(f"{name:<24} {count:>7,}" for name, count in sorted(counts.items())))
    print("\n".join(f"fault at input {number}: {said}" for said, number in faults.items()) or "no fault")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
