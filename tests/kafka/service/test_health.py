"""What a service answers at /health/live and /health/ready while it starts, works, and is stuck."""

import json
import socket
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.kafka.pipelines import sleepy
from tests.kafka.support.stack import Stack, wait_until
from tests.kafka.support.transactions import open_transaction
from tidemark.embedded.broker import Broker, free_port

T = 1_772_438_400_000


@pytest.fixture
def port() -> int:
    return free_port()


def ask(port: int, what: str) -> tuple[int, dict[str, Any]]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health/{what}", timeout=5) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, {"reasons": []}


def await_reason(port: int, what: str, reason: str) -> None:
    wait_until(lambda: reason in " ".join(ask(port, what)[1]["reasons"]), reason)


def test_a_service_is_ready_once_it_has_its_state(broker, port):
    with Stack(broker, "healthy", TIDEMARK_HTTP_PORT=str(port)) as stack:
        stack.start("ingest", TIDEMARK_HTTP_PORT=str(free_port()))
        stack.move("a", T)
        stack.start("windowing")
        wait_until(lambda: ask(port, "ready")[0] == 200, "readiness")
        wait_until(lambda: stack.figures("windowing").get("rows") == "1", "the row")
        _, told = ask(port, "ready")
        assert told == {
            "service": "healthy.windowing",
            "ready": True,
            "reasons": [],
            "partitions": ["healthy.by-player.log/0", "healthy.by-player.log/1"],
        }
        assert ask(port, "live") == (
            200,
            {"service": "healthy.windowing", "live": True, "reasons": []},
        )

        assert stack.stop("windowing") == {"windowing": 0}
        producer = open_transaction(stack)
        stack.start("windowing")
        await_reason(port, "ready", "restoring healthy.pops.changelog/0")
        assert ask(port, "ready")[0] == 503
        assert ask(port, "live")[0] == 200
        producer.abort_transaction(10)
        wait_until(lambda: ask(port, "ready")[0] == 200, "readiness")


def test_a_replica_without_partitions_stands_by(broker, port):
    with Stack(broker, "stands-by") as stack:
        stack.start("ingest")
        stack.await_partitions()
        stack.start("ingest", slot="1", TIDEMARK_HTTP_PORT=str(port))
        await_reason(port, "ready", "no partitions: more replicas than partitions")
        assert ask(port, "ready")[0] == 200


@pytest.mark.long
def test_a_service_without_a_broker_is_live_and_not_ready(tmp_path, port):
    with Broker(tmp_path) as broker, Stack(broker.address, "away") as stack:
        patient = {"KAFKA_SESSION_TIMEOUT_MS": "45000"}
        stack.start("ingest", TIDEMARK_HTTP_PORT=str(port), **patient)
        wait_until(lambda: ask(port, "ready")[0] == 200, "readiness")
        broker.stop()
        await_reason(port, "ready", "no broker has answered for")
        assert ask(port, "live")[0] == 200

        stack.kill()
        stack.start("ingest", TIDEMARK_HTTP_PORT=str(port))
        await_reason(port, "ready", f"waiting for a broker at {broker.address}")
        assert (ask(port, "ready")[0], ask(port, "live")[0]) == (503, 200)


def test_a_stuck_loop_is_not_live(broker, port):
    with Stack(broker, "stuck", module=sleepy, TIDEMARK_STUCK_AFTER_MS="2000") as stack:
        stack.start("ingest", TIDEMARK_HTTP_PORT=str(port))
        wait_until(lambda: ask(port, "ready")[0] == 200, "readiness")
        stack.move("a", T)
        await_reason(port, "live", "the loop has been stuck for")
        assert ask(port, "live")[0] == 503


def test_a_taken_port_stops_the_service_with_its_name(broker, port):
    with socket.create_server(("127.0.0.1", port)), Stack(broker, "taken") as stack:
        stack.start("ingest", TIDEMARK_HTTP_PORT=str(port))
        assert stack.process("ingest").wait() == 2
        assert f"TIDEMARK_HTTP_PORT={port}: 127.0.0.1: Address already in use" in stack.log(
            "ingest"
        )
