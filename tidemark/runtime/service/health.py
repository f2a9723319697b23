"""What a process answers at its port: GET /health/live, /health/ready and /metrics.

Live: the loop turned lately.  Ready: it has its partitions, their state, and a broker.  Both
answer with JSON that gives the reasons, and with status 503 where the answer is no.  The server is
a thread that reads what the loop noted down; it never touches the loop's objects.
See docs/operations.md, "Health" and "Metrics".
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tidemark.errors import ConfigurationError
from tidemark.runtime.config import Config
from tidemark.runtime.service.metrics import CONTENT_TYPE, Metrics

_CLIENT_S = 5.0

Answer = tuple[bool, Mapping[str, Any]]


class Health:
    """Notes of the one thread that works, for those who ask."""

    def __init__(self, service: str, stuck_after_s: float) -> None:
        """Begin not ready; ``stuck_after_s``: how long one turn of the loop may take."""
        self._service = service
        self._stuck_after_s = stuck_after_s
        self._turned_s = time.monotonic()
        self._waits: tuple[str, ...] = ("starting",)
        self._partitions: tuple[str, ...] = ()

    def turned(self) -> None:
        """Note that the loop is not stuck."""
        self._turned_s = time.monotonic()

    def waiting(self, *reasons: str) -> None:
        """Note why there is no work done now; nothing where there is."""
        self._waits = reasons
        self.turned()

    def owns(self, partitions: Sequence[object]) -> None:
        """Note the partitions of this process."""
        self._partitions = tuple(map(str, partitions))

    def live(self) -> Answer:
        """Say whether the loop turns."""
        quiet_s = time.monotonic() - self._turned_s
        reasons = []
        if not threading.main_thread().is_alive():
            reasons.append("the loop has ended")
        elif quiet_s > self._stuck_after_s:
            reasons.append(f"the loop is stuck for {quiet_s:.0f} s")
        return not reasons, {"service": self._service, "live": not reasons, "reasons": reasons}

    def ready(self) -> Answer:
        """Say whether it works on its partitions, or would if it had some."""
        live, told = self.live()
        reasons = [*told["reasons"], *self._waits]
        ready = live and not self._waits
        if ready and not self._partitions:
            reasons.append("no partitions: more replicas than partitions")
        return ready, {
            "service": self._service,
            "ready": ready,
            "reasons": reasons,
            "partitions": list(self._partitions),
        }


def serve(config: Config, health: Health, metrics: Metrics) -> None:
    """Answer at the configured port, if there is one, until the process ends."""
    if config.http_port is None:
        return
    routes = {
        "/health/live": lambda: _as_json(health.live()),
        "/health/ready": lambda: _as_json(health.ready()),
        "/metrics": lambda: _Page(HTTPStatus.OK, CONTENT_TYPE, metrics.text()),
    }
    try:
        server = _Server((config.http_host, config.http_port), _handler(routes))
    except OSError as error:
        raise ConfigurationError(
            f"TIDEMARK_HTTP_PORT={config.http_port}: {config.http_host}: {error.strerror}"
        ) from None
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()


class _Page(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


class _Server(ThreadingHTTPServer):
    """Says nothing of those who hang up early, as probes do that read the status alone."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _as_json(answer: Answer) -> _Page:
    good, told = answer
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return _Page(status, "application/json", json.dumps(told).encode() + b"\n")


def _handler(routes: Mapping[str, Callable[[], _Page]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _CLIENT_S

        def do_GET(self) -> None:
            route = routes.get(self.path)
            if route is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            status, content_type, body = route()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing of each request."""

    return Handler
