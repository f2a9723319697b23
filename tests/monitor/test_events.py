"""The stream of live events: docs/monitor.md, the table of paths."""

import asyncio
import json
import time
from functools import partial
from itertools import pairwise
from typing import Any

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from tests.monitor.pages import App
from tidemark.monitor.web import serve

LOOK_S, LOOKS = 0.25, 4
"""A change is sent at the next look, and every fourth look is sent in any case."""


class Changing:
    """A monitor with another process at each look."""

    def __init__(self) -> None:
        self.looks = 0

    def dashboard(self) -> dict[str, Any]:
        self.looks += 1
        process = {"process": f"ingest/{self.looks}", "ready": True}
        return {"alerts": [], "processes": [process], "holders": []}


async def first_events(url: str, count: int) -> list[str]:
    """The processes of the first events."""
    async with ClientSession() as session, session.get(url) as answer:
        assert answer.content_type == "text/event-stream"
        said = [await answer.content.readuntil(b"\n\n") for _ in range(count)]
    return [json.loads(each.removeprefix(b"data: "))["processes"][0]["process"] for each in said]


async def watched_by(browsers: int) -> tuple[int, list[list[str]]]:
    app, monitor = App(), Changing()
    serve(app, monitor, lambda _: {}, lambda _: {})  # type: ignore[arg-type]
    paths = web.Application()
    paths.router.add_get("/", partial(app.answer, "/api/events"))
    async with TestServer(paths) as server:
        url = str(server.make_url("/"))
        seen = await asyncio.gather(*(first_events(url, 3) for _ in range(browsers)))
        app.should_stop = True
    return monitor.looks, seen


def test_a_change_is_sent_at_once_and_all_browsers_share_what_is_computed():
    begin_s = time.monotonic()
    looks, seen = asyncio.run(watched_by(8))
    taken_s = time.monotonic() - begin_s
    assert looks <= taken_s / LOOK_S + 2
    for processes in seen:
        numbers = [int(each.removeprefix("ingest/")) for each in processes]
        assert all(1 <= later - number < LOOKS for number, later in pairwise(numbers))
