"""Results as messages, byte for byte as the services write them, for a comparison in Spark.

The rows that stages hand on are messages, too (stage_rows.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemark.core.operators.ports import PANES
from tidemark.partition import Partition
from tidemark.runtime.client.generations import Key
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.lost_rows import are_whole
from tidemark.runtime.keyed.oversized import fitting
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.dead_letters import DeadLetterEncoder
from tidemark.spark.log_replay import LogReplay, SegmentOutput
from tidemark.spark.read.segment_rows import Batches, ddl
from tidemark.spark.targets.stage_rows import MESSAGES, HandsOn
from tidemark.spark.work import ResultWriter

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Messages:
    """Results as rows: the messages that the services write to the result topics.

    Columns: topic, partition, log_offset (of the segment), place (order within a log replay), sure,
    key, value.  ``sure`` is true if the segment is below the offset in ``before`` of its log
    partition.  ``lost_until_ms``: by operator and log partition; panes of windows that may lack
    rows are left out, as services do.  ``handovers``: the rows of stages that are messages, too.
    """

    before: Mapping[Partition, int]
    config: Config
    lost_until_ms: Mapping[Key, int]
    handovers: Sequence[HandsOn] = ()
    ddl: str = ddl(MESSAGES)

    def open(self, replay: LogReplay) -> ResultWriter:
        """Return a writer that yields the messages of a log replay."""
        return _MessagesWriter(self, replay)


class _MessagesWriter:
    def __init__(self, target: Messages, replay: LogReplay) -> None:
        self._partition = replay.log.number
        self._before = target.before[replay.log]
        self._lost_until_ms = target.lost_until_ms
        self._handovers = target.handovers
        self._place = 0
        self._encoders = encoders(target.config, replay.plans)

    def take(self, output: SegmentOutput) -> Batches:
        """Yield the messages; leave out results too large for one, which live dead-letters."""
        for each in output.plan.ports:
            name = each.port.name
            rows = output.frames.get(name)
            if rows is None or rows.is_empty() or each.port.is_dead_letters:
                continue
            offsets = output.offsets[name]
            lost_ms = self._lost_until_ms.get((output.plan.name, self._partition))
            if lost_ms is not None and each.port.kind == PANES:
                whole = are_whole(rows, output.plan.operator, lost_ms)
                rows, offsets = rows.filter(whole), offsets[whole.to_numpy()]
            for handover in self._handovers:
                if handover.hands_on(output.plan.name, name):
                    yield from handover.messages(rows, self._partition, offsets, self._before)
            if not each.topic:
                continue
            encoder = self._encoders[output.plan.name, name]
            assert not isinstance(encoder, DeadLetterEncoder)
            keys, values = encoder.encode(rows)
            batch = self._batch(each.topic, offsets, keys, values)
            fit = fitting(keys, values)
            yield batch if fit.all() else batch.filter(pa.array(fit))

    def _batch(
        self, topic: str, offset: Offsets, keys: BinaryColumn[bytes], values: BinaryColumn[bytes]
    ) -> pa.RecordBatch:
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
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)

    def finish(self, _: LogReplay) -> Batches:
        """Return no rows: ``take`` has yielded every message."""
        return iter(())
