"""The rows of tombstones: records without a value, in the streams that tables read.

A tombstone has only its Kafka key and its timestamp.  See docs/semantics.md, "Tombstones".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from tidemark.core.rows.copies import COPY, Copies
from tidemark.core.rows.schema import Field, Scalar, Schema
from tidemark.core.rows.tombstones import TOMBSTONE, WithTombstones
from tidemark.core.time.event_time import LATEST_MS, OUT_OF_RANGE
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, SUB_ROW, WATERMARK
from tidemark.core.time.text_times import Times
from tidemark.core.time.watermark import delay_ms
from tidemark.ingest.metadata_columns import ReportDead
from tidemark.plan.physical import SourcePlan
from tidemark.serde.json_records import JsonRecords, json_reason
from tidemark.serde.parsed_batch import Indices
from tidemark.serde.records import RecordBatch

_STAGE, _PLACE = "tombstone", "@place"
_REMEDY = "table(tombstones=False) leaves such records out"

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_value = msgspec.json.Decoder(msgspec.Raw).decode
_text = msgspec.json.Decoder(str).decode


class _KafkaKeys:
    """Reads the columns of the key of a table from Kafka keys."""

    def __init__(self, schema: Schema, places: Mapping[str, str]) -> None:
        """Prepare; ``schema``: of the source; ``places``: as of ``WithTombstones.key``."""
        fields = {each.name: each for each in schema.fields}
        self._is_whole = list(places.values()) == ["_key"]
        read = [
            replace(
                Field(name, Scalar(pl.String())) if self._is_whole else fields[place],
                name=name,
                path=() if self._is_whole else fields[place].place[-1:],
                required=True,
                default=None,
            )
            for name, place in places.items()
        ]
        self._members = [each.place[0] for each in read]
        self._is_text = [each.kind for each in read] == [Scalar(pl.String())]
        self._records = JsonRecords(Schema(tuple(read)))

    def read(self, keys: Sequence[bytes | None]) -> tuple[pl.DataFrame, Mapping[int, str]]:
        """Return the columns of Kafka keys, and by place why some have none: their row is null."""
        documents: list[bytes] = []
        reasons: dict[int, str] = {}
        for place, key in enumerate(keys):
            try:
                documents.append(self._document(key))
            except (ValueError, msgspec.DecodeError) as error:
                documents.append(b"{}")
                is_ours = type(error) is ValueError
                reasons[place] = str(error) if is_ours else json_reason(error, key or b"")
        parsed = self._records.parse(RecordBatch.of_values("", 0, 0, documents, 0))
        for each in parsed.dead:
            reasons.setdefault(each.index, each.reason)
        places = pl.DataFrame({_PLACE: np.arange(len(keys))})
        found = parsed.columns.with_columns(pl.Series(_PLACE, parsed.records))
        rows = places.join(found, on=_PLACE, how="left", maintain_order="left")
        return rows.drop(_PLACE), reasons

    def _document(self, key: bytes | None) -> bytes:
        """Return a Kafka key as a JSON object of the columns.

        Raises:
            ValueError: it has another form.
        """
        if key is None:
            raise ValueError("none, so the record names no key of the table")
        if key.startswith(b"\0"):
            raise ValueError("it has the framing of a schema registry, which is not read")
        text = key.strip()
        if self._is_whole:
            return self._object_of([json.dumps(key.decode()).encode()])
        if text.startswith(b"{") and (found := self._members_of(text)) is not None:
            return found
        if len(self._members) > 1:
            values = list(map(bytes, _array(text))) if text.startswith(b"[") else []
            if len(values) != len(self._members):
                raise ValueError(f"no JSON object with {', '.join(self._members)}")
            return self._object_of(values)
        if self._is_text and not _is_json_text(text):
            return self._object_of([json.dumps(key.decode()).encode()])
        return self._object_of([bytes(_value(text))])

    def _members_of(self, text: bytes) -> bytes | None:
        """Return a JSON object, or the payload of Debezium's; None if a text only looks like it."""
        try:
            found = _object(text)
        except msgspec.DecodeError:
            if self._is_text:
                return None
            raise
        return bytes(found["payload"]) if found.keys() == {"schema", "payload"} else text

    def _object_of(self, values: Sequence[bytes]) -> bytes:
        members = zip(self._members, values, strict=True)
        return b"{%s}" % b",".join(json.dumps(n).encode() + b":" + value for n, value in members)


