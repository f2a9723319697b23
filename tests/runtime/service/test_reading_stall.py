"""A process that reads nothing names what it waits for."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import IsolationLevel

from tidemark.partition import Partition
from tidemark.runtime.service import reading_stall
from tidemark.runtime.service.reading_stall import ReadingStall

A, B = Partition("raw", 0), Partition("raw", 1)


class Brokers:
    """The ends of partitions A and B, committed and written; None: no answer."""

    def __init__(self) -> None:
        self.committed: dict[Partition, int] | None = {A: 5, B: 7}
        self.written = {A: 5, B: 7}
        self.questions = 0

    def ask(self, _admin: Any, _partitions: Any, _which: Any, isolation: Any) -> Any:
        self.questions += 1
        ends = self.committed if isolation is IsolationLevel.READ_COMMITTED else self.written
        return {at: self._future(ends, at) for at in (A, B)}

    def _future(self, ends: dict[Partition, int] | None, at: Partition) -> "Future[Any]":
        future: Future[Any] = Future()
        if ends is None:
            future.set_exception(ValueError("no answer"))
        else:
            future.set_result(type("End", (), {"offset": ends[at]}))
        return future


@pytest.fixture
def brokers(monkeypatch) -> Brokers:
    brokers = Brokers()
    monkeypatch.setattr(reading_stall, "ask_offsets", brokers.ask)
    return brokers


def reasons(seconds: range, stall: ReadingStall | None = None) -> list[str | None]:
    """Poll once a second, with position 5 in both partitions."""
    stall = stall or ReadingStall(None, "p.s", 0.0)  # type: ignore[arg-type]
    return [stall.poll(float(s), {A: 5, B: 5}) for s in seconds]


def test_records_that_no_broker_sends_are_named(brokers, caplog):  # B8
    said = reasons(range(60))
    assert said[:16] == [None] * 16
    assert said[16] == "no broker has sent a record for 16 s, though there are some in raw/1"
    assert [line.split(",")[0] for line in caplog.messages] == [
        "p.s: no broker has sent a record for 16 s",
        "p.s: no broker has sent a record for 46 s",
    ]


def test_an_open_transaction_is_named(brokers):
    brokers.committed = {A: 5, B: 5}
    assert reasons(range(20))[-1] == "waiting for an open transaction of a writer of raw/1"


def test_nothing_to_read_is_no_reason(brokers, caplog):
    brokers.committed = brokers.written = {A: 5, B: 5}
    assert set(reasons(range(60))) == {None}
    assert caplog.messages == []
    assert brokers.questions == 2 * 9


def test_brokers_that_do_not_answer_are_no_reason_here(brokers):
    brokers.committed = None
    assert set(reasons(range(60))) == {None}


def test_records_that_come_end_the_reason(brokers, caplog):
    caplog.set_level("INFO")
    stall = ReadingStall(None, "p.s", 0.0)  # type: ignore[arg-type]
    assert reasons(range(20), stall)[-1] is not None
    stall.read(20.0)
    assert reasons(range(21, 30), stall) == [None] * 9
    assert caplog.messages[-1] == "p.s reads again"
