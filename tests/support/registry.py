"""A small fake of a schema registry's REST interface, for one test at a time."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """Numbers schemas from 7 on, and refuses the subjects it was told to."""

    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.subjects: list[str] = []
        self.users: set[str | None] = set()
        self.refuses: tuple[int, str] | None = None
        self.references: dict[int, list[dict[str, Any]]] = {}
        self.fails: list[int] = []  # the status of each of the next requests for a schema
        self.asked: list[int] = []
        self.url = ""

    def register(self, subject: str, schema: str) -> tuple[int, dict[str, Any]]:
        if self.refuses is not None:
            code, why = self.refuses
            return code, {"error_code": code, "message": why}
        if schema not in self.schemas:
            self.schemas.append(schema)
        self.subjects.append(subject)
        return 200, {"id": 7 + self.schemas.index(schema)}

    def add(self, schema: Any, *references: int) -> int:
        """Register a schema without a subject; return its id."""
        self.schemas.append(json.dumps(schema))
        number = 6 + len(self.schemas)
        self.references[number] = [
            {"name": f"of {each}", "subject": f"schema-{each}", "version": 1} for each in references
        ]
        return number

    def schema(self, number: int) -> tuple[int, dict[str, Any]]:
        self.asked.append(number)
        if self.fails:
            code = self.fails.pop(0)
            return code, {"error_code": code, "message": f"fails with {code}"}
        if not 7 <= number < 7 + len(self.schemas):
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        return 200, {
            "schema": self.schemas[number - 7],
            "schemaType": "AVRO",
            "references": self.references.get(number, []),
        }


@contextmanager
def running_registry() -> Iterator[Registry]:
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            registry.users.add(self.headers.get("Authorization"))
            subject = self.path.partition("?")[0].split("/")[2]
            self._answer(*registry.register(subject, body["schema"]))

        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].split("/")
            if parts[1:3] == ["schemas", "ids"]:
                self._answer(*registry.schema(int(parts[3])))
            elif parts[1] == "subjects":
                number = int(parts[2].removeprefix("schema-"))
                code, told = registry.schema(number)
                self._answer(code, {"subject": parts[2], "version": 1, "id": number, **told})
            else:
                self._answer(404, {"error_code": 404, "message": "not here"})

        def _answer(self, code: int, told: dict[str, Any]) -> None:
            body = json.dumps(told).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
