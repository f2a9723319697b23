"""The ingest service on raw topics, logs and offsets in memory: it can crash between commits."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from confluent_kafka import Message, TopicPartition

from tidemark.core.operators.log_task import LogTask
from tidemark.core.operators.output import Output
from tidemark.core.time.segment import NEVER_MS, Segment
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.program import Program
from tidemark.runtime.client import recorded_program, topics
from tidemark.runtime.client.consumer import EARLIEST, Start
from tidemark.runtime.config import Config
from tidemark.runtime.ingest import (
    backfill,
    loading,
    new_logs,
    past_marks,
    raw_sources,
    raw_topics,
    task,
)
from tidemark.serde.segments import decode_segment


class Cluster:
    """Raw records, logs and committed offsets."""

    def __init__(self, raw: Mapping[Partition, list[Any]]) -> None:
        """``raw``: values of records, or pairs of key and value."""
        self.raw = dict(raw)
        self.begins = dict.fromkeys(raw, 0)
        self.ids: dict[str, str] = {}
        self.committed: dict[Partition, TopicPartition] = {}
        self.written: dict[Partition, list[tuple[bytes | None, bytes]]] = defaultdict(list)
        self.now_ms = 1_000_000
        self.recorded: Program | None = None

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let ingest use this cluster instead of a broker."""
        for module in (raw_sources, backfill, task):
            monkeypatch.setattr(module, "now_ms", lambda: self.now_ms)
        monkeypatch.setattr(topics, "message_bytes", lambda *_: 2**20)
        monkeypatch.setattr(recorded_program, "recorded_program", lambda *_: self.recorded)
        monkeypatch.setattr(task, "EndOffsets", lambda *_: _Ends(self))
        monkeypatch.setattr(task, "require_raw", lambda *_: self._counts())
        monkeypatch.setattr(raw_topics, "require", lambda *_: self._counts())
        monkeypatch.setattr(raw_topics, "partition_counts", lambda *_: self._counts())
        monkeypatch.setattr(raw_topics, "warn_of_retention", lambda *_: None)
        monkeypatch.setattr(raw_topics, "topic_ids", lambda _admin, names: self._ids(names))
        monkeypatch.setattr(task, "topic_ids", lambda _admin, names: self._ids(names))
        monkeypatch.setattr(new_logs, "short_ids", lambda _admin, names: self._ids(names))
        for module in (loading, new_logs, past_marks):
            monkeypatch.setattr(module, "offsets", self._offsets)
        monkeypatch.setattr(past_marks, "read", self._read)
        monkeypatch.setattr(past_marks, "partition_counts", lambda _admin: self._counts())
        monkeypatch.setattr(past_marks, "committed_offsets", self._committed)
        monkeypatch.setattr(backfill, "plain_consumer", lambda _config, **_: _Reader(self))
        monkeypatch.setattr(backfill, "_PORTION_RECORDS", 3)

    def _counts(self, names: Iterable[str] | None = None) -> dict[str, int]:
        wanted = {at.topic for at in self.raw} if names is None else names
        return {name: sum(at.topic == name for at in self.raw) for name in wanted}

    def _ids(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.ids.get(name, f"{hash(name) % 10**8:08}") for name in names}

    def _offsets(self, _admin: object, wanted: Iterable[Partition], which: object) -> Any:
        if which is EARLIEST:
            return {at: self.begins.get(at, 0) for at in wanted}
        return {at: len(self.raw.get(at, self.written[at])) for at in wanted}

    def _committed(self, _config: object, _group: str, wanted: Iterable[Partition], _s: float):
        return [self.committed.get(at, TopicPartition(*at)) for at in wanted]

    def _read(self, _config: object, ranges: Mapping[Partition, tuple[int, int]]) -> Any:
        for at, (begin, end) in ranges.items():
            for _, value in self.written[at][begin:end]:
                yield Message(value=value)

    def messages(self, at: Partition, begin: int, count: int) -> list[Message]:
        """Return the next raw records."""
        begin = max(begin, self.begins.get(at, 0))
        return [
            Message(*at, begin + n, key, value, [], None, (1, 0))
            for n, (key, value) in enumerate(map(keyed, self.raw[at][begin : begin + count]))
        ]

    def log(self, topic: str) -> dict[int, list[Segment]]:
        """Return the segments of a log by partition."""
        return {
            at.number: [decode_segment(value) for _, value in values]
            for at, values in sorted(self.written.items())
            if at.topic == topic
        }


class _Ends:
    """All ends are known, and asked for at each turn."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.counts = cluster._counts()

    @property
    def known(self) -> dict[Partition, int]:
        return {at: len(values) for at, values in self._cluster.raw.items()}

    stable = known

    def count(self, _topics: object) -> None:
        self.counts = self._cluster._counts()

    def poll(self, _partitions: object, now_ms: int) -> int:
        return now_ms

    def lag(self, _positions: object) -> int:
        return 0


class _Reader:
    """The consumer of a backfill; it returns records of one partition at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._at = cluster, dict[Partition, int]()

    def incremental_assign(self, fresh: list[TopicPartition]) -> None:
        self._at |= {Partition(each.topic, each.partition): each.offset for each in fresh}

    def incremental_unassign(self, gone: list[TopicPartition]) -> None:
        for each in gone:
            del self._at[Partition(each.topic, each.partition)]

    def consume(self, count: int, _timeout_s: float) -> list[Message]:
        for at in sorted(self._at):
            found = self._cluster.messages(at, self._at[at], count)
            if found:
                self._at[at] = (found[-1].offset() or 0) + 1
                return found
        return []

    def position(self, asked: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(*at, self._at[at]) for at in map(_partition, asked)]

    def close(self) -> None:
        pass


