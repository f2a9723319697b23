"""Event-time assigners: how the event time of a record is found (docs/semantics.md, "Event time").

Every form of event time becomes int64 milliseconds UTC, floored, also before 1970.
"""

from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from tidemark.core.time.time_units import is_text_unit, require_units
from tidemark.errors import PipelineError


@dataclass(frozen=True, slots=True)
class ColumnTime:
    """Event time from a column.

    ``column``: a column of a source, or with dots the path to a field in a struct column.
    ``unit``: how to read it, or several units to try in turn.  ``zone`` (IANA): of texts without an
    offset.
    """

    column: str
    unit: str | tuple[str, ...] = "ms"
    zone: str | None = None

    def __post_init__(self) -> None:
        require_units(self.units, f"event time {self.column!r}")
        if self.zone is None:
            return
        what = f"zone {self.zone!r} of event time {self.column!r}"
        if not any(map(is_text_unit, self.units)):
            raise PipelineError(f"{what}: a zone needs unit 'iso8601', not {self.unit!r}")
        try:
            pl.Series([0]).cast(pl.Datetime("ms")).dt.replace_time_zone(self.zone)
        except pl.exceptions.ComputeError:
            raise PipelineError(f"{what}: not an IANA time zone") from None

    @property
    def units(self) -> tuple[str, ...]:
        """The units, in the order to try them."""
        return (self.unit,) if isinstance(self.unit, str) else self.unit

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the column and the fields that lead to the value."""
        return tuple(self.column.split("."))


@dataclass(frozen=True, slots=True, eq=False)
class ExpressionTime:
    """Event time from an expression over one record: Int64 ms, or a Datetime with a zone."""

    expression: pl.Expr

    def __repr__(self) -> str:
        return f"ExpressionTime({self.expression})"


@dataclass(frozen=True, slots=True)
class RecordTime:
    """Event time is the timestamp of the Kafka record."""

    @property
    def written(self) -> str:
        """The event time as a user writes it."""
        return "RECORD_TIME"


@dataclass(frozen=True, slots=True)
class IngestTime:
    """Event time is the time at which ingest read the record; it never decreases in a partition."""

    @property
    def written(self) -> str:
        """The event time as a user writes it."""
        return "INGEST_TIME"


EventTime: TypeAlias = ColumnTime | ExpressionTime | RecordTime | IngestTime

RECORD_TIME = RecordTime()
INGEST_TIME = IngestTime()
