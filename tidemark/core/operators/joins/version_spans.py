"""Spans: from when until when each version of a table is the answer of its key.

See docs/semantics.md, "Tables": a version counts from FROM on, until a higher one of its key counts
or the version is too old.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from tidemark.core.operators.joins.version_runs import (
    DELETED,
    FROM,
    RANK,
    best_of,
    sorted_versions,
)
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Hashes
from tidemark.core.time.segment import EVENT_TIME

UNTIL = "@until"
"""Int64 ms: rows before this time have the version."""


def spans_of(versions: pl.DataFrame, key: Sequence[str], keep_ms: int) -> pl.DataFrame:
    """Return the versions that answer rows of some time, in order of RANK, with UNTIL.

    ``versions``: columns of keys and values, FROM, DELETED and RANK.  A tombstone ends the version
    before it, and has no span.
    """
    empty = versions.clear().with_columns(pl.lit(0, pl.Int64).alias(UNTIL))
    parts = [empty, *(_spans(*each, keep_ms) for each in sorted_versions(versions, key))]
    return pl.concat(parts).sort(RANK)


def _spans(hashes: Hashes, ordered: pl.DataFrame, keep_ms: int) -> pl.DataFrame:
    """Return the spans of versions in order of hash, FROM and RANK; a hash has one key."""
    best = best_of(hashes, ordered)
    highest = np.flatnonzero(best == np.arange(best.size))
    ordered, hashes = lines_at(ordered, highest), hashes[highest]
    from_ms = ordered[FROM].to_numpy()
    until_ms = ordered[EVENT_TIME].to_numpy() + (keep_ms + 1)
    followed = np.flatnonzero(hashes[1:] == hashes[:-1])
    until_ms[followed] = np.minimum(until_ms[followed], from_ms[followed + 1])
    spans = ordered.with_columns(pl.Series(UNTIL, until_ms))
    return spans.filter(pl.Series(from_ms < until_ms) & ~ordered[DELETED])
