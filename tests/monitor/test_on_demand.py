"""A browser that reads topics holds up neither the page nor other browsers."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from confluent_kafka import KafkaError, KafkaException

from tests.monitor.pages import App
from tests.patience import PATIENCE_S
from tidemark.errors import ConfigurationError, InfrastructureError
from tidemark.monitor.web import serve


class Searches:
    """A search that lasts until the test releases it; it counts how many run at a time."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.begun = threading.Event()
        self.at_work = self.most = 0
        self.keys: list[str] = []

    def find(self, asked: Mapping[str, str]) -> dict[str, Any]:
        if asked["key"] == "none":
            raise ConfigurationError("name a key")
        if asked["key"] == "away":
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        if asked["key"] == "lost":
            raise InfrastructureError("the broker is lost")
        self.keys.append(asked["key"])
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        self.begun.set()
        assert self.goes_on.wait(PATIENCE_S)
        self.at_work -= 1
        return {"facts": [{"text": asked["key"]}]}


class Monitor:
    def status(self) -> dict[str, Any]:
        return {"clocks": []}


def page(
    app: App, path: str, arrived: asyncio.Queue[str]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        arrived.put_nowait(request.query.get("key", ""))
        return await app.answer(path, request)

    return answer


async def answers(searches: Searches) -> list[dict[str, Any]]:
    app = App()
    serve(app, Monitor(), lambda _: {}, searches.find)  # type: ignore[arg-type]
    paths = web.Application()
    arrived: asyncio.Queue[str] = asyncio.Queue()
    for path in ("/api/missing", "/api/why"):
        paths.router.add_get(path, page(app, path, arrived))
    async with TestServer(paths) as server, ClientSession(str(server.make_url("/"))) as browser:

        async def get(path: str) -> dict[str, Any]:
            async with browser.get(path) as answer:
                found: dict[str, Any] = {"status": answer.status, "found": await answer.json()}
                return found

        keys = ("a", "gone", "b")
        asked = []
        for key in keys:
            asked.append(asyncio.create_task(get(f"/api/missing?key={key}")))
            assert await arrived.get() == key
        await asyncio.to_thread(searches.begun.wait, PATIENCE_S)
        asked.pop(1).cancel()
        meanwhile = await get("/api/why")
        assert not any(each.done() for each in asked)
        searches.goes_on.set()
        found = [await each for each in asked]
        return [meanwhile, *found, *[await get(f"/api/missing?key={key}") for key in REFUSED]]


REFUSED = ("none", "away", "lost")


def test_a_search_is_one_at_a_time_and_the_page_answers_meanwhile():
    searches = Searches()
    meanwhile, *found, refused, away, lost = asyncio.run(answers(searches))
    assert meanwhile == {"status": 200, "found": []}
    assert [each["found"]["facts"][0]["text"] for each in found] == ["a", "b"]
    assert searches.most == 1
    assert searches.keys == ["a", "b"], "nobody waits for the one that is gone"
    assert refused == {"status": 400, "found": {"error": "name a key"}}
    assert lost == {"status": 503, "found": {"error": "the broker is lost"}}
    assert away["status"] == 503
    assert away["found"]["error"].startswith("Kafka: _ALL_BROKERS_DOWN: ")
