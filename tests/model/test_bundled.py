"""The models that ship: what their card says of them is measured here, on the weights as shipped."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from pathexp.errors import LoadError, TokenError
from pathexp.model.bundled import ModelCard, load_bundled, models
from pathexp.model.door import load
from pathexp.model.model import Model
from pathexp.model.trace import Trace

NAMES = ("attn-0l", "attn-1l", "attn-2l")
SEGMENT, SEQUENCES, SEED = 50, 32, 2024  # as in examples/pack_bundled.py: figures agree to rounding
DATA = files("pathexp.model").joinpath("data")
PSALM = (
    "Bless the LORD, O my soul, and forget not all his benefits:\n"
    "Who forgiveth all thine iniquities; who healeth all thy diseases;\n"
    "Who redeemeth thy life from destruction; who crowneth thee with lovingkindness and tender mercies;\n"
)


def card(name: str) -> ModelCard:
    return next(card for card in models() if card.name == name)


@cache
def repeated(name: str) -> tuple[Trace, ...]:
    """Runs on random tokens said twice."""
    rng = np.random.default_rng(SEED)
    model = load_bundled(name)
    segments = [rng.integers(0, model.config.d_vocab, SEGMENT) for _ in range(SEQUENCES)]
    return tuple(model.run(np.tile(segment, 2)) for segment in segments)


def attention(name: str, back: int, first: int) -> np.ndarray:
    """Mean attention to the token ``back`` places before, (layer, head)."""
    at = np.arange(first, 2 * SEGMENT)
    return np.mean([trace.patterns[:, :, at, at - back].mean(axis=-1) for trace in repeated(name)], axis=0)


def copy_losses(name: str) -> tuple[float, float]:
    """Mean loss on the first and on the second copy, nats a token."""
    at = np.arange(2 * SEGMENT - 1)
    losses = np.array([-trace.log_probs[at, trace.tokens[1:]] for trace in repeated(name)])
    return float(losses[:, : SEGMENT - 1].mean()), float(losses[:, SEGMENT:].mean())


def test_a_head_of_the_first_layer_attends_to_the_previous_token() -> None:
    assert attention("attn-2l", back=1, first=1)[0].max() >= 0.4


def test_a_head_of_the_second_layer_attends_to_the_token_after_the_earlier_occurrence() -> None:
    by_head = attention("attn-2l", back=SEGMENT - 1, first=SEGMENT)
    assert by_head[1].max() >= 0.5
    assert by_head[0].max() < 0.1  # the first layer cannot know


def test_the_second_copy_is_easier_only_with_two_layers() -> None:
    drops = {name: np.subtract(*copy_losses(name)) for name in NAMES}
    assert drops["attn-2l"] >= 1.5
    assert abs(drops["attn-0l"]) < 0.5


@pytest.mark.parametrize("name", NAMES)
def test_the_card_tells_the_sizes_and_losses_of_the_weights(name: str) -> None:
    told, config = card(name), load_bundled(name).config
    for size in ("n_layers", "n_heads", "d_model", "d_head", "d_vocab", "n_ctx"):
        assert getattr(told, size) == getattr(config, size), size
    first, second = copy_losses(name)
    assert told.first_copy_loss == pytest.approx(first, abs=0.006)
    assert told.second_copy_loss == pytest.approx(second, abs=0.006)
    assert told.license == "MIT"


def test_the_card_tells_the_strongest_heads() -> None:
    assert card("attn-2l").previous_token == pytest.approx(attention("attn-2l", 1, 1)[0].max(), abs=0.006)
    found = attention("attn-2l", SEGMENT - 1, SEGMENT)[1].max()
    assert card("attn-2l").induction == pytest.approx(found, abs=0.006)
    assert card("attn-1l").induction is None
    assert card("attn-0l").previous_token is None


def test_more_layers_read_text_better() -> None:
    losses = [load_bundled(name).run(PSALM).loss() for name in NAMES]
    assert losses == sorted(losses, reverse=True)
    assert [card.text_loss for card in models()] == sorted((c.text_loss for c in models()), reverse=True)
    assert losses[-1] < 4.5  # log(1024) = 6.9


def test_the_written_card_carries_the_same_figures() -> None:
    written = DATA.joinpath("README.md").read_text(encoding="utf-8")
    for told in models():
        losses = f"{told.text_loss:.3f} | {told.first_copy_loss:.2f} | {told.second_copy_loss:.2f}"
        assert f"| `{told.name}` | {told.n_layers} | {told.parameters:,} | {losses} |" in written


@pytest.mark.parametrize("name", NAMES)
def test_every_term_is_a_pure_table(name: str) -> None:
    """No norm, no biases, and positions that never enter the stream."""
    model = load_bundled(name)
    assert model.config.norm is None
    assert model.config.positions == ("qk" if model.config.n_layers else "none")
    w = model.weights
    assert all(bias is None for bias in (w.b_Q, w.b_K, w.b_V, w.b_O, w.b_U))


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_half_precision_on_disk_and_double_in_hand(name: str) -> None:
    w = load_bundled(name).weights
    for array in (w.W_E, w.W_Q, w.W_K, w.W_V, w.W_O, w.W_U):
        assert array.dtype == np.float64
        np.testing.assert_array_equal(array, array.astype(np.float16))


def test_the_files_are_small() -> None:
    assert sum(len(DATA.joinpath(f"{name}.npz").read_bytes()) for name in NAMES) < 3_000_000


@pytest.mark.parametrize(
    "text", [PSALM, "To be, or not to be, that is the question", "GLOUCESTER:\nWhy, I can"]
)
def test_text_comes_back_exactly(text: str) -> None:
    tokenizer = load_bundled("attn-2l").tokenizer
    assert tokenizer is not None and len(tokenizer) == 1024
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_common_words_are_single_tokens() -> None:
    tokenizer = load_bundled("attn-2l").tokenizer
    assert tokenizer is not None
    for word in (" the", "The", "To", " king", " Lord", " not", "\n"):
        assert tokenizer.strings([tokenizer.token_id(word)]) == (word,)


def test_text_with_an_unknown_character_is_refused() -> None:
    with pytest.raises(TokenError, match=r"'é' .* position 3"):
        load_bundled("attn-2l").run("café")


def test_a_model_is_loaded_once() -> None:
    assert load("attn-2l") is load_bundled("attn-2l")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LoadError, match=r"'attn_2l'\. Did you mean 'attn-2l'.*attn-0l, attn-1l, attn-2l"):
        load_bundled("attn_2l")


def test_neither_name_nor_file_is_refused() -> None:
    with pytest.raises(LoadError, match=r"'gpt9'.*no bundled model and no file.*attn-0l, attn-1l, attn-2l"):
        load("gpt9")


def test_a_directory_without_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"no config\.json"):
        load(tmp_path)


def test_a_file_of_an_unknown_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.h5"
    path.write_bytes(b"weights")
    with pytest.raises(LoadError, match=r"'\.h5' are not read.*\.npz"):
        load(path)


@pytest.mark.parametrize("name", ["names.json", "model.json", "tokenizer.json"])
def test_a_json_that_is_no_part_of_a_directory_is_refused_for_itself(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text('{"weights": {"wte": [[0.5]]}}')
    with pytest.raises(
        LoadError, match=rf"{name}': a \.json is read only as the config\.json.*\.npz as Model\.save"
    ):
        load(path)
    for named in ("config.json", "model.safetensors.index.json"):
        (tmp_path / named).write_text("{}")
        with pytest.raises(LoadError, match="json") as error:
            load(tmp_path / named)
        assert "is read only" not in str(error.value)


def test_a_saved_model_is_loaded_from_its_path(tmp_path: Path) -> None:
    model: Model = load_bundled("attn-1l")
    model.save(tmp_path / "mine.npz")
    again = load(str(tmp_path / "mine.npz"))
    np.testing.assert_array_equal(again.weights.W_U, model.weights.W_U)
    assert again.tokenizer == model.tokenizer
