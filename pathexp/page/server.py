"""The page served on this machine: the files of the page, its panels as JSON, long searches as a stream of lines."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from ..answer.extras import extra
from ..errors import PathexpError
from ..expansion.search import stopped_by
from .bundle import bundled
from .computed import computed
from .files import static
from .guard import HEADERS, MOST_BODY, Guard
from .panels.paths import prove
from .session import Session
from .view import view_of, words

if TYPE_CHECKING:
    import asyncio

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
STEP = 0.1
"""Seconds between two looks at whether somebody still waits for an answer."""

LONGEST = 180.0
"""Seconds after which a small question is given up."""

Work = Callable[[], dict[str, Any]]
"""What is computed."""


@dataclass(eq=False)
class Served:
    """What answers requests: small questions on some threads, searches on one of their own, so that none waits for one."""

    session: Session
    guard: Guard
    searches: dict[str, Event] = field(default_factory=dict)
    """What ends each search that runs, by the name that the page gave it."""
    running: set[Event] = field(default_factory=set)
    """What ends each piece of work that runs."""
    small: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(3, "panel"))
    long: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "search"))

    def close(self) -> None:
        """Let go of the threads: what waits is dropped, what runs ends at its next step."""
        for stop in tuple(self.running):
            stop.set()
        for pool in (self.small, self.long):
            pool.shutdown(wait=False, cancel_futures=True)

    async def page(self, request: Any) -> Any:
        """Send a file of the page; its address without a name is the page itself."""
        name = request.path_params.get("name") or "index.html"
        text = static(name)
        if text is None:
            return self.refusal(f"no file {name!r:.60} on this page", 404)
        return _responses().Response(text, media_type=TYPES.get(name.rsplit(".", 1)[-1], "text/plain"))

    async def start(self, request: Any) -> Any:
        """Send what the page begins with: the view, and the name of the model for code."""
        view = self.session.start
        return self.plain({"view": view.__dict__, "name": self.session.name, "served": True})

    async def panel(self, request: Any) -> Any:
        """Answer a panel's question; work that nobody waits for any more is dropped, or ends at its next step."""
        given = await _read(request)
        name = request.path_params["name"]
        stop = Event()
        found = await self._wait(request, stop, self.small, lambda: self.session.ask(name, given))
        return self.plain(found)

    async def report(self, request: Any) -> Any:
        """Send the page of the view that is looked at as one file."""
        view = view_of(await _read(request))

        def written() -> dict[str, Any]:
            trace = self.session.subject(view).trace
            one = Session(self.session.model, view, self.session.name, trace)
            return {"html": bundled(f"pathexp: {one.name}", computed(one))}

        return self.plain(await self._wait(request, Event(), self.long, written))

    async def prove(self, request: Any) -> Any:
        """Stream the certified search: a line of JSON for each step, then one with the answer."""
        import asyncio

        given = await _read(request)
        name = words(given, "search", 100)
        lines: asyncio.Queue[str] = asyncio.Queue()
        loop, stop = asyncio.get_running_loop(), Event()
        if name in self.searches:  # a second search of that name takes the place of the first
            self.searches[name].set()
        if name:
            self.searches[name] = stop

        def say(what: str) -> None:
            loop.call_soon_threadsafe(lines.put_nowait, json.dumps({"progress": what}))

        def search() -> dict[str, Any]:
            return prove(self.session.subject(view_of(given)), given, say)

        async def body() -> AsyncIterator[str]:
            work = asyncio.ensure_future(self._wait(request, stop, self.long, search))
            try:
                while not work.done() or not lines.empty():
                    with contextlib.suppress(TimeoutError):
                        yield await asyncio.wait_for(lines.get(), STEP) + "\n"
                yield json.dumps({"answer": _outcome(work)}, allow_nan=False) + "\n"
            finally:
                stop.set()
                if self.searches.get(name) is stop:
                    del self.searches[name]

        return _responses().StreamingResponse(body(), media_type="application/x-ndjson")

    async def stop(self, request: Any) -> Any:
        """End a search at its next step; its stream then tells what it has, and what is proven of the rest."""
        event = self.searches.get(words(await _read(request), "search", 100))
        if event is not None:
            event.set()
        return self.plain({"stopped": event is not None})

    async def _wait(self, request: Any, stop: Event, pool: ThreadPoolExecutor, work: Work) -> dict[str, Any]:
        """Return what work finds, on a thread; stop it when the one who asked has gone."""
        import asyncio

        def run() -> dict[str, Any]:
            if stop.is_set():
                raise Overtaken("nobody waits for this any more")
            with stopped_by(stop.is_set):
                return work()

        future = asyncio.wrap_future(pool.submit(run))
        started = time.monotonic()
        self.running.add(stop)
        future.add_done_callback(lambda _: self.running.discard(stop))
        while not future.done():
            await asyncio.wait({future}, timeout=STEP)
            if not future.done() and await request.is_disconnected():
                stop.set()
            if pool is self.small and not future.done() and time.monotonic() - started > LONGEST:
                stop.set()
                raise PathexpError(f"this takes more than {LONGEST:g} s on a page; ask for it in Python")
        return await future

    def plain(self, found: Mapping[str, Any], status: int = 200) -> Any:
        """Return plain data as a response."""
        return _responses().Response(
            json.dumps(found, allow_nan=False), status_code=status, media_type="application/json"
        )

    def refusal(self, said: str, status: int = 400) -> Any:
        """Return what is refused, and why."""
        return self.plain({"error": said.splitlines()}, status)


