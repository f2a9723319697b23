"""A scenario in this process: the operators of the services, without Kafka, time or threads.

See docs/testing.md.  Raw topics and logs are lists.  A service processes each record or segment at
once, and commits after each segment.  Its checkpoints are kept, as a changelog would keep them.  So
a service that crashed restarts with exactly the state that it had committed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from tidemark.core.operators.output import Checkpoint, Output
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import Segment, SourceMark
from tidemark.errors import ConfigurationError
from tidemark.ingest.ingest import Ingest, Progress
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.language.load import load_pipeline
from tidemark.language.pipeline import Pipeline
from tidemark.local.handover import Handover
from tidemark.plan.physical import DerivedPlan, OperatorPlan, Plan, PortPlan
from tidemark.runtime.client.schema_registry import writer_schemas
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import Encoder, encoder_of
from tidemark.serde.dead_letters import DeadLetterEncoder, encode_dead_letters
from tidemark.serde.formats.avro_values import WriterSchemas
from tidemark.serde.formats.source_format import needs_registry
from tidemark.serde.records import NO_TIMESTAMP, DeadLetter, RecordBatch
from tidemark.statics.rows import read_rows
from tidemark.statics.versions import StaticVersions
from tidemark.testing.scenario import RawMessage, Scenario

INGEST = "ingest"


@dataclass
class _Operator:
    """An operator on a log partition; ``checkpoints`` outlive a crash."""

    plan: OperatorPlan
    task: OperatorTask
    checkpoints: list[Checkpoint] = field(default_factory=list)

    def step(self, segment: Segment) -> Output:
        output = self.task.step(segment)
        self.task.next_offset += 1
        self.checkpoints.append(self.task.checkpoint())
        self.task.state.purge(self.task.clock_ms)
        return output

    def restore(self) -> None:
        self.task = OperatorTask(self.plan.operator)
        if self.checkpoints:
            last = self.checkpoints[-1]
            pieces = (each.changes for each in self.checkpoints if each.changes)
            self.task.restore(pieces, last.clocks, last.next_offset)
            self.task.state.purge(self.task.clock_ms)


def _writers(plan: Plan) -> WriterSchemas | None:
    """Return the schemas of formats with a registry; only these need settings."""
    if not any(needs_registry(source.format) for source in plan.sources):
        return None
    return writer_schemas(Config.from_env(), plan)


class InProcess(Scenario):
    """A pipeline whose services are objects; the wall clock is always ``now_ms``."""

    def __init__(
        self, pipeline: Pipeline | str, *, raw_partitions: int = 1, now_ms: int = 0
    ) -> None:
        """``pipeline``: a Pipeline, or the name of a module as for ``PIPELINE``."""
        found = load_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
        self.plan = found.plan()
        self.raw_partitions = raw_partitions
        self._now_ms = now_ms
        self._ingest = Ingest(self.plan, _writers(self.plan))
        self._raw: dict[tuple[str, int], list[RawMessage]] = {}
        self._progress: dict[tuple[str, int], Progress] = {}
        self._statics = {
            each.name: StaticVersions(each) for each in self.plan.sources if each.static is not None
        }
        for topic in self.plan.named_topics:
            self._join(topic)
        self._log: dict[tuple[str, int], list[Segment]] = {
            (log.topic, n): [] for log in self.plan.logs for n in range(log.partitions)
        }
        self._operators = {
            at: [
                _Operator(each, OperatorTask(each.operator))
                for each in self.plan.operators
                if each.log == at[0]
            ]
            for at in self._log
        }
        self._handover = Handover(self.plan, now_ms)
        self._down: set[str] = set()
        self._topics: dict[str, list[dict[str, Any]]] = {}
        self._letters: list[DeadLetter] = []
        self._load()
        self._work()
        self._end_loading()

    def _join(self, topic: str) -> None:
        """Let a raw topic exist; a topic of a pattern does from its first record on."""
        loading = topic in self._statics
        for number in range(self._count(topic)):
            self._raw.setdefault((topic, number), [])
            self._progress.setdefault((topic, number), Progress(loading=loading))

    def _count(self, topic: str) -> int:
        return 1 if topic in self._statics else self.raw_partitions

    def _load(self) -> None:
        """Write what has changed in static tables to their raw topics, as ingest does at a start.

        Raises:
            ConfigurationError: the rows cannot be read.
        """
        for topic, versions in self._statics.items():
            records = versions.load(read_rows(versions.source), self._now_ms)
            self._raw[topic, 0] += [RawMessage(record) for record in records]

    def _end_loading(self) -> None:
        """Let the clocks wait no longer for static tables."""
        marks = []
        for topic in self._statics:
            progress = replace(self._progress[topic, 0], loading=False)
            self._progress[topic, 0] = progress
            marks.append(progress.idle_mark(f"{topic}/0"))
        self._write(SegmentBuilder(epoch=0), marks)
        self._work()

    def close(self) -> None:
        """Do nothing, as nothing runs in the background."""

    def crash(self, service: str) -> None:
        """End a service: it loses its memory and keeps its commits."""
        self._require_service(service)
        if service in self._down:
            raise ConfigurationError(f"crash({service!r}): the service is down already")
        self._down.add(service)

    def restart(self, service: str) -> None:
        """Start a service: it restores its state and processes the records that it missed."""
        self._require_service(service)
        if service not in self._down:
            raise ConfigurationError(f"restart({service!r}): the service is running")
        self._down.remove(service)
        for operators in self._operators.values():
            for operator in operators:
                if operator.plan.service == service:
                    operator.restore()
        if service == INGEST:
            self._load()
        self._work()

    def _flushed_topics(self) -> Mapping[str, int]:
        return {topic: self._count(topic) for topic, _ in self._raw if topic not in self._statics}

    def _send(self, topic: str, partition: int, messages: Sequence[RawMessage]) -> None:
        self._join(topic)
        if (topic, partition) not in self._raw:
            raise ConfigurationError(f"{topic} has no partition {partition}")
        self._raw[topic, partition] += messages
        self._work()

    def _idle(self, topic: str, partition: int, silence_ms: int) -> None:
        if INGEST in self._down:
            raise ConfigurationError(f"idle({topic!r}): ingest is down, so no silence is recorded")
        self._join(topic)
        progress = self._progress[topic, partition]
        mark = progress.idle_mark(f"{topic}/{partition}", silence_ms)
        self._write(SegmentBuilder(epoch=0), [mark])
        self._work()

    def _work(self) -> None:
        if INGEST not in self._down:
            for at in self._raw:
                self._take(*at)
        while self._step_all():
            pass

    def _step_all(self) -> bool:
        """Let each operator process what is in its log; say whether there was anything."""
        moved = False
        for at, operators in self._operators.items():
            for operator in operators:
                behind = operator.task.next_offset < len(self._log[at])
                if behind and operator.plan.service not in self._down:
                    self._step(operator, self._log[at], at[1])
                    moved = True
        return moved

    def _take(self, topic: str, partition: int) -> None:
        past = self._progress[topic, partition]
        messages = self._raw[topic, partition][past.next_offset :]
        if not messages:
            return
        batch = _batch(topic, partition, past.next_offset, messages, self._now_ms)
        taken = self._ingest.take(batch, past)
        self._progress[topic, partition] = taken.progress
        self._letters += taken.dead_letters
        builder = SegmentBuilder(epoch=0)
        builder.add(taken)
        self._write(builder, [])

    def _write(self, builder: SegmentBuilder, marks: list[SourceMark]) -> None:
        partitions = {topic: self._count(topic) for topic, _ in self._raw}
        for log in self.plan.logs:
            built = builder.build(log, self._now_ms, partitions, marks)
            for partition, segments in enumerate(built):
                self._log[log.topic, partition] += segments

    def _step(self, operator: _Operator, log: list[Segment], partition: int) -> None:
        derived = self.plan.derived_of(operator.plan.name)
        for segment in log[operator.task.next_offset :]:
            output = operator.step(segment)
            for each in operator.plan.ports:
                rows = output.frames.get(each.port.name)
                if rows is not None and rows.height and each.topic:
                    self._take_rows(each, rows, partition)
            if derived is not None:
                self._hand_on(derived, operator, output, partition)

    def _hand_on(
        self, derived: DerivedPlan, operator: _Operator, output: Output, partition: int
    ) -> None:
        results = output.frames.get(derived.port.name)
        written = [
            *(() if results is None else self._handover.rows(derived, partition, results)),
            *self._handover.marks(derived, partition, operator.task.reached()),
        ]
        for log, number, segment in written:
            self._log[log, number].append(segment)

    def _take_rows(self, port: PortPlan, rows: pl.DataFrame, partition: int) -> None:
        encoder = encoder_of(port)
        values: Sequence[bytes]
        if isinstance(encoder, DeadLetterEncoder):
            topic, values = self.plan.dead_letters, encoder.encode(rows, partition)[1]
        else:
            topic, values = port.topic, encoder.encode(rows)[1]
        self._topics.setdefault(topic, []).extend(decoded(encoder, values))

    def _settle(self) -> None:
        if self._down:
            down = ", ".join(sorted(self._down))
            raise ConfigurationError(f"{down} is down, so nothing is complete: restart() it first")

    def _records(self, port: PortPlan) -> list[dict[str, Any]]:
        return list(self._topics.get(port.topic, []))

    def _dead_letters(self) -> list[dict[str, Any]]:
        raw = [json.loads(value or b"") for value in encode_dead_letters(self._letters)[1]]
        handed_on = [json.loads(letter) for letter in self._handover.letters]
        return raw + handed_on + self._topics.get(self.plan.dead_letters, [])


def _batch(
    topic: str, partition: int, first_offset: int, messages: Sequence[RawMessage], now_ms: int
) -> RecordBatch:
    """Return the batch that ingest would read of messages."""
    values = [each.value for each in messages]
    batch = RecordBatch.of_values(topic, partition, first_offset, values, now_ms)
    stamps = [each.timestamp_ms for each in messages]
    return replace(
        batch,
        keys=[each.key for each in messages],
        headers=[each.headers for each in messages],
        timestamps=[NO_TIMESTAMP if stamp is None else stamp for stamp in stamps],
    )


def decoded(encoder: Encoder, values: Iterable[bytes | None]) -> list[dict[str, Any]]:
    """Return the records of a port, decoded from the values that an encoder wrote."""
    decode = json.loads if encoder.avro is None else encoder.avro.decode
    return [decode(value) for value in values if value is not None]
