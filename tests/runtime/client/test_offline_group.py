"""A reset waits for the members of killed services, and says for what it waits."""

import pytest

from tidemark.errors import ConfigurationError
from tidemark.runtime.client import offline_group
from tidemark.runtime.client.offline_group import await_empty
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
