"""The command that installs an optional package where it is missing: into the Python that runs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def install_command(extra: str) -> str:
    """Return the command that adds an extra to the environment that runs, for a shell.

    What is installed is asked for by name, so that pip adds the extra alone; a checkout that is not installed by its path.

    >>> install_command("viz").endswith(" -m pip install 'pathexp[viz]'")
    True
    """
    return f"{shlex.quote(sys.executable or 'python')} -m pip install {shlex.quote(f'{_requirement()}[{extra}]')}"


def _requirement() -> str:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return str(distribution("pathexp").metadata["Name"])
    except PackageNotFoundError:
        checkout = Path(__file__).resolve().parents[1]
        return str(checkout) if (checkout / "pyproject.toml").is_file() else "pathexp"
