"""The web side of the monitor: the page with its files, JSON, and the stream of live events.

See docs/monitor.md for the paths.  Faust's web serves them in the loop of the app.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any

import faust
import msgspec
from aiohttp.web import Request, Response, StreamResponse
from confluent_kafka import KafkaException

from tidemark.errors import InfrastructureError, TidemarkError
from tidemark.monitor.history import RINGS
from tidemark.monitor.monitor import Monitor
from tidemark.monitor.status import why_open
from tidemark.runtime.faults import explained

OnDemand = Callable[[Mapping[str, str]], dict[str, Any]]
"""Takes the parameters of a query by name; reads topics and returns what the browser asks for."""

Answer = Callable[[Request], Awaitable[StreamResponse]]

FILES = {
    "": "page.html",
    **{f"static/{name}": name for name in (
        "page.css", "page.js", "dom.js", "text.js", "graph.js", "charts.js", "tables.js",
        "records.js", "search.js", "icon.svg",
    )},
}  # fmt: skip
"""The files of the page by their paths."""

_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_LOOK_S, _LOOKS = 0.25, 4
_READERS, _SEARCHES = 2, 1


def serve(app: faust.App, monitor: Monitor, newest: OnDemand, search: OnDemand) -> None:
    """Add all paths to the app; ``newest`` reads the newest records, ``search`` finds a record."""
    for path, name in FILES.items():
        app.page(f"/{path}")(_view(_file(name)))
    answers: dict[str, Answer] = {
        "/api/status": lambda _: _now(_json(monitor.dashboard())),
        "/api/history": lambda request: _now(_history(monitor, request)),
        "/api/records": _OnDemand(newest, _READERS).answer,
        "/api/missing": _OnDemand(search, _SEARCHES).answer,
        "/api/late": lambda _: _now(_json(monitor.dashboard()["late"])),
        "/api/why": lambda request: _now(_why(monitor, request)),
        "/api/events": _Events(app, monitor).answer,
        "/health/live": lambda _: _now(_state(app, "live", [])),
        "/health/ready": lambda _: _now(_state(app, "ready", _restoring(app))),
    }
    for path, answer in answers.items():
        app.page(path)(_view(answer))


def _view(answer: Answer) -> Any:
    """Return an answer as a handler of Faust, which also takes the view."""

    async def handle(_view: Any, request: Request) -> StreamResponse:
        return await answer(request)

    return handle


async def _now(response: Response) -> Response:
    return response


def _history(monitor: Monitor, request: Request) -> Response:
    name = request.query.get("ring", RINGS[0].name)
    ring = next((each for each in RINGS if each.name == name), None)
    if ring is None:
        known = ", ".join(each.name for each in RINGS)
        return _error(f"ring={name}: the rings are {known}")
    return _json(monitor.chart(ring))


def _why(monitor: Monitor, request: Request) -> Response:
    end = request.query.get("end_ms")
    try:
        end_ms = None if end is None else int(end)
    except ValueError:
        return _error(f"end_ms={end}: not a number of milliseconds")
    return _json(why_open(monitor.status(), request.query.get("operator"), end_ms))


def _restoring(app: faust.App) -> list[str]:
    tables: Any = app.tables
    return [] if tables.recovery.completed.is_set() else ["restoring its tables"]


def _state(app: faust.App, name: str, reasons: list[str]) -> Response:
    body = {"service": app.conf.id, name: not reasons, "reasons": reasons}
    return _json(body, 503 if reasons else 200)


class _OnDemand:
    """Answers from topics, for a few browsers at a time: each takes a consumer and a thread."""

    def __init__(self, read: OnDemand, readers: int) -> None:
        self._read = read
        self._free = asyncio.Semaphore(readers)

    async def answer(self, request: Request) -> Response:
        async with self._free:
            if request.transport is None:  # the browser has not waited: nobody reads the answer
                return _error("the connection is closed")
            try:
                return _json(await asyncio.to_thread(self._read, request.query))
            except TidemarkError as error:
                return _error(str(error))
            except (KafkaException, InfrastructureError) as error:
                return _error(explained(error, "the monitor")[0], 503)


class _Events:
    """Sends the status once a second, and at once when a process or an alert comes or goes.

    All browsers look at the same times, so the dashboard is computed once for all of them.
    """

    def __init__(self, app: faust.App, monitor: Monitor) -> None:
        """``app``: browsers get events until it stops."""
        self._app, self._monitor = app, monitor
        self._look = -1
        self._event, self._health = b"", list[Any]()

    async def answer(self, request: Request) -> StreamResponse:
        response = StreamResponse(
            headers={**_SAFE, "Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        sent, before = 0, None
        while not self._app.should_stop:
            self._compute()
            if self._health != before or self._look - sent >= _LOOKS:
                sent, before = self._look, self._health
                try:
                    await response.write(self._event)
                except ConnectionResetError:  # the browser has closed the page
                    break
            await asyncio.sleep(_LOOK_S - time.monotonic() % _LOOK_S)
        return response

    def _compute(self) -> None:
        """Compute the event of the present look, if no browser has asked for it yet."""
        look = int(time.monotonic() / _LOOK_S)
        if look != self._look:
            shown = self._monitor.dashboard()
            self._look, self._health = look, _health(shown)
            self._event = b"data: " + msgspec.json.encode(shown) + b"\n\n"


def _health(shown: dict[str, Any]) -> list[Any]:
    """Return what is sent at once if it changes: alerts, processes, sources that hold clocks."""
    alerts = [(each["process"], each["kind"], each["subject"]) for each in shown["alerts"]]
    ready = [(each["process"], each["ready"]) for each in shown["processes"]]
    return [alerts, ready, sorted(each["source"] for each in shown["holders"])]


def _file(name: str) -> Answer:
    body = files("tidemark.monitor").joinpath("static", name).read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = {**_SAFE, "Cache-Control": "no-cache", "ETag": tag}
    kind = _TYPES[name.rpartition(".")[2]]

    async def answer(request: Request) -> Response:
        if request.headers.get("If-None-Match") == tag:
            return Response(status=304, headers=headers)
        return Response(body=body, content_type=kind, charset="utf-8", headers=headers)

    return answer


def _json(value: Any, status: int = 200) -> Response:
    return Response(
        body=msgspec.json.encode(value),
        status=status,
        content_type="application/json",
        headers={**_SAFE, "Cache-Control": "no-store"},
    )


def _error(text: str, status: int = 400) -> Response:
    return _json({"error": text}, status)
