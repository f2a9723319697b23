"""How long a broker is away, on one that only notes what is done to it."""

import time

import pytest

from tests.chaos.outages import Outages


class Noted:
    """A broker that starts and stops in no time."""

    def __init__(self) -> None:
        self.pid: int | None = 1
        self.calls: list[str] = []

    def stop(self) -> None:
        self.pid = None
        self.calls.append("stop")

    def start(self) -> None:
        self.pid = 1
        self.calls.append("start")


@pytest.fixture
def noted(monkeypatch):
    broker = Noted()
    monkeypatch.setattr("os.kill", lambda pid, number: broker.calls.append(number.name))
    return broker


def outages(broker: Noted) -> Outages:
    return Outages(broker, None, None, broker.calls.append)  # type: ignore[arg-type]


def test_a_broker_is_away_for_as_long_as_the_schedule_says(noted):
    away = outages(noted)
    assert away.begin("broker stop", 5.0)
    begun_s = time.monotonic()
    away.tick(begun_s + 4.5)
    assert noted.calls == ["stop"]
    assert away.lasts
    away.tick(begun_s + 5.0)
    assert noted.calls == ["stop", "start", "SIGCONT", "the broker is back"]
    assert not away.lasts


def test_a_broker_that_is_away_cannot_be_hurt(noted):
    away = outages(noted)
    assert away.begin("broker freeze", 60.0)
    assert not away.begin("broker stop", 1.0)
    assert noted.calls == ["SIGSTOP"]
