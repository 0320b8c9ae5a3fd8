"""A short run of the fuzzer over every loader and state; `python -m tests.fuzzing` runs it long."""

import json
import tracemalloc

import pytest

import pathexp as px
from pathexp.errors import LoadError, PathexpError, TokenError
from pathexp.model.load.tokenizer_json import read_tokenizer
from tests.fuzzed_fields import checkpoint_of, config_of, families_left_out
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


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("granite", {"logits_scaling": 0.0}, "'logits_scaling' must be a number above zero, found 0.0"),
        (
            "qwen2",
            {"max_window_layers": "x"},
            "'max_window_layers' must be a whole number of at least 0, found 'x'",
        ),
        ("mpt", {"n_layers": 10**9}, "1,000,000,000 layers, but there are"),
        ("deepseek_v3", {"n_routed_experts": 2**31}, "2,147,483,648 experts a layer, but there are"),
    ],
)
def test_fields_that_were_faults_once(tmp_path, family, change, message):
    """A division by zero, a comparison with text, and loops over layers and experts that no file has."""
    config = config_of(family)
    for name, data in (checkpoint_of(config) | {"config.json": json.dumps(config | change).encode()}).items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(LoadError, match=message):
        px.load(tmp_path)


def test_a_kind_of_norm_that_is_a_list_is_refused(tmp_path):
    seed = seeds()["TransformerLens"]
    config = json.loads(seed.files["cfg.json"]) | {"normalization_type": ["LN"]}
    (tmp_path / "cfg.json").write_text(json.dumps(config))
    with pytest.raises(LoadError, match=r"'normalization_type' is \['LN'\], known are"):
        seed.read(tmp_path)


def test_tokenizers_that_were_faults_once():
    """A token that is no text, and what the package says of a file, shown as it was."""
    with pytest.raises(LoadError, match="its tokens must be text"):
        read_tokenizer(json.dumps({"model": {"type": "Unigram", "vocab": [[True, 0.0]]}}), 3, "it")
    pytest.importorskip("tokenizers")
    acting = {"version": "\x1b[31m", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}
    with pytest.raises(TokenError) as refused:
        read_tokenizer(json.dumps(acting), 3, "it").encode("a")
    assert "\x1b" not in str(refused.value) and "cannot read" in str(refused.value)


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
