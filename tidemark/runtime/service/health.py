"""Serves health and metrics over HTTP: GET /health/live, /health/ready and /metrics.

Live means that the loop has turned recently.  Ready means that the process has its partitions,
their state and a broker.  Both answers are JSON with the reasons; the status is 503 if the answer
is no.  The server thread only reads the notes of the loop and never touches the loop's objects.
See docs/operations.md, "Health", and docs/monitor.md, "Metrics".
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
    """Notes of the loop, read by the server thread."""

    def __init__(
        self,
        service: str,
        stuck_after_s: float,
        without_partitions: str = "no partitions: more replicas than partitions",
    ) -> None:
        """Begin not ready.

        ``stuck_after_s``: longest duration of one turn of the loop.  ``without_partitions``: why a
        process that is ready has none.
        """
        self._service = service
        self._without_partitions = without_partitions
        self._stuck_after_s = stuck_after_s
        self._turned_s = time.monotonic()
        self._waits: tuple[str, ...] = ("starting",)
        self._partitions: tuple[str, ...] = ()

    def turned(self) -> None:
        """Note that the loop is not stuck."""
        self._turned_s = time.monotonic()

    def waiting(self, *reasons: str) -> None:
        """Note why the process does not work now; no reasons if it does."""
        self._waits = reasons
        self.turned()

    def owns(self, partitions: Sequence[object]) -> None:
        """Note the partitions of this process."""
        self._partitions = tuple(map(str, partitions))

    def live(self) -> Answer:
        """Return whether the loop turns, and the JSON that says why not."""
        quiet_s = time.monotonic() - self._turned_s
        reasons = []
        if not threading.main_thread().is_alive():
            reasons.append("the loop has ended")
        elif quiet_s > self._stuck_after_s:
            reasons.append(f"the loop has been stuck for {quiet_s:.0f} s")
        return not reasons, {"service": self._service, "live": not reasons, "reasons": reasons}

    def ready(self) -> Answer:
        """Return whether the process can work on its partitions, and the JSON with reasons."""
        live, body = self.live()
        reasons = [*body["reasons"], *self._waits]
        ready = live and not self._waits
        if ready and not self._partitions:
            reasons.append(self._without_partitions)
        return ready, {
            "service": self._service,
            "ready": ready,
            "reasons": reasons,
            "partitions": list(self._partitions),
        }


def serve(config: Config, health: Health, metrics: Metrics) -> None:
    """Serve at the configured port until the process ends; do nothing without a port.

    Raises:
        ConfigurationError: the port cannot be opened.
    """
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
            f"TIDEMARK_HTTP_PORT={config.http_port}: {config.http_host}: {error.strerror}; "
            "choose another port, or correct TIDEMARK_HTTP_HOST"
        ) from None
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()


class _Page(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


class _Server(ThreadingHTTPServer):
    """Logs no closed connections: probes that read only the status close early."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _as_json(answer: Answer) -> _Page:
    good, body = answer
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return _Page(status, "application/json", json.dumps(body).encode() + b"\n")


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
            """Log no requests."""

    return Handler
