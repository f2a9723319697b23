"""A broker that answers, and knows no broker: as a lone one does while it starts."""

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import pytest

from tests.patience import PATIENCE_S

_API_VERSIONS, _METADATA = 18, 3
_NEWEST_METADATA = 2
_UNSUPPORTED_VERSION = 35

# A process of its own: what is tested once aborted it.
_PROBING = """
import sys, time
from confluent_kafka import KafkaException
from tidemark.runtime.client import clients
from tidemark.runtime.client.broker_probe import BrokerProbe
from tidemark.runtime.config import Config

admin = clients.admin(Config(bootstrap_servers=sys.argv[1]))
assert admin.list_topics("", timeout=60).brokers
print("met the broker", flush=True)
sys.stdin.readline()
probe = BrokerProbe(admin, 0.0)
deadline_s = time.monotonic() + 60
asked_s = 2.0
while (reason := probe.poll(asked_s)) is None and time.monotonic() < deadline_s:
    asked_s += 2.0
    time.sleep(0.5)
print(reason)
"""


class _StartingBroker:
    """Speaks just enough of Kafka: its answers name it until ``names_itself`` is false."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self.names_itself = True
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # A client that ends with answers unread resets the connection.
        with suppress(ConnectionError), connection, connection.makefile("rb") as requests:
            while size := requests.read(4):
                api, version, number = struct.unpack(">hhi", _request(requests, size)[:8])
                answer = struct.pack(">i", number)
                answer += _versions(version) if api == _API_VERSIONS else self._metadata()
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _metadata(self) -> bytes:
        node, cluster, no_topics = b"", _text(b"cluster"), struct.pack(">i", 0)
        if self.names_itself:
            node = struct.pack(">i", 1) + _text(b"127.0.0.1") + struct.pack(">ih", self._port, -1)
        controller = struct.pack(">i", 1 if node else -1)
        return struct.pack(">i", int(bool(node))) + node + cluster + controller + no_topics


def _request(requests: BinaryIO, size: bytes) -> bytes:
    return requests.read(struct.unpack(">i", size)[0])


def _versions(version: int) -> bytes:
    own = struct.pack(">hhh", _API_VERSIONS, 0, 0)
    if version > 0:
        return struct.pack(">hi", _UNSUPPORTED_VERSION, 1) + own
    return struct.pack(">hi", 0, 2) + own + struct.pack(">hhh", _METADATA, 0, _NEWEST_METADATA)


def _text(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


@pytest.fixture
def starting() -> Iterator[_StartingBroker]:
    broker = _StartingBroker()
    yield broker
    broker.close()


def test_a_broker_that_lists_no_broker_does_not_end_the_process(starting):  # B8
    probing = [sys.executable, "-c", _PROBING, starting.address]
    pipe = subprocess.PIPE
    with subprocess.Popen(probing, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "met the broker\n"
        starting.names_itself = False
        reason, trouble = process.communicate("\n", timeout=PATIENCE_S)
    assert process.returncode == 0, trouble
    assert reason.startswith("no broker has answered for")
