"""Who may talk to a page that is served: this machine, under the page's own address, from the page itself.

Any web site can make a browser send requests to 127.0.0.1, and a name that changes its address can read the answers (DNS
rebinding). So every request must carry the secret of the address, name this machine as its host, and come from nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest

MOST_BODY = 200_000
"""How many bytes a request may have."""

HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors http://127.0.0.1:* http://localhost:*",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every response says: no script but the page's own files, nothing from elsewhere, nothing kept.

A notebook on this machine may show the page in a frame; no other page may.
"""


@dataclass(frozen=True)
class Guard:
    """The port and the secret of one page.

    >>> guard = Guard(8000, "secret")
    >>> guard.refuses({"host": "127.0.0.1:8000"}, "/secret/"), guard.refuses({"host": "evil.com"}, "/secret/")
    ('', 'this page is served to this machine alone: host evil.com is refused')
    """

    port: int
    secret: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names under which this machine may be asked."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    def refuses(self, headers: Mapping[str, str], path: str) -> str:
        """Return why a request is refused; nothing where it is not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return f"this page is served to this machine alone: host {host[:60]} is refused"
        if origin is not None and origin != f"http://{host}":
            return f"this page answers itself alone: origin {origin[:60]} is refused"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not self._framed(headers):
            return "this page answers itself alone: a request from another site is refused"
        given = path.split("/")[1:2]
        if not given or not compare_digest(given[0].encode("utf-8", "replace"), self.secret.encode()):
            return "the address lacks the secret that was printed when the page was started"
        return ""

    @staticmethod
    def _framed(headers: Mapping[str, str]) -> bool:
        """Whether another page opens the address as a whole, as a link or a notebook's frame does; it reads nothing."""
        return headers.get("sec-fetch-mode") == "navigate"
