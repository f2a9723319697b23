"""A receiver of webhooks, which keeps what it is sent and answers what it is told to."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    records: list[dict[str, Any]]


class Receiver:
    """A server in this process; a request counts where it was answered with success."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: list[int] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def records(self, path: str, topic: str) -> Iterator[dict[str, Any]]:
        """Return what was taken of a topic at a path, in the order of its coming."""
        for request in self.requests:
            if (request.path, request.headers["tidemark-topic"]) == (path, topic):
                yield from request.records

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.answers.pop(0) if receiver.answers else 204
                if status < 300:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    receiver.requests.append(Request(self.path, headers, json.loads(body)))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
