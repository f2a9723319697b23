"""Raw JSON to exactly-once results through Kafka, restarted and killed."""

import json
import random
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.kafka.pipelines.pops import build
from tests.kafka.support.pops_oracle import END, T, expected_results
from tests.kafka.support.stack import Stack, duplicates, last_panes, move, wait_until
from tests.patience import PATIENCE_S
from tidemark.local.run import LocalRun
from tidemark.partition import Partition
from tidemark.plan.topics import own_topics, raw_topics
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.consumer import Member, Start
from tidemark.runtime.client.transaction import Transaction
from tidemark.runtime.config import Config

HOSTILE = [
    b"not json",
    b"\xff\xfe",
    b'\xef\xbb\xbf{"player":"bom","at":%d,"score":3}' % (T + 1_000),
    b'{"player":"crlf","at":%d,"score":3}\r\n' % (T + 1_500),
    b"",
    b"   ",
    None,
    b'["array"]',
    b'{"player":"two","at":%d}{"player":"two"}' % T,
    b'{"player":"line\\nbreak","at":%d,\n"score":4}' % (T + 1_600),
    b'{"player":"nan","at":%d,"score":NaN}' % T,
    b'{"player":"wide","at":%d,"score":99999999999999999999}' % T,
    b'{"player":"typed","at":%d,"score":"high"}' % T,
    b'{"player":"timeless","score":1}',
    b'{"player":"nulltime","at":null,"score":1}',
    b"[" * 10_000,
    b'{"player":"big","at":%d,"score":1,"pad":"%s"}' % (T + 1_700, b"x" * 900_000),
    b'{"at":%d,"score":1}' % (T + 1_800),  # no key anywhere
]
"""Blank are 3, without a fault 4: bom, crlf, line break, big."""


def test_hostile_json_becomes_panes_sessions_late_rows_and_dead_letters(broker):
    values = [*HOSTILE, *(move(f"p{n % 5}", T + n * 100, n) for n in range(300))]
    values += [move("p1", T + 5, 100), move("p1", T + 30_000, kind="miss"), move("end", END)]
    with Stack(broker, "hostile") as stack:
        stack.produce([(0, None, value) for value in values])
        stack.produce([(0, b"keyed", b'{"at":%d,"score":9}' % (END + 1_000))])
        stack.move("end", END + 60_000)
        stack.start()
        stack.await_results("pops", lambda panes: any(p["player"] == "keyed" for p in panes))
        stack.await_results("sessions", lambda panes: any(p["player"] == "keyed" for p in panes))
        assert set(stack.stop().values()) == {0}
        pops, sessions = stack.results("pops"), stack.results("sessions")
        late, dead = stack.results("pops.late"), stack.results("dead-letters")
        ingest, windowing = stack.figures("ingest"), stack.figures("windowing")

    local = LocalRun(build("hostile").plan())
    list(local.run({"hostile-moves": [value or b"" for value in values]}))
    expected = local.published["pops"].last("panes").to_dicts()
    assert last_panes(pops, "score") == {
        **{(p["player"], p["start"]): p["score"] for p in expected},
        ("keyed", END // 10_000 * 10_000): 9,
    }
    expected = local.published["sessions"].last("panes").to_dicts()
    assert {key for key, _ in last_panes(sessions, "moves")} >= {p["player"] for p in expected}
    assert [(row["row"]["player"], row["row"]["score"]) for row in late] == [("p1", 100)]
    assert Counter(row["offset"] for row in dead) == Counter(
        letter.offset for letter in local.dead_letters
    )
    assert all(row["reason"] and row["topic"] == "hostile-moves" for row in dead)
    counted = {name: int(ingest[name]) for name in ("passed", "filtered", "dead", "blank")}
    assert counted == {"passed": 308, "filtered": 1, "dead": 11, "blank": 3}
    assert int(ingest["records"]) == sum(counted.values()) == len(values) + 2
    assert int(windowing["rows"]) == int(windowing["accepted"]) + int(windowing["late"]) == 308


@pytest.mark.long
def test_a_restart_goes_on_where_it_stopped_and_publishes_nothing_twice(broker):
    """The raw offset loses its metadata meanwhile, and what was late stays late."""
    with Stack(broker, "restarted") as stack:
        stack.start()
        for at in (*range(0, 10_000, 1_000), *range(20_000, 30_000, 1_000)):
            stack.move("a", T + at)
        for name in ("pops", "sessions"):
            stack.await_results(name, lambda panes: len(panes) == 1)
        wait_until(lambda: _rows(stack) == ["20", "20"], "the last row in both services")
        assert set(stack.stop().values()) == {0}
        before = _everything(stack)
        _drop_metadata(stack)
        stack.start()
        stack.await_partitions()
        time.sleep(2)
        assert _everything(stack) == before

        stack.move("a", T + 1_000, score=100)
        stack.await_results("pops.late", lambda rows: len(rows) == 1)
        stack.move("end", END)
        stack.await_results("pops", lambda panes: sum(p["pops"] for p in panes) == 20)
        assert [row["own_watermark_ms"] for row in stack.results("pops.late")] == [T + 27_000]


def _rows(stack: Stack) -> list[str | None]:
    return [stack.figures(service).get("rows") for service in ("windowing", "sessions")]


def _everything(stack: Stack) -> dict[str, int]:
    own = [topic.name for topic in own_topics(stack.plan)]
    return {name: len(stack.committed(name)) for name in own}


def _drop_metadata(stack: Stack) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": stack.config.bootstrap_servers,
            "group.id": f"{stack.name}.ingest",
        }
    )
    (committed,) = consumer.committed([TopicPartition(stack.raw, 0)], timeout=PATIENCE_S)
    assert committed.metadata
    consumer.commit(offsets=[TopicPartition(stack.raw, 0, committed.offset)], asynchronous=False)
    consumer.close()


