"""A reset waits for the members of killed services, and for the coordinator of a group."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.client import offline_group
from tidemark.runtime.client.offline_group import await_empty, committed_offsets
from tidemark.runtime.config import Config


@pytest.fixture
def members(monkeypatch):
    """The answers of the broker, one by one; the last one stays."""
    answers = [["game.windowing.0 at /10.0.0.7"], []]

    def ask(_admin, _group):
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr(offline_group, "_members", ask)
    monkeypatch.setattr(offline_group, "_PAUSE_S", 0.0)
    return answers


def test_it_says_at_once_which_service_to_stop(members, caplog):  # B11
    await_empty(Config(), None, ["game.windowing"])  # type: ignore[arg-type]
    (line,) = caplog.messages
    assert line == (
        "waiting until group game.windowing has no members, at most 13 s: stop service windowing; "
        "members: game.windowing.0 at /10.0.0.7"
    )


def test_a_group_that_keeps_its_members_is_an_error(members, monkeypatch):
    del members[1]
    monkeypatch.setattr(offline_group, "session_timeout_ms", lambda _config: -3_000)
    with pytest.raises(ConfigurationError, match=r"has members: game\.windowing\.0 at"):
        await_empty(Config(), None, ["game.windowing"])  # type: ignore[arg-type]


def test_an_empty_group_is_not_waited_for(members, caplog):
    del members[0]
    await_empty(Config(), None, ["game.windowing"])  # type: ignore[arg-type]
    assert caplog.messages == []


class Reader:
    """A consumer that raises errors first, and then answers."""

    def __init__(self, errors, answer):
        self.errors, self.answer, self.is_closed = list(errors), answer, False

    def committed(self, asked, timeout):
        assert (asked, timeout) == ([TopicPartition("t", 3)], 60.0)
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return self.answer

    def close(self):
        self.is_closed = True


def asked(monkeypatch, errors):
    reader = Reader(errors, [TopicPartition("t", 3, 7)])
    clients = SimpleNamespace(plain_consumer=lambda _config, _group: reader)
    monkeypatch.setattr(offline_group, "clients", clients)
    monkeypatch.setattr(offline_group, "_PAUSE_S", 0.0)
    try:
        return committed_offsets(Config(), "game.ingest", [Partition("t", 3)], 60.0)
    finally:
        assert reader.is_closed


def test_committed_offsets_are_asked_for_again_while_the_coordinator_changes(monkeypatch):
    changes = [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    (found,) = asked(monkeypatch, changes)
    assert found.offset == 7


@pytest.mark.parametrize(
    "error", [KafkaError._TIMED_OUT, KafkaError.GROUP_AUTHORIZATION_FAILED], ids=["time", "right"]
)
def test_other_errors_of_committed_offsets_end_the_question(monkeypatch, error):
    with pytest.raises(KafkaException) as raised:
        asked(monkeypatch, [error])
    assert raised.value.args[0].code() == error
