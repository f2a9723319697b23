"""Tables on Kafka: a topic in the order of keys is read to its end before rows are answered."""

import json
from collections.abc import Sequence

from confluent_kafka import Producer

from tests.kafka.pipelines.chains import tabled
from tests.kafka.support.joins import market
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.time.segment import NEVER_MS, SourceMark
from tidemark.partition import Partition
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.progress import SourceProgress, decode
from tidemark.serde.segments import decode_segment


def in_a_transaction(stack: Stack, values: Sequence[bytes]) -> Producer:
    """Write quotes in a transaction that stays open; the caller commits it."""
    producer = Producer(
        {
            "bootstrap.servers": stack.config.bootstrap_servers,
            "transactional.id": f"{stack.name}-quotes",
            "transaction.timeout.ms": 600_000,  # a loaded machine is slow
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(f"{stack.name}-quotes", value, partition=0)
    assert producer.flush(30) == 0
    return producer


def test_a_table_is_loaded_by_two_processes_one_after_the_other(broker):
    """The end of the topic is in a transaction that is open when the first process is killed."""
    quotes, trades = market.quoted(seed=1), market.traded(seed=2)
    trade_end, quote_end = market.ENDS
    with Stack(broker, "tabled", module=tabled) as stack:
        market.produced(stack, "quotes", quotes[:100])
        writer = in_a_transaction(stack, quotes[100:])
        market.produced(stack, "trades", [*trades, trade_end])
        stack.start()
        stack.await_partitions()  # before it, the group may have no coordinator
        wait_until(lambda: _progress(stack).next_offset == 100, "the first part of the table")
        assert (_progress(stack).load_until or 0) >= len(quotes)
        stack.kill("ingest", "joins")
        assert stack.results("priced") == []
        stack.start("ingest", "joins")
        stack.await_partitions()
        writer.commit_transaction()
        wait_until(lambda: _progress(stack).next_offset == len(quotes), "the whole table")
        market.produced(stack, "quotes", [quote_end])
        expected = market.in_process([*quotes, quote_end], [*trades, trade_end])
        assert any(price is None for *_, price in expected)
        wait_until(lambda: market.answers(stack.results("priced")) == expected, "all answers")
        assert stack.results("priced.late-right") == stack.results("priced.late-left") == []
        *loaded, last = _marks(stack)
        assert {mark.watermark_ms for mark in loaded} == {NEVER_MS}
        assert last.watermark_before_ms > NEVER_MS
        assert set(stack.stop().values()) == {0}


def test_a_record_without_a_value_deletes_its_key_in_a_table(broker):
    """The tombstone survives a crash of both services; one without a key is a dead letter."""
    with Stack(broker, "unquoted", module=tabled) as stack:
        stack.start()
        stack.await_partitions()
        market.produced(stack, "quotes", [market.quote("a", 0, 1), market.quote("b", 0, 2)])
        market.deleted(stack, b"a", 5_000)
        market.deleted(stack, None, 6_000)
        market.produced(stack, "quotes", [market.quote("c", 7_000, 3)])
        wait_until(lambda: len(stack.committed("unquoted.dead-letters")) == 1, "the dead letter")
        stack.kill("ingest", "joins")
        stack.start("ingest", "joins")
        asked = [
            market.trade("a", 4_000),
            market.trade("a", 8_000),
            market.trade("b", 8_000),
            market.trade("c", 8_000),
        ]
        trade_end, quote_end = market.ENDS
        market.produced(stack, "trades", [*asked, trade_end])
        market.produced(stack, "quotes", [quote_end])
        expected = [("a", 4_000, 1), ("a", 8_000, None), ("b", 8_000, 2), ("c", 8_000, 3)]
        wait_until(lambda: market.answers(stack.results("priced")) == expected, "all answers")
        ((_, letter),) = stack.committed("unquoted.dead-letters")
        found = json.loads(letter or b"")
        assert (found["stage"], found["offset"], found["value"]) == ("tombstone", 3, None)
        assert set(stack.stop().values()) == {0}


def _progress(stack: Stack) -> SourceProgress:
    at = Partition(f"{stack.name}-quotes", 0)
    group = stack.plan.group("ingest")
    (found,) = committed_offsets(stack.config, group, [at], 30.0)
    text = found.metadata
    return decode(text, SourceProgress, str(at)) if text else SourceProgress(1, "")


def _marks(stack: Stack) -> list[SourceMark]:
    """Return the marks of quotes with records, which every partition of the log has."""
    (log,) = stack.plan.logs
    segments = [decode_segment(value or b"") for _, value in stack.committed(log.topic)]
    found = {mark for segment in segments for mark in segment.sources}
    mine = [mark for mark in found if mark.topic == f"{stack.name}-quotes"]
    filled = [mark for mark in mine if mark.next_offset > mark.first_offset]
    return sorted(filled, key=lambda mark: mark.next_offset)
