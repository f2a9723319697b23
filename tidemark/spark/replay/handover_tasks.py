"""The tasks of a hand-over: they write results to the live topics, and state to the changelogs.

A first task replays a log partition, or a key-group slice of it.  It writes the results, as a
replay to topics does, and returns its state in pieces.  Spark gathers the pieces of a log partition
in a second task, sorted by operator and key-group slice.

The second task writes them to the changelogs, as one snapshot per operator.  A snapshot has no
effect until the driver commits its number with the offset (handover.py).  No process holds the
whole state, and no state passes the driver.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.client import clients
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.changelog import OPERATOR_KEY, record
from tidemark.runtime.keyed.fresh_start import live_keys, number_of
from tidemark.serde.changelog import (
    SNAPSHOT,
    Commit,
    Piece,
    decode,
    encode,
    encode_operator,
)
from tidemark.spark.log_replay import LogReplay
from tidemark.spark.outcome import Outcome, encode_outcome
from tidemark.spark.read.segment_rows import Batches, batch_of, ddl
from tidemark.spark.targets.topics import TopicsWriter
from tidemark.spark.task_transaction import TaskTransaction
from tidemark.spark.work import ResultWriter

STATE = pa.schema(
    [
        ("log", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("operator", pa.string()),
        ("slice", pa.int32()),
        ("chunk", pa.int32()),
        ("data", pa.binary()),
    ]
)
"""Pieces of state for the task ``log``, which stores them; a row of operator "" is an outcome."""

REPORTS = pa.schema([("stored", pa.bool_()), ("data", pa.binary())])
"""Rows for the driver: an ``Outcome``, or if ``stored`` is true a ``StoredState``."""


class StoredState(msgspec.Struct, frozen=True):
    """A log partition whose state is in the changelogs, with the number of its snapshots."""

    topic: str
    partition: int
    sequence: int


def hand_over_name(pipeline: str) -> str:
    """Return the name under which the driver commits, with which the groups of tasks begin."""
    return f"{pipeline}.hand-over"


def progress_group(pipeline: str, slice_: int | str) -> str:
    """Return the consumer group in which a task commits its progress."""
    return f"{hand_over_name(pipeline)}.{slice_}"


@dataclass(frozen=True)
class LiveTopics:
    """The live result topics, and rows of ``STATE`` for the second task.

    ``logs``: the log partitions, in the order of the second tasks.
    """

    config: Config
    pipeline: str
    run: str
    logs: tuple[Partition, ...]
    ddl: str = ddl(STATE)

    def open(self, replay: LogReplay) -> ResultWriter:
        """Return a writer for the results and the state of a log replay."""
        return _LiveWriter(self, replay)


class _LiveWriter(TopicsWriter):
    """Writes the results of a log replay, then yields its state."""

    def __init__(self, target: LiveTopics, replay: LogReplay) -> None:
        group = progress_group(target.pipeline, replay.slice)
        super().__init__(target.config, group, target.run, replay, suffix="")
        self._place = target.logs.index(replay.log)

    def finish(self, replay: LogReplay) -> Batches:
        """Commit the remaining results; yield the outcome, then the state (``STATE``)."""
        self.close(replay)
        yield self._row(replay, "", -1, encode_outcome(Outcome.of(replay)))
        for plan, piece in replay.snapshots():
            yield self._row(replay, plan.operator.name, piece.chunk, encode(piece))

    def _row(self, replay: LogReplay, operator: str, chunk: int, data: bytes) -> pa.RecordBatch:
        values = (self._place, *replay.log, operator, replay.slice, chunk, data)
        return batch_of(([value] for value in values), STATE)


@dataclass(frozen=True)
class StateWriter:
    """Writes the state of log partitions to their changelogs.

    The rows it takes (``STATE``) are sorted by log partition and operator.  ``ends``: the offsets
    from which the live services continue.
    """

    plan: Plan
    config: Config
    run: str
    ends: Mapping[Partition, int]

    def __call__(self, batches: Batches) -> Batches:
        """Yield rows of ``REPORTS``: the outcomes, and a ``StoredState`` per log partition."""
        store: _LogStore | None = None
        for log, operator, data in _rows(batches):
            if not operator:
                yield _batch(data, stored=False)
                continue
            if store is None or store.log != log:
                if store is not None:
                    yield _batch(store.finish(), stored=True)
                store = _LogStore(self, log)
            store.take(operator, decode(data))
        if store is not None:
            yield _batch(store.finish(), stored=True)


def _rows(batches: Batches) -> Iterator[tuple[Partition, str, bytes]]:
    for batch in batches:
        names = ("topic", "partition", "operator", "data")
        for topic, number, operator, data in zip(*map(batch.column, names), strict=True):
            yield Partition(topic.as_py(), number.as_py()), operator.as_py(), data.as_py()


def _batch(data: bytes, *, stored: bool) -> pa.RecordBatch:
    columns = [pa.array([stored]), pa.array([data], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=REPORTS)


class _LogStore:
    """Writes the changelogs of the operators of one log partition, with one producer.

    The snapshots of earlier attempts have lower numbers; this attempt deletes them.  It fences an
    attempt that still runs before it reads the keys in the changelogs.
    """

    def __init__(self, job: StateWriter, log: Partition) -> None:
        self.log = log
        self._run, self._end = job.run, job.ends[log]
        group = progress_group(job.plan.pipeline, "state")
        self._transaction = TaskTransaction(job.config, group, f"{group}.{log}", log)
        self._plans = {p.operator.name: p for p in job.plan.operators if p.log == log.topic}
        changelogs = [Partition(plan.changelog, log.number) for plan in self._plans.values()]
        self._keys = live_keys(job.config, clients.admin(job.config), changelogs)
        self._number = 1 + max(
            (number_of(k) for keys in self._keys.values() for k in keys), default=0
        )
        self._operator: OperatorPlan | None = None
        self._held: Piece | None = None
        self._chunk = 0
        self._transaction.begin_interval()

    def take(self, operator: str, piece: Piece) -> None:
        """Write the next piece; the pieces of an operator become one snapshot."""
        if self._operator is None or self._operator.operator.name != operator:
            self._end_operator()
            self._begin_operator(self._plans[operator])
        elif self._held is not None and self._held.changes:
            self._write(replace(self._held, clocks=None, last=False))
        self._held = piece

    def _begin_operator(self, plan: OperatorPlan) -> None:
        self._operator, self._chunk = plan, 0
        keys = self._keys[Partition(plan.changelog, self.log.number)]
        records: list[tuple[bytes, bytes | None]] = [(key, None) for key in keys]
        records.append((OPERATOR_KEY, encode_operator(plan.state_signature)))
        self._send(records)

    def _end_operator(self) -> None:
        if self._held is not None:
            self._write(replace(self._held, last=True))
        self._held = None

    def _write(self, piece: Piece) -> None:
        commit = Commit(self._number, self._run, self._run)
        numbered = replace(
            piece, kind=SNAPSHOT, commit=commit, chunk=self._chunk, next_offset=self._end
        )
        self._chunk += 1
        self._send([record(numbered)])

    def _send(self, records: list[tuple[bytes, bytes | None]]) -> None:
        assert self._operator is not None
        keys, values = zip(*records, strict=True)
        self._transaction.output.write(self._operator.changelog, self.log.number, keys, values)
        if self._transaction.is_due:
            self._transaction.commit(self._end, self._run)

    def finish(self) -> bytes:
        """Commit the remaining pieces; return the encoded ``StoredState``."""
        self._end_operator()
        if self._transaction.output.is_open:
            self._transaction.commit(self._end, self._run)
        self._transaction.close()
        return msgspec.msgpack.encode(StoredState(*self.log, self._number))
