"""Run the tutorials again and keep their outputs: python docs/run_tutorials.py [NOTEBOOK ...]

Needs nbclient and ipykernel. What changes from run to run (times, ids, who ran it) is left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).resolve().parent / "tutorials"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def executed(notebook: Path) -> Any:
    """Return a notebook run from its beginning in a kernel of its own; an error in a cell is an error here."""
    import nbformat
    from nbclient import NotebookClient

    found = nbformat.read(notebook, as_version=4)
    NotebookClient(found, timeout=600, kernel_name="python3").execute(cwd=str(TUTORIALS))
    return found


def settled(found: Any) -> Any:
    """Return a notebook without what changes from run to run."""
    found.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for number, cell in enumerate(found.cells):
        cell.metadata, cell.id = {}, f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return found


def main(notebooks: list[Path]) -> None:
    """Run notebooks and write them."""
    import nbformat

    for notebook in notebooks:
        nbformat.write(settled(executed(notebook)), notebook)
        print(f"{notebook.name}: run")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]] or sorted(TUTORIALS.glob("*.ipynb")))
