"""A commit that waits is named in log and health, and ends where waiting leads nowhere."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.runtime.client.broker_probe import BrokerProbe
from tidemark.runtime.service import commit_wait
from tidemark.runtime.service.commit_wait import CommitStuckError, CommitWait
from tidemark.runtime.service.health import Health


class Probe:
    """Whether brokers answer."""

    gone: str | None = None

    def poll(self, _now_s: float) -> str | None:
        return self.gone


class Waiting:
    """A wait that goes on by steps of five seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.probe, self.health = 100.0, Probe(), Health("s", 60)
        monkeypatch.setattr(commit_wait, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        self.wait = CommitWait("p.s", self.health, self.probe, 30_000)  # type: ignore[arg-type]

    def steps(self, count: int, step_s: float = 5.0) -> None:
        for _ in range(count):
            self.wait.waits("timed out")
            self.now_s += step_s


@pytest.fixture
def waiting(monkeypatch):
    return Waiting(monkeypatch)


def test_a_wait_is_named_in_health_at_once_and_in_the_log_after_five_seconds(waiting, caplog):  # B8
    waiting.steps(1)
    assert waiting.health.ready()[1]["reasons"] == ["a commit waits: timed out"]
    assert caplog.messages == []
    waiting.steps(4)
    assert caplog.messages == [
        "p.s: a commit waits: timed out (5 s so far)",
        "p.s: a commit waits: timed out (15 s so far)",
    ]


def test_a_wait_ends_a_while_after_the_transaction_could_succeed(waiting):
    waiting.steps(13)
    with pytest.raises(CommitStuckError, match="for 65 s though brokers answer: timed out"):
        waiting.steps(1)


def test_the_time_without_brokers_does_not_count(waiting):
    waiting.probe.gone = "no broker has answered for 11 s"
    waiting.steps(100)
    assert waiting.health.ready()[1]["reasons"] == [
        "a commit waits: no broker has answered for 11 s"
    ]
    waiting.probe.gone = None
    waiting.steps(12)
    with pytest.raises(CommitStuckError):
        waiting.steps(2)


class Admin:
    """A client of a broker that answers, or not, at once."""

    is_up = True

    def list_topics(self, _topic: str, timeout: float) -> None:
        assert timeout > 0
        if not self.is_up:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_a_call_that_takes_as_long_as_brokers_may_be_silent_hides_no_stuck_commit(monkeypatch):
    """The broker answers each question, but the wait can ask only every ten seconds."""
    waiting, admin = Waiting(monkeypatch), Admin()
    probe = BrokerProbe(admin, waiting.now_s)  # type: ignore[arg-type]
    waiting.wait = CommitWait("p.s", waiting.health, probe, 30_000)
    polled = probe.poll

    def poll(now_s: float) -> str | None:
        """Look only when the question before is answered, as ten seconds later it is."""
        if probe._asked is not None:
            probe._asked.exception()
        return polled(now_s)

    monkeypatch.setattr(probe, "poll", poll)
    admin.is_up = False
    waiting.steps(20, step_s=10.1)
    admin.is_up = True
    waiting.steps(5, step_s=10.1)
    with pytest.raises(CommitStuckError):
        waiting.steps(3, step_s=10.1)


def test_the_end_of_a_wait_is_logged_if_the_wait_was(waiting, caplog):
    caplog.set_level("INFO")
    waiting.steps(1)
    waiting.wait.over()
    assert caplog.messages == []
    waiting.steps(2)
    waiting.wait.over()
    assert caplog.messages[-1] == "p.s goes on: a commit has ended after 10 s"
    waiting.wait.over()
    assert len(caplog.messages) == 2