class Overtaken(PathexpError):
    """Work that is not wanted any more."""


def _outcome(work: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
    """What a search found, or why it was refused."""
    try:
        return work.result()
    except PathexpError as error:
        return {"error": str(error).splitlines()}


async def _read(request: Any) -> Mapping[str, Any]:
    """Return the plain data of a request. Raises PathexpError for too much of it, or what is no JSON."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY:
            raise PathexpError(f"a request may have up to {MOST_BODY:,} bytes; shorten the text")
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise PathexpError("a request is a JSON object") from None
    if not isinstance(found, dict):
        raise PathexpError(f"a request is a JSON object, got {found!r:.40}")
    return found


def _responses() -> Any:
    return extra("starlette.responses", "web", "pages that are served")


def application(served: Served) -> Any:
    """Return the page as an ASGI application. Raises MissingExtraError without starlette (extra `[web]`)."""
    routing = extra("starlette.routing", "web", "pages that are served")
    starlette = extra("starlette.applications", "web", "pages that are served")
    routes = [
        routing.Route("/{secret}/", served.page),
        routing.Route("/{secret}/api/start", served.start),
        routing.Route("/{secret}/api/report", _told(served, served.report), methods=["POST"]),
        routing.Route("/{secret}/api/stop", _told(served, served.stop), methods=["POST"]),
        routing.Route("/{secret}/api/prove", _told(served, served.prove), methods=["POST"]),
        routing.Route("/{secret}/api/{name}", _told(served, served.panel), methods=["POST"]),
        routing.Route("/{secret}/{name}", served.page),
    ]
    return guarded(starlette.Starlette(routes=routes), served)


Endpoint = Callable[[Any], Awaitable[Any]]


def _told(served: Served, endpoint: Endpoint) -> Endpoint:
    """An endpoint that says what it refuses, instead of failing."""

    async def told(request: Any) -> Any:
        try:
            return await endpoint(request)
        except PathexpError as error:
            return served.refusal(str(error))
        except MemoryError:
            return served.refusal("there is not enough memory for this: take a shorter text")

    return told


def guarded(inner: Any, served: Served) -> Any:
    """Return an application that asks the guard before anything else, and puts its headers on every response."""

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }

        async def sealed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        said = served.guard.refuses(headers, scope["path"])
        application = served.refusal(said, 403) if said else inner
        await application(scope, receive, sealed)

    return outer


_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
