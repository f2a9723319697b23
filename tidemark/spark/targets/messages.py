"""Results as messages, byte for byte as the services write them, for Spark to compare."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemark.partition import Partition
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.oversized import Keys, Values, fitting
from tidemark.spark.log_replay import LogReplay, SegmentOutput
from tidemark.spark.read.segment_rows import Batches, ddl
from tidemark.spark.work import Writer

Offsets = npt.NDArray[np.int64]

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


@dataclass(frozen=True)
class Messages:
    """Rows for the result topics; ``place`` numbers those of a unit.

    ``sure``: whether the segment is before ``before``, by log partition.
    """

    before: Mapping[Partition, int]
    config: Config
    ddl: str = ddl(_SCHEMA)

    def open(self, unit: LogReplay) -> Writer:
        """Begin with the messages of a unit."""
        return _UnitMessages(unit, self.before[unit.log], self.config)


class _UnitMessages:
    def __init__(self, unit: LogReplay, before: int, config: Config) -> None:
        self._partition = unit.log.number
        self._before = before
        self._place = 0
        self._encoders = encoders(config, unit.plans)

    def take(self, given: SegmentOutput) -> Batches:
        """Return the messages, without results that fit none: live has dead letters of these."""
        for each in given.plan.published:
            name = each.port.name
            rows = given.output.frames.get(name)
            if rows is None or rows.is_empty():
                continue
            keys, values = self._encoders[given.plan.name, name].encode(rows)
            batch = self._batch(each.topic, given.offsets[name], keys, values)
            fit = fitting(keys, values)
            yield batch if all(fit) else batch.filter(pa.array(fit))

    def _batch(self, topic: str, offset: Offsets, keys: Keys, values: Values) -> pa.RecordBatch:
        rows = len(values)
        places = range(self._place, self._place + rows)
        self._place += rows
        columns = [
            pa.repeat(pa.scalar(topic), rows),
            pa.repeat(pa.scalar(self._partition, pa.int32()), rows),
            pa.array(offset),
            pa.array(places, pa.int64()),
            pa.array(offset < self._before),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def finish(self, _: LogReplay) -> Batches:
        """Return nothing: every message is on its way."""
        return iter(())
