"""Tables on Kafka: a topic in the order of keys is read to its end before rows are answered."""

from tests.kafka.pipelines.chains import tabled
from tests.kafka.support.market import (
    ENDS,
    answers,
    in_a_transaction,
    in_process,
    produced,
    quoted,
    traded,
)
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.time.segment import NEVER_MS, SourceMark
from tidemark.partition import Partition
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.progress import SourceProgress, decode
from tidemark.serde.segments import decode_segment


def test_a_table_is_loaded_by_two_processes_one_after_the_other(broker):
    """The end of the topic is in a transaction that is open when the first process is killed."""
    quotes, trades = quoted(seed=1), traded(seed=2)
    trade_end, quote_end = ENDS
    with Stack(broker, "tabled", module=tabled) as stack:
        produced(stack, "quotes", quotes[:100])
        writer = in_a_transaction(stack, quotes[100:])
        produced(stack, "trades", [*trades, trade_end])
        stack.start()
        wait_until(lambda: _progress(stack).next_offset == 100, "the first part of the table")
        assert (_progress(stack).load_until or 0) >= len(quotes)
        stack.kill("ingest", "joins")
        assert stack.results("priced") == []
        stack.start("ingest", "joins")
        stack.await_partitions()
        writer.commit_transaction()
        wait_until(lambda: _progress(stack).next_offset == len(quotes), "the whole table")
        produced(stack, "quotes", [quote_end])
        expected = in_process([*quotes, quote_end], [*trades, trade_end])
        assert any(price is None for *_, price in expected)
        wait_until(lambda: answers(stack.results("priced")) == expected, "all answers")
        assert stack.results("priced.late-right") == stack.results("priced.late-left") == []
        *loaded, last = _marks(stack)
        assert {mark.watermark_ms for mark in loaded} == {NEVER_MS}
        assert last.watermark_before_ms > NEVER_MS
        assert set(stack.stop().values()) == {0}


def _progress(stack: Stack) -> SourceProgress:
    at = Partition(f"{stack.name}-quotes", 0)
    (found,) = committed_offsets(stack.config, stack.plan.group("ingest"), [at], 30.0)
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
