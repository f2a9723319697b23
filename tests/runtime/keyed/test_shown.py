"""The lines about operators that have stopped."""

import logging
from types import SimpleNamespace
from typing import Any

from tidemark.errors import StateError
from tidemark.runtime.keyed.shown import trouble_lines
from tidemark.runtime.service.trouble_log import TroubleLog


def log(**troubles: str) -> Any:
    """Return a log partition in which operators have trouble."""
    operators = [
        SimpleNamespace(plan=SimpleNamespace(name=name), trouble=StateError(text))
        for name, text in troubles.items()
    ]
    return SimpleNamespace(troubles=operators)


def test_each_operator_has_a_line():
    lines = trouble_lines([log(a="gone/0", b="other"), log(), log(a="gone/2")])
    assert lines == [
        "operator a has stopped on 2 log partitions: gone/0",
        "operator b has stopped: other",
    ]


def test_lines_are_logged_when_they_change_and_each_minute(caplog):
    troubles = TroubleLog()
    with caplog.at_level(logging.ERROR, "tidemark"):
        for now_s in (100.0, 101.0, 159.0, 161.0):
            troubles.report(["a has stopped"], now_s)
        troubles.report(["a has stopped", "b has stopped"], 162.0)
        troubles.report([], 163.0)
    assert caplog.messages == ["a has stopped"] * 2 + ["a has stopped", "b has stopped"]
