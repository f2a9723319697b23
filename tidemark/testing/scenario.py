"""The steps and expectations of a test, the same wherever the pipeline runs.

Each step is complete before the next one: an expectation sees all effects of the records sent so
far.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tidemark.core.rows.schema import Field, JsonText, Kind, ListOf, Scalar, StructOf, TimeValue
from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.duration import Duration, duration_ms
from tidemark.core.windows.pane import END_OF_INPUT, RETRACTED
from tidemark.errors import ConfigurationError
from tidemark.plan.dataflow import output_topics
from tidemark.plan.logical import SIDES
from tidemark.plan.physical import OperatorPlan, Plan, PortPlan, SourcePlan
from tidemark.serde.formats.flushes import flush_header
from tidemark.serde.formats.source_format import JSON

Record = Mapping[str, Any]

_MOVES_TIME_ONLY = {"tidemark.testing": "moves time only"}
"""A value of no column type: the record becomes a dead letter, but moves time as others do."""


@dataclass(frozen=True)
class Message:
    """A record with everything that Kafka knows of it.

    ``value``: a mapping, as JSON; bytes as they are; None is a tombstone.  ``key``: text or bytes.
    ``headers``: their values by name, text or bytes; or pairs, if a name comes twice.
    ``timestamp_ms``: of the record; by default, no timestamp in process, and the producer's clock
    on a broker.
    """

    value: Record | bytes | None = None
    key: str | bytes | None = None
    headers: Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes | None]] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class RawMessage:
    """A record as bytes, ready to be sent."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None


class MismatchError(AssertionError):
    """Expected and actual results differ; the message shows both."""


class Scenario(ABC):
    """A running pipeline that a test drives; as a context manager it ends by stopping it."""

    plan: Plan
    raw_partitions: int

    def __enter__(self) -> Self:
        """Return the scenario, which runs already."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop everything."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Stop everything."""

    def send(self, topic: str, *records: Record | bytes | Message, partition: int = 0) -> None:
        """Send records to a partition of a raw topic: mappings as JSON, bytes unchanged.

        A Message has a key, headers or a timestamp, too.
        """
        self._source(topic)
        self._send(topic, partition, [_encoded(record) for record in records])

    def advance(self, topic: str, event_time: Any, partition: int | None = None) -> None:
        """Move only event time, in one partition of a raw topic or in all.

        ``event_time``: in the form of the topic's records.  The watermark moves as after a record
        with that time.

        Raises:
            ConfigurationError: the topic's event time is not a column, or its only column; send a
                record instead.
        """
        source = self._source(topic)
        time = source.event_time
        if source.format != JSON:
            raise ConfigurationError(
                f"advance({topic!r}): its records are not JSON but {source.format}; use send()"
            )
        path = time.path if isinstance(time, ColumnTime) else ()
        others = [each for each in source.schema.fields if each.name not in path[:1]]
        strict = [each.place for each in others if _is_strict(each.kind)]
        if not path or not strict:
            raise ConfigurationError(
                f"advance({topic!r}): its event time is not one column among others; use send()"
            )
        record: dict[str, Any] = {}
        _put(record, strict[0], _MOVES_TIME_ONLY)
        _put(record, _place_of(source.schema.fields, path), event_time)
        for each in range(self.raw_partitions) if partition is None else [partition]:
            self._send(topic, each, [_encoded(record)])

    def flush(self, until_ms: int) -> None:
        """Close what ends by ``until_ms``, as ``tidemark flush --until`` does.

        All partitions of the raw topics get a flush record, except those of static tables.
        """
        record = RawMessage(None, headers=[flush_header(self.plan.pipeline, until_ms)])
        for topic, count in self._flushed_topics().items():
            for partition in range(count):
                self._send(topic, partition, [record])

    def idle(self, topic: str, silence: Duration | None = None, partition: int = 0) -> None:
        """Let a partition be silent, by default for as long as makes it idle.

        In process, no time passes and no other partition is silent.  On a broker this waits, and
        all partitions without new records are silent as well.
        """
        source = self._source(topic)
        silence_ms = source.idle_after_ms if silence is None else duration_ms(silence, "idle()")
        if silence_ms < source.idle_after_ms:
            raise ConfigurationError(
                f"idle({topic!r}, {silence!r}): a source is idle after {source.idle_after_ms} ms"
            )
        self._idle(topic, partition, silence_ms)

    @abstractmethod
    def crash(self, service: str) -> None:
        """End a service at once, as ``kill -9`` does; its further work waits for ``restart``."""

    @abstractmethod
    def restart(self, service: str) -> None:
        """Start a crashed service; it continues from its last commit."""

    def published(self, name: str) -> list[dict[str, Any]]:
        """Return all panes of an output, in the order of publication within each partition."""
        self._settle()
        return self._records(self._operator(name).results)

    def panes(self, name: str) -> list[dict[str, Any]]:
        """Return what a sink holds of an output: the last pane of each key and window.

        With ``accumulation="discarding"`` that is every pane: a sink adds them up.
        """
        port = self._operator(name).results.port
        by = (*port.identity, *port.version)
        last = {tuple(pane[column] for column in by): pane for pane in self.published(name)}
        return [pane for pane in last.values() if not pane.get(RETRACTED)]

    def late(self, name: str) -> list[dict[str, Any]]:
        """Return the late rows of an output; field ``row`` has the row itself."""
        self._operator(name)
        self._settle()
        _, topic, _ = output_topics(self.plan.pipeline, name)
        topics = {topic, *(f"{topic}-{side}" for side in (*SIDES, "rules"))}
        late = [each for it in self.plan.operators for each in it.published if each.topic in topics]
        return [record for each in late for record in self._records(each)]

    def dead_letters(self) -> list[dict[str, Any]]:
        """Return the dead letters, without those of ``advance``."""
        self._settle()
        marker = json.dumps(_MOVES_TIME_ONLY)
        return [each for each in self._dead_letters() if marker not in (each["value"] or "")]

    def expect_panes(self, name: str, *expected: Record) -> None:
        """Expect that a sink holds exactly these panes, in any order.

        Only fields that ``expected`` names are compared; all panes must name the same fields.

        Raises:
            MismatchError: the sink holds other panes.
        """
        _expect(f"panes of {name}", self.panes(name), expected)

    def expect_published(self, name: str, *expected: Record) -> None:
        """Expect that exactly these panes were published, with corrections and early panes.

        The number of corrections depends on how records are cut into segments.  On a broker, only
        panes on close and final panes are the same in each run.

        Raises:
            MismatchError: other panes were published.
        """
        _expect(f"published panes of {name}", self.published(name), expected)

    def expect_late(self, name: str, *expected: Record) -> None:
        """Expect exactly these late rows of an output; fields of the row itself may be named too.

        Raises:
            MismatchError: there are other late rows.
        """
        rows = [{**row["row"], **row} for row in self.late(name)]
        _expect(f"late rows of {name}", rows, expected)

    def expect_dead_letters(self, *expected: Record) -> None:
        """Expect exactly these dead letters.

        Raises:
            MismatchError: there are other dead letters.
        """
        _expect("dead letters", self.dead_letters(), expected)

    def _source(self, topic: str) -> SourcePlan:
        for source in self.plan.sources:
            if source.reads(topic):
                return source
        names = ", ".join(name for source in self.plan.sources for name in source.topics)
        raise ConfigurationError(f"no raw topic {topic!r}: {self.plan.pipeline} reads {names}")

    def _operator(self, name: str) -> OperatorPlan:
        for operator in self.plan.operators:
            if operator.operator.name == name:
                return operator
        names = ", ".join(operator.operator.name for operator in self.plan.operators)
        raise ConfigurationError(f"no output {name!r}: {self.plan.pipeline} has {names}")

    def _require_service(self, service: str) -> None:
        if service not in self.plan.services():
            names = ", ".join(self.plan.services())
            raise ConfigurationError(f"no service {service!r}: {self.plan.pipeline} needs {names}")

    @abstractmethod
    def _flushed_topics(self) -> Mapping[str, int]:
        """Return the partition counts of existing raw topics, without those of static tables."""

    @abstractmethod
    def _send(self, topic: str, partition: int, messages: Sequence[RawMessage]) -> None:
        """Send records."""

    @abstractmethod
    def _idle(self, topic: str, partition: int, silence_ms: int) -> None:
        """Let a source be silent."""

    @abstractmethod
    def _settle(self) -> None:
        """Wait until all effects of the records sent are visible."""

    @abstractmethod
    def _records(self, port: PortPlan) -> list[dict[str, Any]]:
        """Return the records of a port, in the order of publication in each partition."""

    @abstractmethod
    def _dead_letters(self) -> list[dict[str, Any]]:
        """Return dead letters."""


