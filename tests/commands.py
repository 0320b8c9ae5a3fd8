"""Commands as tests run them: as JSON, on models saved to a file, and refused."""

import json

import pathexp as px
from pathexp.cli import main
from pathexp.model import Tokenizer

LETTERS = "abcdefghi"


def saved(folder, model=None, **switches):
    """Save a model, or a random one of nine letters, and return its path."""
    if model is None:
        model = px.random_model(**{"layers": 2, "heads": 2, "d_vocab": 9, "seed": 1, "d_head": 4} | switches)
        model = px.Model(model.config, model.weights, Tokenizer(tuple(LETTERS)), "letters")
    path = folder / "model.npz"
    model.save(path)
    return str(path)


def json_of(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def printed(capsys, *arguments, code=0):
    assert main(list(arguments)) == code
    return capsys.readouterr().out


def refusal(capsys, *arguments):
    assert main(list(arguments)) == 2
    _, err = capsys.readouterr()
    assert "Traceback" not in err
    return err
