"""Event-time assigners: what of a record says when it happened (docs/semantics.md, "Event time").

Whatever the form, event time becomes int64 milliseconds UTC, floored, also before 1970.
"""

from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from tidemark.errors import PipelineError

UNITS = ("s", "ms", "us", "ns", "iso8601")
"""How a column can hold event time: numbers since 1970 in a unit, or ISO 8601 text."""


@dataclass(frozen=True, slots=True)
class ColumnTime:
    """Event time from a column; ``zone`` (IANA) is that of texts that name no offset."""

    column: str
    unit: str = "ms"
    zone: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise PipelineError(f"unit of event time {self.column!r}: {self.unit!r} not in {UNITS}")
        if self.zone is None:
            return
        what = f"zone {self.zone!r} of event time {self.column!r}"
        if self.unit != "iso8601":
            raise PipelineError(f"{what}: only with unit 'iso8601', not {self.unit!r}")
        try:
            pl.Series([0]).cast(pl.Datetime("ms")).dt.replace_time_zone(self.zone)
        except pl.exceptions.ComputeError:
            raise PipelineError(f"{what}: no IANA time zone") from None


@dataclass(frozen=True, slots=True, eq=False)
class ExpressionTime:
    """Event time from an expression over one record: Int64 ms, or a Datetime with a zone."""

    expression: pl.Expr

    def __repr__(self) -> str:
        return f"ExpressionTime({self.expression})"


@dataclass(frozen=True, slots=True)
class RecordTime:
    """Event time is the Kafka record's timestamp."""


@dataclass(frozen=True, slots=True)
class IngestTime:
    """Event time is the moment ingest read the record; it never goes back within a partition."""


EventTime: TypeAlias = ColumnTime | ExpressionTime | RecordTime | IngestTime

RECORD_TIME = RecordTime()
INGEST_TIME = IngestTime()
