"""Chains on logs that have lost their first segments (docs/semantics.md)."""

import pytest

from tests.kafka.pipelines.chains import chained
from tests.kafka.support.chains import (
    START_MS,
    Panes,
    in_process,
    moves,
    on_kafka,
    produced,
)
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.generations import newest_generations
from tidemark.runtime.client.offline_group import delete_records
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset
from tidemark.serde.segments import decode_segment

ONE = {"partitions": 1}


def behind(panes: Panes, lost_ms: int) -> Panes:
    return {window: pane for window, pane in panes.items() if window[1] > lost_ms}


def second_mark(stack: Stack, log: Partition, stage: str) -> int:
    """Return the offset of the first mark of a stage in a log that is not its first mark."""
    begins, ends = (offsets(stack.admin, [log], each) for each in (EARLIEST, LATEST))
    return next(
        message.offset() or 0
        for message in read(stack.config, {log: (begins[log], ends[log])})
        for mark in decode_segment(message.value() or b"", ()).sources
        if mark.source == stage and mark.watermark_before_ms != NEVER_MS
    )


def test_a_chain_on_a_log_without_its_beginning_is_whole_behind_it(broker):
    """Windows after the lost rows are those of one process; the service names all others."""
    values = moves(seed=41, count=200)
    with Stack(broker, "chains-cut", module=chained, options=ONE) as stack:
        log = Partition(stack.plan.logs[0].topic, 0)

        def filled(values: list[bytes]) -> int:
            """Let ingest write some segments; return the end of the log."""
            before = offsets(stack.admin, [log], LATEST)[log]
            produced(stack, values)
            wait_until(lambda: offsets(stack.admin, [log], LATEST)[log] > before, "segments")
            return offsets(stack.admin, [log], LATEST)[log]

        stack.start("ingest")
        cut = filled(values[:60])
        filled(values[60:])
        assert stack.stop() == {"ingest": 0}
        delete_records(stack.admin, {log: cut})
        stack.start()
        stage = stack.plan.derived[0].operator

        def lost_until_ms(operator: str) -> int | None:
            found = newest_generations(stack.config, stack.admin, stack.plan.generations)
            return found[operator, 0].lost_until_ms if (operator, 0) in found else None

        wait_until(lambda: lost_until_ms(stage) is not None, "the lost rows")
        lost_ms = lost_until_ms(stage) or 0
        assert lost_until_ms("counts") == lost_ms
        expected = in_process(ONE, values)

        def is_whole(name: str) -> bool:
            found = behind(on_kafka(stack)[name], lost_ms)
            return found == behind(expected[name], lost_ms) != expected[name]

        wait_until(lambda: is_whole("counts") and is_whole("sums"), "whole windows")
        sums = len(stack.results("sums"))
        stack.move("p0", START_MS + 1_200_000)
        wait_until(lambda: len(stack.results("sums")) > sums, "sums after another mark")
        assert set(stack.stop().values()) == {0}
        assert behind(expected["sums"], lost_ms)
        counts = on_kafka(stack)["counts"]
        assert counts == behind(counts, lost_ms)
        assert "; windows of sums, runs, " in stack.log("windowing")

        delete_records(stack.admin, {log: second_mark(stack, log, f"op:{stage}")})
        scope = Scope(stack.plan, only=("sums",), delete_results=True)
        with pytest.raises(ConfigurationError, match=f"lacks results of '{stage}' from before"):
            Reset(stack.config, stack.admin, scope)
