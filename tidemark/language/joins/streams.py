"""Joins of two streams: the rows that pair, and the rows without a partner."""

import polars as pl

from tidemark.core.operators.joins.results import END_MS, START_MS
from tidemark.core.operators.joins.side import Kind
from tidemark.core.rows.options import require_choice, require_count
from tidemark.core.time.duration import Duration
from tidemark.core.windows.trigger import Trigger
from tidemark.core.windows.window import Session
from tidemark.errors import PipelineError
from tidemark.language.joins.bounds import JoinWindow, Within, bounds_of
from tidemark.language.joins.joined_stream import JoinedStream, require_no_field
from tidemark.language.joins.sides import is_on_close, lateness_of, results_of, sides_of
from tidemark.language.keyed import KeyedStream
from tidemark.language.windows import DynamicGapSession
from tidemark.plan.logical import JoinStage, Node


def joined(
    left_stream: KeyedStream,
    right_stream: KeyedStream,
    *,
    within: Within | None,
    max_within: Duration | None,
    keep: Duration | None,
    window: JoinWindow | DynamicGapSession | None,
    how: Kind,
    on: pl.Expr | None,
    allowed_lateness: Duration,
    trigger: Trigger | None,
    suffix: str,
    max_pairs: int,
) -> JoinedStream:
    """Return the stream of the pairs of two keyed streams; see ``KeyedStream.join``."""
    left, right = sides_of(left_stream, right_stream)
    require_choice(how, Kind, "join(how)")
    require_count(max_pairs, "join(max_pairs)")
    bounds = bounds_of(left.node, within, max_within, keep, window)
    lateness_ms = lateness_of(allowed_lateness)
    on_close = is_on_close(trigger) and lateness_ms > 0
    if on_close and isinstance(window, Session):
        raise PipelineError(
            "join(trigger): a join in sessions publishes a session once, when it is final; leave "
            "out trigger=on_close()"
        )
    shown, columns = results_of(left, right, suffix, how, on)
    of_window = () if window is None else (START_MS, END_MS)
    require_no_field(columns, of_window, on_close=on_close)
    stage = JoinStage(
        (left, right),
        shown,
        how,
        bounds.lower_ms,
        bounds.upper_ms,
        lateness_ms,
        on_close,
        on,
        bounds.upper,
        max_pairs,
        bounds.relation,
        bounds.windows,
    )
    return JoinedStream(left_stream.dataflow, Node(columns, stage=stage), stage)
