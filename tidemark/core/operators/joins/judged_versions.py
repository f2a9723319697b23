"""Which rows of a table are versions, from when on they count, and which ones are late.

See docs/semantics.md, "Tables".
"""

import numpy as np
import polars as pl

from tidemark.core.operators.joins.version_runs import DELETED, FROM
from tidemark.core.operators.operator import missed
from tidemark.core.operators.ports import REASON
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK

TOO_OLD = "older than the table keeps versions"
"""Reason of a late version."""


def judged_versions(
    table: pl.DataFrame, keep_ms: int, allowed_lateness_ms: int, deleted: pl.Expr | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the versions that count, with FROM and DELETED, and the late ones, with REASON."""
    at_ms, w_ms = table[EVENT_TIME].to_numpy(), table[WATERMARK].to_numpy()
    old = at_ms + keep_ms < w_ms
    ends_ms = at_ms[old] + keep_ms + 1
    late = missed(table.filter(pl.Series(old)), at_ms[old], ends_ms, ends_ms)
    lateness_ms = allowed_lateness_ms
    from_ms = np.maximum(at_ms, np.maximum(w_ms, NEVER_MS + lateness_ms) - lateness_ms)
    is_deleted = pl.lit(value=False) if deleted is None else deleted.fill_null(value=False)
    versions = table.with_columns(pl.Series(FROM, from_ms), is_deleted.alias(DELETED)).filter(
        pl.Series(~old)
    )
    return versions, late.with_columns(pl.lit(TOO_OLD).alias(REASON))
