"""Hostile records through the service; `make fuzz` sends a million."""

from tests.fuzz.oddities import NO_OBJECT
from tests.fuzz.on_kafka import LARGEST_BYTES, OnKafka
from tests.kafka.support.stack import Stack, wait_until

T = 1_700_000_000_000


def test_hostile_records_through_the_service_are_all_accounted_for(broker):
    outcome = OnKafka(broker, "fuzz", seed=1).run(4_400, max_bytes=2**20)

    assert outcome.faults == []
    assert outcome.records == 4_400


def test_records_as_large_as_the_topic_takes_stop_nothing(broker):
    """Large beside the columns, in a column, and as no object at all."""
    room = LARGEST_BYTES - 100
    values = [
        b'{"player":"a","at":%d,"other":"%s"}' % (T, b"z" * room),
        b'{"player":"%s","at":%d}' % (b"z" * room, T),
        b"[" * room,
        *NO_OBJECT,
        b'{"player":"end","at":%d}' % (T + 3_600_000),
    ]
    with Stack(broker, "large") as stack:
        stack.produce([(0, None, value) for value in values])
        stack.start()
        stack.await_results("pops", lambda panes: [pane["player"] for pane in panes] == ["a"])
        letters = stack.results("dead-letters")
        wait_until(lambda: stack.figures("ingest").get("lag") == "0", "the end of the topic")
        assert set(stack.stop().values()) == {0}
    assert [letter["offset"] for letter in letters] == list(range(1, len(values) - 1))
    assert [letter["stage"] for letter in letters[:2]] == ["log", "parse"]
    assert all(letter["topic"] == "large-moves" for letter in letters)
