"""Optional packages: imported where they are used, and named with the command that installs them where they lack."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..errors import MissingExtraError
from ..installation import install_command


def extra(module: str, name: str, purpose: str) -> ModuleType:
    """Return an optional module. Raises MissingExtraError, naming the extra, if it is not installed.

    >>> extra("json", "viz", "pictures").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} need the package {module!r}, which cannot be imported ({error}); "
            f"install the extra: {install_command(name)}"
        ) from None
