"""Metadata columns of the Kafka record: ``_key``, ``_timestamp``, ... (expression.METADATA).

A column is made only if the pipeline names it.  So a key that is not UTF-8 makes a dead letter only
if the pipeline names ``_key``.  The value of a header never does: it may be one that nobody reads.
See docs/semantics.md, "Metadata columns".
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.rows.expression import METADATA
from tidemark.serde.records import Headers, RecordBatch

Indices = npt.NDArray[np.intp]
ReportDead = Callable[[int, str, str], None]


def with_metadata(
    names: Sequence[str],
    records: Indices,
    rows: pl.DataFrame,
    batch: RecordBatch,
    report_dead: ReportDead,
) -> tuple[Indices, pl.DataFrame]:
    """Return records and rows with the columns ``names`` added.

    ``records``: the indices in ``batch`` of ``rows``.  Records whose key, or name of a header, is
    not UTF-8 are left out, and reported to ``report_dead`` with index, stage and reason.
    """
    if not names:
        return records, rows
    texts: dict[str, list[Any]] = {name: [] for name in names if name in _TEXTS}
    kept = np.ones(len(records), np.bool_)
    for name, values in texts.items():
        for position, index in enumerate(records.tolist()):
            try:
                values.append(_TEXTS[name](batch, index))
            except UnicodeDecodeError as error:
                kept[position] = False
                values.append(None)
                report_dead(index, name, f"{name} is not UTF-8 (byte {error.start})")
    columns = [_column(name, texts, records, batch) for name in names]
    rows = rows.with_columns(columns)
    return (records, rows) if kept.all() else (records[kept], rows.filter(pl.Series(kept)))


def _column(
    name: str, texts: dict[str, list[Any]], records: Indices, batch: RecordBatch
) -> pl.Series | pl.Expr:
    if name in texts:
        return pl.Series(name, texts[name], METADATA[name])
    if name == "_timestamp":
        stamps = pl.Series(name, batch.timestamp_column()[records])
        return stamps.set(stamps < 0, None)
    if name == "_offset":
        return pl.Series(name, batch.offsets[records])
    value = batch.partition if name == "_partition" else batch.topic
    return pl.lit(value, METADATA[name]).alias(name)


def _key(batch: RecordBatch, index: int) -> str | None:
    key = batch.keys[index]
    return None if key is None else key.decode()


def _headers(batch: RecordBatch, index: int) -> list[dict[str, str | None]]:
    headers: Headers = batch.headers[index]
    return [
        {"name": name, "value": None if value is None else value.decode(errors="backslashreplace")}
        for name, value in headers or ()
    ]


_TEXTS: dict[str, Callable[[RecordBatch, int], Any]] = {"_key": _key, "_headers": _headers}