def test_killing_every_service_in_mid_run_changes_nothing(broker):
    draw = random.Random(7)
    records = [
        (n % 2, f"p{draw.randrange(40)}", T + n * 5 - draw.choice((0, 0, 0, 900, 4_000, 20_000)))
        for n in range(20_000)
    ]
    records += [(partition, "end", END) for partition in (0, 1)]
    with Stack(broker, "killed", raw_partitions=2, TIDEMARK_SNAPSHOT_COMMITS="3") as stack:
        stack.start()
        for begin in range(0, len(records), 1_000):
            stack.produce((p, None, move(k, at)) for p, k, at in records[begin : begin + 1_000])
            if begin == 8_000:
                wait_until(lambda: len(stack.results("pops")) > 100, "the first panes")
                stack.kill()
                stack.start()
        windows, sessions, late = expected_results(records)
        stack.await_results("pops.late", lambda rows: len(rows) == len(late["pops"]))
        stack.await_results("pops", lambda panes: last_panes(panes, "pops") == windows)
        stack.await_results("sessions", lambda panes: last_panes(panes, "moves") == sessions)
        assert set(stack.stop().values()) == {0}
        for name in ("pops", "sessions"):
            rows = stack.results(f"{name}.late")
            assert sorted((r["partition"], r["offset"]) for r in rows) == sorted(late[name])
            assert duplicates(stack.results(name)) == []


def test_silent_sources_close_windows_also_after_a_restart_with_nothing_to_read(broker):
    """One of two raw partitions never has a record, the other one a single record."""
    with Stack(broker, "silent", raw_partitions=2, TEST_IDLE_AFTER="1s") as stack:
        stack.move("a", T + 9_999)
        stack.start("ingest")
        wait_until(lambda: bool(stack.committed("silent.by-player.log")), "the segment")
        assert stack.stop() == {"ingest": 0}
        stack.start()
        stack.await_results("pops", lambda panes: len(panes) == 1)
        (pane,) = stack.results("pops")
    assert (pane["pops"], pane["timing"]) == (1, "on_time")


def test_a_raw_topic_made_anew_stops_ingest_with_advice(broker):
    with Stack(broker, "anew") as stack:
        stack.start("ingest")
        stack.move("a", T)
        wait_until(lambda: bool(stack.committed("anew.by-player.log")), "the segment")
        assert stack.stop() == {"ingest": 0}
        stack.admin.delete_topics([stack.raw])[stack.raw].result()
        wait_until(lambda: stack.raw not in topics.partition_counts(stack.admin), "deletion")
        topics.ensure(stack.admin, raw_topics(stack.plan), -1)
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        (line,) = [line for line in stack.log("ingest").splitlines() if "ERROR" in line]
        assert "anew-moves/0: nothing is committed, but the log has records of anew-moves/0" in line
        assert "tidemark reset" in line


class _Idle:
    """An owner that does nothing by itself; ``starts`` are those it was given."""

    def __init__(self) -> None:
        self.starts: list[Start] = []

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        return starts

    def settle(self) -> None: ...

    def assigned(self, starts: Sequence[Start]) -> None:
        self.starts += starts

    def dropped(self, partitions: Sequence[Partition]) -> None: ...

    def waiting(self, reason: str) -> None: ...


@pytest.mark.long
def test_a_zombie_that_only_its_timers_wake_is_fenced(broker):
    """It left the group unnoticed, has read nothing since, and sends its last offset again."""
    with Stack(broker, "zombie") as stack:
        settings = {"session.timeout.ms": "6000", "max.poll.interval.ms": "6000"}
        config = Config(bootstrap_servers=broker, client_properties=settings)
        consumer = clients.group_consumer(config, "zombie.ingest", "old")
        member = Member(consumer, stack.admin, _Idle())
        transaction = Transaction(
            clients.transactional_producer(config, "zombie.ingest.old"),
            lambda _reason: None,
            30_000,
        )
        stack.move("a", T)
        member.join([stack.raw])
        wait_until(lambda: bool(member.consume(1, 0.5)), "the record")
        offset = TopicPartition(stack.raw, 0, member.positions[Partition(stack.raw, 0)])
        transaction.commit([offset], consumer)

        time.sleep(7)
        transaction.write("zombie.dead-letters", 0, [None], [json.dumps({"too": "late"}).encode()])
        with pytest.raises(KafkaException, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            transaction.commit([offset], consumer)
        transaction.abort()
        assert stack.committed("zombie.dead-letters") == []


def test_a_member_that_leaves_takes_no_partitions_on_the_way_out(broker):
    """The client hands them over inside its close, where it answers no questions any more."""
    with Stack(broker, "leaving") as stack:
        consumer, owner = clients.group_consumer(stack.config, "leaving.ingest", "leaving"), _Idle()
        member = Member(consumer, stack.admin, owner)
        member.join([stack.raw])
        wait_until(lambda: _assigned(stack, "leaving.ingest"), "the assignment, not yet taken")
        member.leave()
        assert owner.starts == []


def _assigned(stack: Stack, group: str) -> bool:
    (described,) = stack.admin.describe_consumer_groups([group], request_timeout=2).values()
    try:
        members = described.result().members
    except KafkaException:
        return False  # a fresh cluster does not know of its groups yet
    return any(member.assignment.topic_partitions for member in members)