def _is_json_text(text: bytes) -> bool:
    try:
        _text(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


class WithDeleted(NamedTuple):
    """Streams with the rows of tombstones, and the numbers of good and of dead ones."""

    streams: Mapping[str, pl.DataFrame]
    passed: int = 0
    dead: int = 0


class Tombstones:
    """Adds the rows of tombstones to the streams of one source."""

    def __init__(self, plan: SourcePlan) -> None:
        """Find the streams that tables read."""
        self._delay_ms = delay_ms(plan.watermark)
        self._tables: dict[str, _KafkaKeys] = {}
        for name, keyed in plan.graph.streams.items():
            step = plan.graph.steps[keyed.step]
            if isinstance(step.operator, Copies):
                step = plan.graph.steps[step.inputs[0]]
            operator = step.operator
            if isinstance(operator, WithTombstones):
                self._tables[name] = _KafkaKeys(plan.schema, operator.key)

    def added(
        self,
        streams: Mapping[str, pl.DataFrame],
        batch: RecordBatch,
        blank: Sequence[int],
        watermarks: Times,
        shown: Times,
        report_dead: ReportDead,
    ) -> WithDeleted:
        """Return streams with the rows of tombstones, in the order of the log.

        ``blank``: the records without content.  ``watermarks``: before each record.
        ``shown``: those that rows have, which are NEVER_MS while the source is loaded.
        ``report_dead`` gets a tombstone whose Kafka key is no key of a table.
        """
        found = [n for n in blank if batch.values[n] is None] if self._tables else []
        at = np.array(found, np.intp)
        at_ms = self._event_times(batch, at, watermarks)
        at, at_ms = at[at_ms != NEVER_MS], at_ms[at_ms != NEVER_MS]  # nothing is before the others
        if not at.size:
            return WithDeleted(streams)
        keys = [batch.keys[index] for index in at.tolist()]
        read = {name: each.read(keys) for name, each in self._tables.items()}
        reasons = dict.fromkeys(np.flatnonzero(at_ms > LATEST_MS).tolist(), OUT_OF_RANGE)
        for _, found_reasons in read.values():
            reasons |= {n: f"Kafka key: {why}; {_REMEDY}" for n, why in found_reasons.items()}
        for place, reason in sorted(reasons.items()):
            report_dead(int(at[place]), _STAGE, reason)
        good = np.setdiff1d(np.arange(at.size), list(reasons))
        lead = pl.DataFrame(
            {OFFSET: batch.log_offsets[at], EVENT_TIME: at_ms, WATERMARK: shown[at]}
        )
        added = {
            name: _merged(streams[name], lead.hstack(columns)[good])
            for name, (columns, _) in read.items()
        }
        return WithDeleted({**streams, **added}, good.size, len(reasons))

    def _event_times(self, batch: RecordBatch, at: Indices, watermarks: Times) -> Times:
        """Return the times of tombstones: their timestamps, but not before earlier records."""
        before = watermarks[at]
        largest = np.where(before == NEVER_MS, NEVER_MS, before + self._delay_ms)
        stamps = batch.timestamp_column()[at]
        return np.maximum(np.where(stamps < 0, NEVER_MS, stamps), largest)


def _merged(rows: pl.DataFrame, deleted: pl.DataFrame) -> pl.DataFrame:
    """Return rows of a stream and rows of tombstones, in the order of the log."""
    marks = (pl.lit(value=True).alias(TOMBSTONE), pl.lit(0, pl.Int32).alias(SUB_ROW))
    both = pl.concat([rows, deleted.with_columns(marks)], how="diagonal")
    if COPY in rows.columns:
        both = both.with_columns(pl.col(COPY).fill_null(value=False))
    return both.select(rows.columns).sort(OFFSET, maintain_order=True)
