"""The pages show what the commands print: every block that begins with "$ pathexp" is run again."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from pathexp.cli import main
from tests.shared_models import FOLDER

PAGES = sorted((Path(__file__).resolve().parents[1] / "docs").glob("*.md"))
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?")
ERRORS = re.compile(r"error \S+ ≤ tolerance \S+|worst at .*")
CORPUS = FOLDER.parent / "data"


def blocks():
    for page in PAGES:
        for block in re.finditer(r"```text\n\$ pathexp ([^\n]*)\n(.*?)```", page.read_text(), re.S):
            yield pytest.param(block[1], block[2], id=f"{page.name}: {block[1]}")


def placed(argument):
    """A corpus of the pages, where it stands; without it the test is skipped."""
    if not argument.endswith(".txt"):
        return argument
    if not (CORPUS / argument).is_file():
        pytest.skip(f"{argument} is not beside the repository")
    return str(CORPUS / argument)


@pytest.mark.parametrize(("command", "shown"), list(blocks()))
def test_shown_is_printed(capsys, command, shown):
    """Words to the letter; numbers to the last digits that rounding may change, errors and their places not at all."""
    assert main([placed(argument) for argument in shlex.split(command)]) == 0
    printed = capsys.readouterr().out
    shown, printed = (ERRORS.sub("…", text).strip() for text in (shown, printed))
    assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", printed).split()
    numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(text)] for text in (shown, printed)]
    np.testing.assert_allclose(*numbers, atol=2e-3, rtol=1e-3)
