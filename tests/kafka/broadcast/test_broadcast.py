"""Broadcast tables on Kafka: each partition has each rule once, whatever is killed."""

from collections import Counter

from tests.kafka.broadcast.plant import (
    LATE_RULE,
    READINGS_END,
    RULES_END,
    SPLIT,
    in_process,
    on_kafka,
    produced,
    read_values,
    rule_values,
)
from tests.kafka.pipelines.chains import ruled
from tests.kafka.support.chains import in_parts
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.rows.copies import COPY
from tidemark.core.time.segment import OFFSET, SOURCE
from tidemark.serde.segments import decode_segment

RAW = {"ruled-readings": SPLIT, "ruled-rules": SPLIT}


def test_rules_reach_all_partitions_once_and_late_ones_are_reported_once(broker):
    """Two processes of ingest own the raw partitions; services are killed in the middle."""
    readings, rules = read_values(seed=1), rule_values(seed=2)
    with Stack(broker, "ruled", RAW, ruled) as stack:
        produced(stack, "rules", rules[:20])
        stack.start()
        stack.start("ingest", "joins", slot="1")
        stack.await_partitions()
        parts = in_parts(readings, 4)
        produced(stack, "readings", next(parts))
        for victim, values in (("ingest", rules[20:30]), ("joins", rules[30:])):
            produced(stack, "rules", values)
            produced(stack, "readings", next(parts))
            stack.kill(victim, slot="0")
            stack.start(victim, slot="0")
        produced(stack, "readings", [*next(parts), *[READINGS_END] * SPLIT])
        produced(stack, "rules", [RULES_END] * SPLIT)
        expected = in_process(readings, rules)
        assert min(map(len, expected.values())) > 10
        wait_until(lambda: on_kafka(stack) == expected, "all alarms")
        produced(stack, "rules", [LATE_RULE])
        wait_until(lambda: bool(stack.results("alarms.late-right")), "the late rule")
        assert set(stack.stop().values()) == {0}
        for name in ("alarms", "quiet"):
            (late,) = stack.results(f"{name}.late-right")
            assert (late["row"]["rule"], late["reason"]) == (
                "late",
                "older than the table keeps versions",
            )
        assert on_kafka(stack) == expected
        every = len(rules) + SPLIT + 1
        assert_copied(stack, every)


def assert_copied(stack: Stack, every: int) -> None:
    """Each partition of the log has all rules once; the first has the rows, all others copies."""
    (log,) = stack.plan.logs
    (stream,) = (each.name for each in log.streams if each.is_broadcast)
    found: Counter[tuple[str, int, bool]] = Counter()
    for _, value in stack.committed(log.topic):
        segment = decode_segment(value or b"")
        rows = segment.streams.get(stream)
        if rows is not None:
            for source, offset, copy in rows.select(SOURCE, OFFSET, COPY).iter_rows():
                found[segment.sources[source].source, offset, copy] += 1
    assert len(found) == 2 * every
    for (source, offset, copy), times in found.items():
        assert times == (log.partitions - 1 if copy else 1), (source, offset)
