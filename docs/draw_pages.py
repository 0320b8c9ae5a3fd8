"""Draw the pictures of the pages again, each by one command.

    python docs/draw_pages.py [--corpora FOLDER]

Needs the extra `pathexp[viz]`. Pictures whose corpus is not in FOLDER are left as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
from pathlib import Path

from pathexp.cli import main

DOCS = Path(__file__).resolve().parent
CORPUS = "tinyshakespeare.txt"
PICTURES = {
    "attribution": "attribution",
    "tree": "tree --nodes 12",
    "flow": "flow --share 0.9",
    "position-flow": "position-flow",
    "lens": "lens",
    "interventions": "intervene",
    "score": "score --head L1H0",
    "composition": "composition",
    "head": "head --head L1H3",
    "spectra": "heads --runs 2",
    "induction": "induction --runs 2",
    "overlap": "overlap",
    "interference": "interference",
    "virtual-heads": f"virtual-heads --corpus {CORPUS}",
    "skip-trigrams": "skip-trigrams",
    "bigrams": f"bigrams --corpus {CORPUS}",
    "order-importance": f"order-importance --corpus {CORPUS} --zero mean",
    "bottlenecks": f"bottlenecks --corpus {CORPUS} --windows 20",
    "memory-management": f"memory-management --corpus {CORPUS} --windows 20",
    "privileged-basis": f"privileged-basis --corpus {CORPUS} --windows 20",
    "rotate-basis": "rotate-basis",
    "equivariance": "equivariance",
}
"""The command of every picture; `--save` is added."""


def draw(name: str, command: str, corpora: Path) -> str:
    """Draw one picture and return what happened."""
    words = [str(corpora / word) if word == CORPUS else word for word in shlex.split(command)]
    if CORPUS in command and not (corpora / CORPUS).is_file():
        return "left as it is: no corpus"
    with contextlib.redirect_stdout(io.StringIO()):
        code = main([*words, "--save", str(DOCS / "pictures" / f"{name}.svg")])
    return "drawn" if code in (0, 1, 3) else f"exit code {code}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, default=DOCS)
    given = parser.parse_args()
    for name, command in PICTURES.items():
        print(f"{name}: {draw(name, command, given.corpora)}")
