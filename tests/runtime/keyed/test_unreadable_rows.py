"""An operator that cannot read its log stops at the next commit, also while it catches up."""

from collections.abc import Iterator
from typing import Any

from tests.kafka.pipelines.changing import build
from tidemark.core.time.segment import Segment
from tidemark.errors import UnreadableRowsError
from tidemark.partition import Partition
from tidemark.runtime.backends.backend import MemoryBackend
from tidemark.runtime.client.progress import VERSION, LogProgress
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.log_partition import KeyedOperators, LogPartition


class Outbox:
    """Takes what is written, and drops it."""

    def write(self, *_: object) -> None:
        pass


def test_an_operator_that_lags_asks_for_the_commit_that_stops_it(monkeypatch):
    config, plan = Config(), build("p").plan()
    resources = encoders(config, plan.operators)
    operators = KeyedOperators(config, plan.operators, plan, MemoryBackend(), resources)
    at = Partition(plan.operators[0].log, 0)
    (lags,) = operators.on(at)
    lags.is_behind = True
    log = LogPartition(at, 5, LogProgress(VERSION, "id"), [lags], plan.generations)

    def steps(_: object) -> Iterator[object]:
        raise UnreadableRowsError("column v is Int64 in the pipeline, and Float64 in rows")

    monkeypatch.setattr(lags.task, "steps", steps)
    outbox: Any = Outbox()
    segment = Segment(0, 0, (), {}, 0, {})
    assert len(list(lags.take([(2, segment)], outbox))) == 1
    assert "operator 'a' cannot read its log" in str(lags.trouble)
    assert not log.is_stopped
    log.checkpoint(outbox, 5, ahead=False, certain=True)
    assert log.is_stopped
    assert lags.task.next_offset == 2
