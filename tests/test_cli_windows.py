"""How long the windows of a corpus are where the command line leaves it open."""

import json

import pytest

import pathexp as px
from pathexp.circuits.corpus.tally import Tally
from pathexp.cli import main


@pytest.mark.parametrize(
    ("n_ctx", "given", "tokens"), [(9, (), 9), (200, (), 64), (200, ("--length", "100"), 100)]
)
def test_windows_of_models_that_take_many_tokens_are_short_and_it_is_said(
    n_ctx, given, tokens, tmp_path, capsys
):
    model = px.load("attn-1l")
    long = px.random_model(layers=1, heads=2, d_vocab=model.config.d_vocab, positions="none", n_ctx=n_ctx)
    px.model.save_npz(px.Model(long.config, long.weights, tokenizer=model.tokenizer), tmp_path / "long.npz")
    (tmp_path / "text.txt").write_text("To be, or not to be, that is the question. " * 400)
    words = [
        "bottlenecks",
        str(tmp_path / "long.npz"),
        "--corpus",
        str(tmp_path / "text.txt"),
        "--windows",
        "3",
        *given,
    ]
    assert main(words) == 0
    printed = capsys.readouterr().out
    size = (tmp_path / "text.txt").stat().st_size
    said = f"windows  3 of {tokens} tokens, of a file of {size:,} bytes; --windows N takes more, --length {n_ctx} all that the model does"
    assert (said in printed) == (tokens == 64)
    assert main([*words, "--json", "--resume", str(tmp_path / "sums.npz")]) == 0
    json.loads(capsys.readouterr().out)  # the line is no part of it
    assert f"windows of {tokens}" in Tally.load(str(tmp_path / "sums.npz")).question
