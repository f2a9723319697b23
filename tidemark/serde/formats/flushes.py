"""Flush records: raw records that move the watermark of their source and become no row.

See docs/semantics.md, "Flush".
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from tidemark.core.time.event_time import EARLIEST_MS, LATEST_MS
from tidemark.errors import ConfigurationError
from tidemark.serde.records import Headers, RecordBatch

HEADER = "tidemark-flush"
"""The header of a flush record: JSON of ``Flush``.  Also the key in a compacted topic."""

ReportDead = Callable[[int, str, str], None]

_STAGE = "flush"


class Flush(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """A flush: after its record, the watermark of the source is at least ``until_ms``.

    ``pipeline``: the pipeline to flush.
    """

    pipeline: str
    until_ms: int

    def __post_init__(self) -> None:
        if not EARLIEST_MS <= self.until_ms <= LATEST_MS:
            raise ValueError(f"untilMs {self.until_ms} is outside the years 0001 to 9999")


def flush_header(pipeline: str, until_ms: int) -> tuple[str, bytes]:
    """Return the header of a flush record.

    Raises:
        ConfigurationError: the time is outside the years 0001 to 9999.
    """
    try:
        return HEADER, msgspec.json.encode(Flush(pipeline, until_ms))
    except ValueError as error:
        raise ConfigurationError(f"flush: {error}") from None


def is_flush(headers: Headers) -> bool:
    """Return whether headers are those of a flush record of any pipeline."""
    return any(name == HEADER for name, _ in headers or ())


def flushes_of(
    batch: RecordBatch, blank: Sequence[int], pipeline: str, report_dead: ReportDead
) -> tuple[Mapping[int, int], Sequence[int]]:
    """Return the times of the flushes of a pipeline by record, and the other blank records.

    ``blank``: the records without content.  ``report_dead`` gets each unreadable flush.  Neither
    result has an unreadable flush, or a flush of another pipeline.
    """
    found: dict[int, int] = {}
    others = []
    for index in blank:
        headers = batch.headers[index]
        if not is_flush(headers):
            others.append(index)
            continue
        (value, *_) = (value for name, value in headers or () if name == HEADER)
        try:
            flush = msgspec.json.decode(value or b"", type=Flush)
        except msgspec.DecodeError as error:
            report_dead(index, _STAGE, f"header {HEADER}: {error}")
            continue
        if flush.pipeline == pipeline:
            found[index] = flush.until_ms
    return found, others
