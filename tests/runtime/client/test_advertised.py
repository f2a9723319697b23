"""A broker that advertises an address that nobody reaches is named, even if it falls silent."""

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.errors import ConfigurationError
from tidemark.runtime.client import broker_probe
from tidemark.runtime.client.listener import Listener
from tidemark.runtime.config import Config

CONFIG = Config(bootstrap_servers="broker:9092")


class Admin:
    """Answers as listed, one by one: an address, or None for no answer; the last one stays."""

    def __init__(self, *answers: tuple[str, int] | None) -> None:
        self._answers = list(answers)

    def list_topics(self, _topic: str, timeout: float) -> Any:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        host, port = answer
        return SimpleNamespace(brokers={1: SimpleNamespace(host=host, port=port)})


@pytest.fixture
def check(monkeypatch) -> Callable[..., list[str]]:
    now_s = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: now_s[0], sleep=lambda s: now_s.__setitem__(0, now_s[0] + s)
    )
    monkeypatch.setattr(broker_probe, "time", clock)
    reasons: list[str] = []

    def run(admin: Admin, listener: Listener = Listener.OTHER) -> list[str]:
        monkeypatch.setattr(broker_probe, "listener_at", lambda _: listener)
        broker_probe._check_advertised(CONFIG, admin, reasons.append)  # type: ignore[arg-type]
        return reasons

    return run


NOBODY = ("127.0.0.1", 1)


def test_the_reason_once_known_is_the_reason_given(check):  # B10
    with pytest.raises(ConfigurationError, match=r"advertises 127\.0\.0\.1:1 \(Connection refused"):
        check(Admin(NOBODY, None))


def test_a_broker_that_answers_late_is_waited_for(check):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = ("127.0.0.1", server.getsockname()[1])
        assert set(check(Admin(None, None, None, NOBODY, address))) == {
            "waiting for a broker at broker:9092: no answer",
            "the broker at broker:9092 answers, but advertises 127.0.0.1:1 (Connection refused): "
            "set its advertised.listeners to an address that this machine reaches",
        }


def test_a_broker_that_stops_after_its_answer_is_waited_for(check):
    """It is away for longer than a wrong address is allowed for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = ("127.0.0.1", server.getsockname()[1])
        reasons = check(Admin(NOBODY, *[None] * 40, address), Listener.CLOSED)
    assert len(reasons) == 41
    assert set(reasons) == {"waiting for a broker at broker:9092: no answer"}