def _partition(at: TopicPartition) -> Partition:
    return Partition(at.topic, at.partition)


class Service:
    """One ingest process, from its last commit; memory is lost with the object."""

    def __init__(
        self, cluster: Cluster, plan: Plan, partitions: Iterable[Partition], **options: Any
    ) -> None:
        """``options``: of the task."""
        self._cluster = cluster
        self._output: list[tuple[Partition, bytes | None, bytes]] = []
        self._positions: dict[Partition, int] = {}
        self.paused: list[Partition] = []
        self.followed: list[str] = []
        process: Any = SimpleNamespace(
            admin=None,
            outbox=SimpleNamespace(write=self._write),
            settle=self.commit,
            follow=self._follow,
            waiting=lambda *_reasons: None,
            member=SimpleNamespace(
                positions=self._positions,
                refresh_positions=lambda: None,
                pause=self.paused.extend,
                resume=None,
            ),
        )
        self.task = task.IngestTask(Config(pipeline="shop"), plan, process, **options)
        starts = []
        for at in partitions:
            found = cluster.committed.get(at)
            start = Start(at, found.offset, found.metadata or "") if found else Start(at, 0, None)
            self._positions[at] = start.offset
            starts.append(start)
        self.task.assigned(starts)

    def _write(self, topic: str, partition: int, keys: Any, values: Any) -> None:
        at = Partition(topic, partition)
        self._output += [(at, key, value) for key, value in zip(keys, values, strict=True)]

    def _follow(self, topics: Iterable[str]) -> None:
        self.followed = list(topics)

    def take(self, at: Partition, count: int) -> None:
        """Take the next records of a source."""
        found = self._cluster.messages(at, self._positions[at], count)
        if found:
            self._positions[at] = (found[-1].offset() or 0) + 1
            self.task.take(found)

    def tick(self) -> None:
        """Turn the loop."""
        self._cluster.now_ms += 100
        self.task.tick()

    def commit(self) -> None:
        """Commit; offsets and output become visible together."""
        commits = self.task.checkpoint()
        assert commits or not self._output, "output without offsets"
        for at, key, value in self._output:
            self._cluster.written[at].append((key, value))
        self._output.clear()
        self._cluster.committed |= {_partition(each): each for each in commits}

    def finish(self) -> None:
        """Read everything, the backfill too."""
        while True:
            before = sum(map(len, self._cluster.written.values()))
            for at in self._positions:
                self.take(at, 1_000)
            self.tick()
            self.commit()
            done = not self.task.figures().get("backfill")
            if done and before == sum(map(len, self._cluster.written.values())):
                return


def keyed(raw: Any) -> tuple[bytes | None, bytes | None]:
    """Return the key and the value of a raw record."""
    return raw if isinstance(raw, tuple) else (None, raw)


def record(at_ms: int, **columns: object) -> bytes:
    """Return a raw record."""
    return json.dumps({"at": at_ms, **columns}).encode()


def published(cluster: Cluster, plan: Plan, log: str) -> tuple[dict[Any, Any], Counter[Any]]:
    """Return the last pane of each key and window, and the late rows, of the operators of a log."""
    panes: dict[Any, Any] = {}
    late: Counter[Any] = Counter()
    for operator, output in outputs(cluster, plan, log):
        for name, frame in output.frames.items():
            _take(operator, name, frame, panes, late)
    return panes, late


def outputs(cluster: Cluster, plan: Plan, log: str) -> Iterator[tuple[str, Output]]:
    """Yield the outputs of the operators of a log up to its end, with the name of the operator."""
    plans = [each for each in plan.operators if each.log == log]
    for segments in cluster.log(log).values():
        tasks = LogTask(each.operator for each in plans)
        for each, steps in tasks.steps(segments):
            yield each.operator.name, steps.output
        for each, output in tasks.finish():
            yield each.operator.name, output


def assert_tiles(cluster, topic):
    """Assert that the marks of each source tile its partition, and that time does not go back."""
    for segments in cluster.log(topic).values():
        ends: dict[str, tuple[int, int]] = {}
        for mark in (mark for segment in segments for mark in segment.sources):
            offset, watermark_ms = ends.get(mark.source, (0, NEVER_MS))
            assert mark.first_offset == offset
            assert watermark_ms <= mark.watermark_before_ms <= mark.watermark_ms
            ends[mark.source] = mark.next_offset, mark.watermark_ms
        assert ends == {
            str(at): (len(values), ends[str(at)][1])
            for at, values in cluster.raw.items()
            if str(at) in ends
        }


def _take(
    operator: str, port: str, frame: pl.DataFrame, panes: dict[Any, Any], late: Counter[Any]
) -> None:
    for row in frame.iter_rows(named=True):
        if port == "late":
            late[operator, row["at"], row["k"], row["city"]] += 1
        else:
            key = {name: row[name] for name in row if name in ("k", "city", "start")}
            panes[operator, *key.values()] = row["n"], row["total"]
