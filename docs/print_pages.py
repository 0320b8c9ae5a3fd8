"""Print the pages again: run every block that begins with "$ pathexp" and write what it prints, 100 columns wide.

    python docs/print_pages.py [--corpora FOLDER] [PAGE ...]

Corpora are looked for in FOLDER; blocks whose corpus is not there are left as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
from pathlib import Path

from pathexp.cli import main

BLOCK = re.compile(r"(```text\n\$ pathexp ([^\n]*)\n)(.*?)(```)", re.S)
DOCS = Path(__file__).resolve().parent


def printed(command: str, corpora: Path) -> str | None:
    """Return what a command prints, or None if its corpus is not there."""
    words = [str(corpora / word) if word.endswith(".txt") else word for word in shlex.split(command)]
    if any(word.endswith(".txt") and not Path(word).is_file() for word in words):
        return None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(words)
    if code:
        raise SystemExit(f"pathexp {command}: exit code {code}")
    return out.getvalue()


def refresh(page: Path, corpora: Path) -> None:
    """Write a page with its blocks printed again."""
    text = page.read_text()
    for match in list(BLOCK.finditer(text)):
        said = printed(match[2], corpora)
        if said is not None:
            text = text.replace(match[0], f"{match[1]}{said.rstrip()}\n{match[4]}")
    page.write_text(text)


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, default=DOCS)
    parser.add_argument("pages", nargs="*", type=Path)
    given = parser.parse_args()
    for page in given.pages or sorted(DOCS.glob("*.md")):
        refresh(page, given.corpora)
