"""How many segments an operator takes in one step: as many as its limit of rows allows."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
import pytest

from tests.kafka.pipelines.changing import build
from tidemark.core.operators.output import Steps
from tidemark.core.time.segment import Segment
from tidemark.partition import Partition
from tidemark.runtime.backends.backend import MemoryBackend
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.log_partition import KeyedOperators

OUTBOX: Any = object()


def with_rows(count: int) -> Segment:
    return Segment(0, 0, (), {}, 0, {"rows": pl.DataFrame({"v": range(count)})})


def taken(monkeypatch: pytest.MonkeyPatch, segments: Sequence[Segment]) -> list[int]:
    """Return how many segments an operator takes in each step."""
    config, plan = Config(), build("p").plan()
    resources = encoders(config, plan.operators)
    operators = KeyedOperators(config, plan.operators, plan, MemoryBackend(), resources)
    (operator,) = operators.on(Partition(plan.operators[0].log, 0))
    found: list[int] = []

    def steps(some: Sequence[Segment]) -> Iterator[Steps]:
        found.append(len(some))
        return iter(())

    monkeypatch.setattr(operator.task, "steps", steps)
    assert list(operator.take([*enumerate(segments)], OUTBOX))
    return found


def test_the_limit_grows_where_it_leaves_the_next_segment_out(monkeypatch):
    found = taken(monkeypatch, [with_rows(150)] * 63)
    assert found == [1, 1, 1, 3, 6, 13, 27, 11]


def test_segments_without_rows_do_not_lower_the_limit(monkeypatch):
    bare = [with_rows(0)] * 4
    found = taken(monkeypatch, [*[with_rows(64)] * 15, *bare, with_rows(1_000), *bare])
    assert found == [1, 2, 4, 12, 5]