def _is_strict(kind: Kind) -> bool:
    """Return whether an object makes a record a dead letter, in place of a value of the kind."""
    if isinstance(kind, Scalar):
        return not kind.lenient
    return isinstance(kind, ListOf | JsonText | TimeValue)


def _place_of(fields: Sequence[Field], path: Sequence[str]) -> tuple[str, ...]:
    """Return the names in the record that lead to a nested value of a column."""
    found = next(each for each in fields if each.name == path[0])
    inner = found.kind.fields if isinstance(found.kind, StructOf) else ()
    return found.place + (_place_of(inner, path[1:]) if len(path) > 1 else ())


def _put(record: dict[str, Any], place: Sequence[str], value: Any) -> None:
    *way, last = place
    for name in way:
        record = record.setdefault(name, {})
    record[last] = value


def _encoded(record: Record | bytes | Message) -> RawMessage:
    if not isinstance(record, Message):
        return RawMessage(_value(record))
    headers = record.headers.items() if isinstance(record.headers, Mapping) else record.headers
    return RawMessage(
        None if record.value is None else _value(record.value),
        _bytes(record.key),
        [(name, _bytes(value)) for name, value in headers],
        record.timestamp_ms,
    )


def _value(value: Record | bytes) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(dict(value)).encode()


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _expect(what: str, found: Sequence[Record], expected: Sequence[Record]) -> None:
    """Compare the named fields of two collections, in any order."""
    fields = sorted({field for record in expected for field in record})
    for record in expected:
        missing = sorted(set(fields) - set(record))
        if missing:
            raise ConfigurationError(f"{what}: {dict(record)} lacks {', '.join(missing)}")
    shown = sorted(_shown(record, fields) for record in found)
    wanted = sorted(_shown(record, fields) for record in expected)
    if shown != wanted:
        lines = [f"{what}:", *_lines("expected", wanted), *_lines("found", shown)]
        raise MismatchError("\n".join(lines))


def _shown(record: Record, fields: Sequence[str]) -> str:
    """Return the fields as JSON; without names all fields except END_OF_INPUT."""
    names = fields or [name for name in record if name != END_OF_INPUT]
    return json.dumps({name: record.get(name) for name in names}, ensure_ascii=False, default=str)


def _lines(head: str, records: Sequence[str]) -> list[str]:
    return [f"  {head}: {len(records)}", *(f"    {record}" for record in records)]
