"""The page as one file: its modules joined, its style and the answers inside, nothing fetched, no other script allowed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from .files import static

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(?P<file>\w+\.js)";\n', re.M)
_EXPORT = re.compile(r"^export (?=async function|function|class|const)", re.M)
_PASSED_ON = re.compile(r"^export \{[^}]*\};\n", re.M)


def joined(entry: str = "main.js") -> str:
    """Return the modules of the page as one script: each after those it imports, its names as they are.

    Modules are written so that this is enough: they import names as they are, and no two use one name at their top.
    """
    order: list[str] = []

    def visit(name: str) -> None:
        for match in _IMPORT.finditer(static(name) or ""):
            visit(match["file"])
        if name not in order:
            order.append(name)

    visit(entry)
    return "".join(f"// {name}\n{_plain(static(name) or '')}\n" for name in order)


def _plain(module: str) -> str:
    """A module without its imports and exports."""
    return _EXPORT.sub("", _PASSED_ON.sub("", _IMPORT.sub("", module)))


def bundled(title: str, held: Mapping[str, Any]) -> str:
    """Return the page with what was computed as one HTML file.

    Its content security policy allows this very script and style alone, and no connection anywhere.
    """
    script, style = joined(), static("style.css") or ""
    page = static("index.html") or ""
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(held, allow_nan=False, separators=(",", ":"))
    replaced = {
        '<meta charset="utf-8">': f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<link rel="stylesheet" href="style.css">': f"<style>{style}</style>",
        '<script type="module" src="main.js"></script>': "",
        "<title>pathexp</title>": f"<title>{_text(title)}</title>",
        "</body>": f'<script type="application/json" id="held">{_inside(data)}</script>\n<script type="module">{script}</script>\n</body>',
    }
    for mark, made in replaced.items():
        page = page.replace(mark, made)
    return page


def _hash(inside: str) -> str:
    digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _inside(data: str) -> str:
    """JSON that no word in it can end: a script element ends at "</", wherever it stands."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _text(title: str) -> str:
    return title.replace("&", "&amp;").replace("<", "&lt;")
