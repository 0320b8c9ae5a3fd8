"""Look at a run in a browser: the page, served on this machine until it is stopped."""

from __future__ import annotations

import secrets
import socket
import time
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Thread
from typing import Any, ClassVar

from ..answer import Answer, Facts, Note, Part
from ..answer.extras import extra
from ..answer.html import word
from ..arguments import TRUTH, expect, instance, whole
from ..errors import PathexpError
from ..expansion.header import model_line
from ..model import Model, Target, Trace
from .guard import Guard
from .server import Served, application
from .session import Session
from .view import MOST_TEXT, View, words

HOST = "127.0.0.1"
"""The loopback address: no other machine reaches it."""


@dataclass(frozen=True, eq=False, repr=False)
class Exploration(Answer):
    """A page that is served, at `url`; `stop` ends it, and so does the end of the program.

    In a notebook it shows itself in the cell.
    """

    live: ClassVar[frozenset[str]] = frozenset({"served", "server", "thread"})

    url: str
    model: str
    served: Served
    server: Any
    thread: Thread

    def headline(self) -> str:
        """Return where the page is."""
        return f"exploring {self.model} at {self.url}"

    def parts(self) -> Iterator[Part]:
        """Yield the address, and who can open it."""
        yield Facts({"url": self.url, "model": self.model})
        yield Note("Open the address in a browser on this machine; it holds a secret and works nowhere else.")

    @property
    def running(self) -> bool:
        """Whether the page is still served."""
        return self.thread.is_alive()

    def wait(self) -> None:
        """Wait until the page is stopped; Ctrl-C stops it."""
        try:
            while self.thread.is_alive():
                self.thread.join(0.5)
        except KeyboardInterrupt:
            pass
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop serving the page; nothing happens where it is stopped."""
        self.server.should_exit = self.server.force_exit = True
        self.served.close()
        self.thread.join(5)

    def to_html(self, *, top: int | None = None) -> str:
        """Return a link and a frame that shows the page, for notebooks on this machine."""
        return (
            f'<p><a href="{self.url}" target="_blank" rel="noreferrer">{word(self.headline())}</a></p>'
            f'<iframe src="{self.url}" width="100%" height="900" title="pathexp"></iframe>'
        )


def explore(
    what: Trace | Model,
    text: str = "",
    *,
    target: Target | None = None,
    port: int = 0,
    browser: bool = False,
    name: str = "",
) -> Exploration:
    """Serve a page on which a run can be explored: the tree of exact sums, paths, flow, heads, lens, cuts.

    The page answers this machine alone, at an address that holds a random secret; it fetches nothing from elsewhere.
    It is served from a thread until `Exploration.stop`. Everything on it equals what the same questions return in Python.

    Parameters
    ----------
    what: a run, or a model and then `text`, that the page begins with.
    target: the logit, or the difference of two, that the page begins with; the predicted token's if not given.
    port: the port to listen on; 0 takes a free one.
    browser: whether to open the page in the standard browser.
    name: what the model was loaded from, for the code that the page hands out; the model's name if not given.

    Raises MissingExtraError without starlette and uvicorn (extra `[web]`), PathexpError for a port that is in use, a text
    of more than 20,000 characters, or a target that is no logit or difference of two.

    >>> import pathexp as px
    >>> page = px.explore(px.load("attn-2l"), "To be, or not to be")
    >>> page.url.startswith("http://127.0.0.1:"), page.running
    (True, True)
    >>> page.stop()
    >>> page.running
    False
    """
    expect("explore", port=(port, whole(0)), browser=(browser, TRUTH), name=(name, instance(str, "a text")))
    expect(
        "explore",
        text=(text, instance(str, "a text, or token ids with blanks between")),
        target=(target, instance((Target, type(None)), "a target, such as trace.logit(3), or None")),
    )
    session = session_of(what, text, target, name)
    words(vars(session.start), "text", MOST_TEXT)
    uvicorn = extra("uvicorn", "web", "pages that are served")
    listening = _listen(port)
    guard = Guard(listening.getsockname()[1], secrets.token_urlsafe(18))
    served = Served(session, guard)
    config = uvicorn.Config(
        application(served), log_level="error", access_log=False, lifespan="off", ws="none",
        limit_concurrency=64, timeout_keep_alive=15, server_header=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="pathexp page")
    thread.start()
    _until_started(server, thread)
    url = f"http://{HOST}:{guard.port}/{guard.secret}/"
    if browser:
        webbrowser.open(url)
    return Exploration(url, model_line(session.model), served, server, thread)


def session_of(what: Trace | Model, text: str, target: Target | None, name: str) -> Session:
    """Return the session that a page begins with. Raises PathexpError for what is neither a run nor a model."""
    if isinstance(what, Trace):
        if text:
            raise PathexpError("give a run, or a model and a text, not both")
        view = View(_text_of(what), *_asked(target))
        return Session(what.model, view, name or what.model.name, what)
    if not isinstance(what, Model):
        raise PathexpError(
            f"explore() takes a run or a model, got {what!r:.60}; use px.load or model.run(text)"
        )
    return Session(what, View(text, *_asked(target)), name or what.name)


def _text_of(trace: Trace) -> str:
    """The text of a run, or its token ids where text does not give the same tokens back."""
    if trace.model.tokenizer is not None:
        text = trace.model.decode(trace.tokens.tolist())
        if trace.model.encode(text) == trace.tokens.tolist():
            return text
    return " ".join(str(int(token)) for token in trace.tokens)


def _asked(target: Target | None) -> tuple[int, int | None, int | None]:
    """The position, the token and its rival of a target. Raises PathexpError where it is another direction."""
    if target is None:
        return -1, None, None
    read = target.direction
    up, down = int(read.argmax()), int(read.argmin())
    if target.space == "logits" and read[up] == 1 and abs(read).sum() == 1:
        return target.position, up, None
    if target.space == "logits" and (read[up], read[down], abs(read).sum()) == (1, -1, 2):
        return target.position, up, down
    raise PathexpError(
        f"a page explains a logit or the difference of two; got {target.label!r:.60}: use px.tree for other directions"
    )


def _listen(port: int) -> socket.socket:
    """Return a socket on the loopback address. Raises PathexpError where the port is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listening.close()
        said = getattr(error, "strerror", None) or str(error)
        raise PathexpError(
            f"cannot listen on port {port}: {said}; give another, or 0 for a free one"
        ) from None
    listening.listen(64)
    return listening


def _until_started(server: Any, thread: Thread) -> None:
    """Wait until the page answers."""
    for _ in range(500):
        if server.started or not thread.is_alive():
            break
        time.sleep(0.01)
    if not server.started:
        raise PathexpError("the page could not be started")
