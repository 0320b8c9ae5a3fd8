"""The commands that read circuits: as JSON, on files, and refused where they must be."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.model import Tokenizer
from tests.zoo import FAMILIES, ZOO

LETTERS = "abcdefghi"


@pytest.fixture
def saved(tmp_path):
    """Saves a random model of nine letters and gives its path."""

    def save(**switches):
        model = px.random_model(**{"layers": 2, "heads": 2, "d_vocab": 9, "seed": 1, "d_head": 4} | switches)
        model = px.Model(model.config, model.weights, Tokenizer(tuple(LETTERS)), "letters")
        path = tmp_path / "letters.npz"
        model.save(path)
        return str(path)

    return save


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("abcabdefghiabcabcaabbcc" * 8, encoding="utf-8")
    return str(path)


def data_of(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def refusal(capsys, *arguments):
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err


def test_score(capsys, saved):
    path = saved(biases=True)
    data = data_of(capsys, "score", path, "abcabc", "--head", "L1H0", "--key", "2", "--top", "4")
    terms = px.expand_score(px.load(path).run("abcabc"), "L1H0", 5, 2)
    assert data["count"] == terms.count() and data["verdict"]["ok"] and len(data["terms"]) == 4
    assert data["sum"] + data["remainder"] == pytest.approx(data["score"], abs=1e-12)
    assert sum(map(sum, data["totals_by_order"])) == pytest.approx(terms.value(), abs=1e-12)
    assert {row["kind"] for row in data["kinds"]} == {"direct", "Q-composition", "K-composition", "joint"}
    narrowed = data_of(
        capsys, "score", path, "abcabc", "--head", "L1H0", "--key", "2", "--key-paths", "S L0H1 K"
    )
    assert narrowed["count"] < data["count"] and narrowed["score"] == data["score"]
    most = data_of(capsys, "score", path, "abcabc", "--head", "L1H0")
    assert most["key"] == int(px.load(path).run("abcabc").patterns[1, 0, -1].argmax())


def test_score_with_slopes_prints_them(capsys, saved):
    data = data_of(
        capsys, "score", saved(positions="alibi"), "abcabc", "--head", "L1H1", "--key", "0", "--top", "99"
    )
    (slope,) = [row for row in data["terms"] if row["kind"] == "position bias"]
    assert slope["value"] < 0 and "query" not in slope
    assert (
        main(["score", saved(positions="alibi"), "abcabc", "--head", "L1H1", "--key", "0", "--top", "99"])
        == 0
    )
    assert "ALiBi" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, make in (ZOO | FAMILIES).items() if make().config.n_layers])
def test_scores_and_their_symbols_in_every_architecture(capsys, tmp_path, name):
    """Rotary, slopes, positions in queries and keys alone, every norm: proven, and what the softmax makes of it."""
    path = str(tmp_path / "model.npz")
    model = (ZOO | FAMILIES)[name]()
    model.save(path)
    head = f"L{model.config.n_layers - 1}H0"
    assert main(["score", path, "--tokens", "1,4,2,2,5", "--head", head, "--key", "3"]) == 0
    out = capsys.readouterr().out
    assert "pairs of paths add up to the score" in out and "attention without" in out
    assert main(["derive-score", "--model", path, "--head", head, "--max-terms", "9999", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["count"] == len(data["terms"]) > 0 and data["kept"] == data["count"]
    rotary = any("R_1" in term["formula"] for term in data["terms"])
    assert rotary == (model.config.positions == "rotary")
    assert (data["position_bias"] is not None) == (model.config.positions == "alibi")


@pytest.mark.parametrize(
    ("positions", "terms"), [("none", 4), ("learned", 16), ("qk", 9), ("rotary", 4), ("alibi", 4)]
)
def test_derive_score_with_positions(capsys, positions, terms):
    command = ["derive-score", "--layers", "2", "--heads", "1", "--positions", positions, "--distance", "5"]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == terms
    assert main(command) == 0
    out = capsys.readouterr().out
    assert ("R_5" in out) == (positions == "rotary") and ("slope · |i - j|" in out) == (positions == "alibi")
    assert main([*command, "--latex"]) == 0 and "aligned" in capsys.readouterr().out


def test_a_score_too_deep_to_list(capsys, tmp_path):
    """Totals and verdict stand; what cannot be listed says why and what to do."""
    path = str(tmp_path / "deep.npz")
    px.random_model(layers=8, heads=6, d_head=2, d_model=8, n_ctx=8).save(path)
    assert main(["score", path, "--tokens", "1,2,3", "--head", "L7H0", "--key", "1"]) == 0
    out = capsys.readouterr().out
    assert (
        "cannot be ranked" in out
        and "top_keys" in out
        and "5 and more" in out
        and "add up to the score" in out
    )
    data = data_of(capsys, "score", path, "--tokens", "1,2,3", "--head", "L7H0", "--key", "1")
    assert data["terms"] is None and data["count"] == (2 * 7**7) ** 2 and len(data["totals_by_order"]) == 8


def test_score_refuses(capsys, saved):
    path = saved()
    assert "no head 'L7H0'" in refusal(capsys, "score", path, "abc", "--head", "L7H0")
    assert "cannot look at key 2" in refusal(capsys, "score", path, "abc", "--query", "0", "--key", "2")
    assert "query 9 is not in this run" in refusal(capsys, "score", path, "abc", "--query", "9")


def test_heads(capsys, saved, tmp_path):
    picture = tmp_path / "spectra.svg"
    data = data_of(capsys, "heads", saved(), "--svg", str(picture), "--runs", "2")
    assert [row["head"] for row in data["heads"]] == ["L0H0", "L0H1", "L1H0", "L1H1"]
    assert all(-1 <= row["ov"]["score"] <= 1 for row in data["heads"])
    assert len(ElementTree.parse(picture).getroot().findall(".//{*}circle")) == 16
    turned = data_of(capsys, "heads", saved(positions="rotary"), "--runs", "1")
    assert all(row["qk"] is None and row["ov"] for row in turned["heads"])
    post = data_of(capsys, "heads", saved(norm="layernorm", norm_placement="post"), "--runs", "1")
    assert all("ov" not in row for row in post["heads"])
    assert "at least 1 run" in refusal(capsys, "heads", saved(), "--runs", "0")


def test_an_undefined_score_is_null(capsys, tmp_path):
    path = tmp_path / "by_hand.npz"
    px.induction_model().save(path)
    first, second = data_of(capsys, "heads", str(path))["heads"]
    assert first["ov"]["score"] is None and first["ov"]["reason"] == "no nonzero eigenvalues"
    assert second["ov"]["score"] == 1.0


def test_head(capsys, saved):
    path = saved()
    data = data_of(capsys, "head", "L1H0", "L0H1", "--model", path, "--top", "3")
    assert set(data) == {"L1H0", "L0H1"} and len(data["L1H0"]["OV"]["top"]) == 3
    assert data["L1H0"]["QK"]["rank_bound"] == 4
    turned = saved(positions="rotary")
    assert "use QK_at(distance)" in refusal(capsys, "head", "L1H0", "--model", turned)
    assert data_of(capsys, "head", "L1H0", "--model", turned, "--distance", "2")["L1H0"]["QK"]["norm"] > 0


def test_head_draws_its_tables(capsys, saved, tmp_path):
    """Every cell is the table's entry, QK as a score; an induction head by hand raises what it sees and nothing else."""
    path, picture = saved(biases=True), tmp_path / "head.svg"
    data = data_of(capsys, "head", "L1H0", "L0H1", "--model", path, "--top", "3", "--svg", str(picture))
    said = [node.text for node in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    assert [text for text in said if text[:1] == "L"] == ["L1H0 QK", "L1H0 OV", "L0H1 QK", "L0H1 OV"]
    head, scale = px.head(px.load(path), "L1H0"), px.load(path).config.attention_scale
    for what, table in (("QK", scale * head.qk_table.dense()), ("OV", head.ov_table.dense().T)):
        listed = data["L1H0"][what]["top"]
        for one, other in {(a, b) for a, _, _ in listed for _, b, _ in listed}:
            value = table[LETTERS.index(one), LETTERS.index(other)]
            assert f'"{one}" · "{other}": {value:.4g}' in said
    by_hand = str(tmp_path / "by_hand.npz")
    px.induction_model().save(by_hand)
    data_of(capsys, "head", "L1H0", "--model", by_hand, "--top", "2", "--svg", str(picture))
    said = [node.text for node in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    cells = said[said.index("L1H0 OV") + 1 :]
    assert len(cells) == 4 and sum(text.endswith(": 0") for text in cells) == 2


def test_induction(capsys, tmp_path):
    path = tmp_path / "by_hand.npz"
    px.induction_model().save(path)
    data = data_of(capsys, "induction", str(path))
    assert data["from_weights"] == data["from_data"] == ["L1H0"] and data["agree"]
    assert data["explained"][0]["before"] == "L0H0" and data["explained"][0]["share"] > 0.8


def test_induction_where_there_is_none(capsys, saved):
    assert main(["induction", saved(layers=1)]) == 0
    assert "by the weights  none" in capsys.readouterr().out


def test_derive_score(capsys):
    data = data_of(capsys, "derive-score", "--layers", "2", "--heads", "3", "--head", "L1H2")
    assert data["count"] == data["kept"] == 16 and not data["truncated"]
    assert main(["derive-score", "--max-terms", "3", "--latex"]) == 3
    assert "6 more of 9 terms" in capsys.readouterr().out
    assert "at least 1" in refusal(capsys, "derive-score", "--layers", "0")


def test_pictures_are_valid_svg(capsys, saved, corpus, tmp_path):
    two, picture = saved(), str(tmp_path / "picture.svg")
    commands = [
        ["score", two, "abcabc", "--head", "L1H0"],
        ["heads", two],
        ["induction", two],
    ]
    for command in commands:
        assert main([*command, "--svg", picture]) == 0, capsys.readouterr().err
        assert len(list(ElementTree.parse(picture).getroot())) > 4, command
    capsys.readouterr()
    assert "cannot write the picture" in refusal(
        capsys, "heads", two, "--svg", str(tmp_path / "no" / "where.svg")
    )
