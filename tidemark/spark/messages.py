"""Results as messages, byte for byte as the services write them, for Spark to compare."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from tidemark.core.operator import Output
from tidemark.plan import OperatorPlan
from tidemark.runtime.config import Config
from tidemark.runtime.encoders import Encoder, encoders
from tidemark.runtime.group import Partition
from tidemark.runtime.oversized import Keys, Values, parted
from tidemark.spark.unit import Unit
from tidemark.spark.work import Batches, Writer, ddl

_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("place", pa.int64()),
        ("sure", pa.bool_()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def fitting_panes(encoder: Encoder, plan: OperatorPlan, panes: pl.DataFrame) -> tuple[Keys, Values]:
    """Return panes as messages, without those that fit none: live has dead letters of these."""
    keys, values, _ = parted(plan.results, 0, *encoder.panes(panes))
    return keys, values


@dataclass(frozen=True)
class Messages:
    """Rows for the result topics; ``place`` numbers those of a unit.

    ``sure``: whether the segment is before ``before``, by log partition.
    """

    before: Mapping[Partition, int]
    config: Config
    ddl: str = ddl(_SCHEMA)

    def open(self, unit: Unit) -> Writer:
        """Begin with the messages of a unit."""
        return _UnitMessages(unit, self.before[unit.log], self.config)


class _UnitMessages:
    def __init__(self, unit: Unit, before: int, config: Config) -> None:
        self._partition = unit.log.number
        self._before = before
        self._place = 0
        self._encoders = encoders(config, unit.plans)

    def take(self, plan: OperatorPlan, offset: int, output: Output) -> Batches:
        """Return the messages of a segment."""
        encoder = self._encoders[plan.operator.name]
        if output.panes.height:
            fitting = fitting_panes(encoder, plan, output.panes)
            yield self._batch(plan.results, offset, *fitting)
        if output.late.height:
            yield self._batch(plan.late, offset, *encoder.late(output.late))

    def _batch(self, topic: str, offset: int, keys: Keys, values: Values) -> pa.RecordBatch:
        rows = len(values)
        places = range(self._place, self._place + rows)
        self._place += rows
        columns = [
            pa.repeat(pa.scalar(topic), rows),
            pa.repeat(pa.scalar(self._partition, pa.int32()), rows),
            pa.repeat(pa.scalar(offset, pa.int64()), rows),
            pa.array(places, pa.int64()),
            pa.repeat(pa.scalar(offset < self._before), rows),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def finish(self, _: Unit) -> Batches:
        """Return nothing: every message is on its way."""
        return iter(())
