"""An app that keeps the pages of the monitor, so that tests serve them without Faust."""

from collections.abc import Callable
from typing import Any

from aiohttp import web


class App:
    """Keeps the handlers of an app's pages."""

    def __init__(self) -> None:
        self.should_stop = False
        self.pages: dict[str, Any] = {}

    def page(self, path: str) -> Callable[[Any], Any]:
        return lambda handler: self.pages.setdefault(path, handler)

    async def answer(self, path: str, request: web.Request) -> web.StreamResponse:
        """Answer a request as the page of a path."""
        sent: web.StreamResponse = await self.pages[path](None, request)
        return sent
