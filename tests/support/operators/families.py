"""Every family of operators with drawn settings, for tests of the operator contract.

``FAMILIES`` maps the name of a family to a function that draws a ``Case`` for a log.  Add a new
kind of operator here: all tests of the contract then run it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.support import toy
from tests.support.joins import broadcasts
from tests.support.logs import COLUMNS, EventLog
from tests.support.operators import (
    aligned,
    arrival,
    early_aligned,
    early_sessions,
    early_sliding,
    guarded,
    joins,
    late,
    ordered,
    sessions,
    sliding,
    slots,
    tables,
)
from tests.support.patterns import rules, steps
from tests.support.processing_time import by_clock
from tests.support.running import AGGREGATION, over
from tidemark.core.operators.aligned.gap_filled import GapFilled
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.late_rows import LateRows
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import Input
from tidemark.core.operators.replacing.withdrawing import Withdrawing
from tidemark.core.operators.rows import PublishRows
from tidemark.core.operators.waiting_rows import JudgesByTime
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, ROW_COLUMNS, WATERMARK, Segment
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.trigger import Trigger, on_close, on_final, on_update
from tidemark.core.windows.window import Hopping, Session, Sliding

_HOUR_MS = 3_600_000
EARLY = ("rows", "rows", "event_time", "processing_time")


@dataclass(frozen=True)
class Case:
    """An operator and a log for it.

    Args:
        operator: with drawn settings.
        segments: of the log, with the columns of the operator's inputs.
        closes: whether time closes all windows.
        forgets: whether the state is empty once time has closed all windows.
        repeats: whether a new window may have the identity of one that the state has forgotten.
        versions: whether versions of a table count as open windows; they have no bounds.
    """

    operator: Operator
    segments: tuple[Segment, ...]
    closes: bool = True
    forgets: bool = True
    repeats: bool = False
    versions: bool = False


Family = Callable[[st.DrawFn, EventLog], Case]


def _family(
    operator: Callable[[Any, Any], Operator],
    specs: st.SearchStrategy[Any],
    *,
    closes: bool = True,
) -> Family:
    def case(draw: st.DrawFn, log: EventLog) -> Case:
        return Case(operator(draw(specs), log.topics), log.segments, closes, forgets=closes)

    return case


def _join(drawn: st.SearchStrategy[Any]) -> Family:
    """Draw a join of two topics, or of a topic with itself."""

    def case(draw: st.DrawFn, log: EventLog) -> Case:
        right = draw(st.sampled_from(("u", "u", "t")))
        return Case(joins.over_topics(draw(drawn), "t", right), log.segments)

    return case


def _arrival(specs: st.SearchStrategy[Any], made: Callable[..., Any] = arrival.operator) -> Family:
    def operator(spec: tuple[Any, Any], topics: tuple[str, ...]) -> Any:
        return made(*spec, topics)

    return _family(operator, specs, closes=False)


def _calendar(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw days and weeks over a log whose milliseconds are hours."""
    windows = Calendar(draw(st.sampled_from(("day", "week"))), "Europe/Berlin")
    lateness_ms = draw(st.sampled_from((0, 3, 40))) * _HOUR_MS
    trigger: Trigger = on_final() if draw(st.booleans()) else on_close()
    body = WindowAggregate(windows, AGGREGATION, ("key",), COLUMNS, lateness_ms, trigger)
    side = Input(log.topics, ("key",), COLUMNS, frozenset(log.topics))
    return Case(Operator("w", (side,), body), tuple(map(_in_hours, log.segments)))


def _in_hours(segment: Segment) -> Segment:
    def hours(ms: int) -> int:
        return ms if ms == NEVER_MS else ms * _HOUR_MS

    marks = tuple(
        replace(
            mark,
            watermark_before_ms=hours(mark.watermark_before_ms),
            watermark_ms=hours(mark.watermark_ms),
            silence_ms=hours(mark.silence_ms),
        )
        for mark in segment.sources
    )
    times = pl.col(EVENT_TIME, WATERMARK).map_elements(hours, pl.Int64)
    streams = {name: frame.with_columns(times) for name, frame in segment.streams.items()}
    return replace(segment, sources=marks, streams=streams)


def _gap_filled(draw: st.DrawFn, log: EventLog) -> Case:
    spec = draw(early_aligned.specs())._replace(closes=True)
    plain = early_aligned.operator(spec, log.topics)
    return Case(replace(plain, body=GapFilled(plain.body)), log.segments, forgets=False)


def _sessions(draw: st.DrawFn, log: EventLog) -> Case:
    spec, segments = draw(sessions.specs()), sessions.with_gaps(log.segments)
    operator = sessions.operator(spec, log.topics)
    return Case(operator, tuple(segments), repeats=spec.own_gaps)


def _discarding_sessions(draw: st.DrawFn, log: EventLog) -> Case:
    spec = draw(early_sessions.specs(("rows",)))
    spec = spec._replace(every=0, closes=True, discarding=True)
    return Case(early_sessions.operator(spec, log.topics), log.segments)


def _processing_time(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw windows or sessions by the time of ingest, 10 ms from segment to segment."""
    kinds: Sequence[Family] = (FAMILIES["hopping"], FAMILIES["sessions"])
    case = draw(st.sampled_from(kinds))(draw, log)
    read = (replace(each, ingested_at_ms=each.ingested_at_ms // 100) for each in case.segments)
    return replace(case, operator=by_clock(case.operator), segments=tuple(read))


def _guarded(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw an operator of another family, with an aggregate that calls a user's code."""
    kinds = ("hopping", "early", "sessions", "early_sessions", "sliding", "arrival")
    case = FAMILIES[draw(st.sampled_from(kinds))](draw, log)
    return replace(case, operator=guarded.guarded(case.operator))


def _late(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw windows or sessions whose late panes wait for rows."""
    early = draw(st.booleans())
    operator = late.plain(draw, draw(st.sampled_from([*late.KINDS])), log, early=early)
    return Case(late.waiting(operator, draw(st.sampled_from((2, 3)))), log.segments)


def _rows(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw rows as they are, with or without a key."""
    key = draw(st.sampled_from(((), ("key",))))
    side = Input(log.topics, key, COLUMNS, frozenset(log.topics))
    return Case(Operator("rows", (side,), PublishRows(key, COLUMNS)), log.segments)


_STRICT = sessions.specs(strict=(True,)).map(lambda spec: spec._replace(own_gaps=False))

JUDGES: Mapping[str, tuple[Any, Any]] = {
    "aligned": (aligned.specs(), aligned.operator),
    "sliding": (sliding.specs(), sliding.operator),
    "sessions": (_STRICT, sessions.operator),
}
"""Settings and operators whose late rows depend on times and W alone."""


def _late_rows(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw the late rows of an operator of another family."""
    specs, made = draw(st.sampled_from([*JUDGES.values()]))
    by_time = draw(st.booleans())
    judge = JudgesByTime() if by_time else made(draw(specs), log.topics).body
    return Case(over(log.topics, LateRows(judge, ("key",), COLUMNS)), log.segments)


def _toy(_draw: st.DrawFn, log: EventLog) -> Case:
    return Case(TOY, tuple(map(toy_segment, log.segments)))


STREAMS = {toy.ORDERS: "t", toy.PAYMENTS: "u"}
"""Of each side of the toy, the topic of a drawn log that it reads."""

TOY_SIZE_MS = 10
TOY = toy.balances(STREAMS, TOY_SIZE_MS)


def toy_segment(segment: Segment) -> Segment:
    """Give the streams of a drawn log the columns of the toy's sides."""
    frames = {}
    for side, stream in STREAMS.items():
        if stream in segment.streams:
            frame = segment.streams[stream].rename({"key": "account", "value": toy.VALUES[side]})
            frames[stream] = frame.with_columns(pl.lit(0, pl.Int64).alias("at")).select(
                *ROW_COLUMNS, *toy.COLUMNS[side]
            )
    return replace(segment, streams=frames)


def _table_join(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw rows of one topic joined to versions of another."""
    return Case(tables.operator(draw(tables.specs())), log.segments, versions=True)


def _broadcast_join(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw rows of one topic joined to the versions of all keys of another."""
    return Case(broadcasts.operator(draw(broadcasts.specs())), log.segments, versions=True)


def _rules(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw rows of one topic matched by rules of another."""
    spec = draw(rules.rules_specs())
    segments = tuple(rules.with_rules(segment, spec) for segment in log.segments)
    operator = rules.operator(spec, timeouts=draw(st.booleans()))
    closes = spec.wait == "event_time"
    return Case(operator, segments, closes, forgets=False, versions=True)


def _withdrawing(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw windows of another family that withdraw the panes that they replace."""
    kinds = ("hopping", "sliding", "early_aligned", "early_sliding")
    case = _ACCUMULATING[draw(st.sampled_from(kinds))](draw, log)
    lateness_ms: int = case.operator.outputs[0].holds_ms or 0
    body = Withdrawing(case.operator.body, ("key",), lateness_ms)
    return replace(case, operator=replace(case.operator, body=body))


_WINDOWS: tuple[Hopping | Sliding | Session, ...] = (
    Hopping(6, 3),
    Hopping(7, 7),
    Sliding(4),
    Session(5),
)
_TRIGGERS: tuple[Trigger, ...] = (on_close(), on_final(), on_update())


def _slots(draw: st.DrawFn, log: EventLog) -> Case:
    """Draw windows of results that replace each other."""
    windows = draw(st.sampled_from(_WINDOWS))
    trigger = draw(st.sampled_from(_TRIGGERS))
    operator = slots.operator(windows, draw(st.integers(0, 9)), trigger, log.topics)
    segments = tuple(map(slots.segment_of_changes, log.segments))
    return Case(operator, segments, repeats=True)  # late rows have the identity of their result


FAMILIES: Mapping[str, Family] = {
    "tumbling": _family(
        aligned.operator,
        aligned.specs().map(lambda spec: spec._replace(slide_ms=spec.size_ms, offset_ms=0)),
    ),
    "hopping": _family(aligned.operator, aligned.specs()),
    "calendar": _calendar,
    "discarding": _family(
        early_aligned.operator,
        early_aligned.specs((None,)).map(lambda spec: spec._replace(discarding=True)),
    ),
    "early": _family(early_aligned.operator, early_aligned.specs(EARLY)),
    "gap_filled": _gap_filled,
    "sessions": _sessions,
    "discarding_sessions": _discarding_sessions,
    "early_sessions": _family(early_sessions.operator, early_sessions.specs()),
    "sliding": _family(sliding.operator, sliding.specs()),
    "discarding_sliding": _family(early_sliding.operator, early_sliding.specs((None,))),
    "early_sliding": _family(early_sliding.operator, early_sliding.specs(EARLY)),
    "arrival": _arrival(
        arrival.specs(("count", "delta", "punctuation", "global"), st.none() | arrival.EVERY)
    ),
    "discarding_arrival": _arrival(arrival.discarding_specs()),
    "in_event_time": _arrival(arrival.in_event_time_specs(), arrival.in_event_time),
    "rolling": _arrival(arrival.specs(("steps",), st.none() | arrival.EVERY)),
    "processing_time": _processing_time,
    "rows": _rows,
    "distinct": _family(ordered.distinct, ordered.distincts),
    "scan": _family(ordered.scan, ordered.scans.filter(bool)),
    "late_rows": _late_rows,
    "pattern": _family(steps.operator, steps.specs()),
    "toy": _toy,
    "join": _join(joins.joins()),
    "window_join": _join(joins.window_joins()),
    "gathering_join": _join(joins.gathering_joins()),
    "session_join": _join(joins.session_joins()),
    "guarded": _guarded,
    "late": _late,
    "withdrawing": _withdrawing,
    "slots": _slots,
    "table_join": _table_join,
    "broadcast_join": _broadcast_join,
    "rules": _rules,
}

_ACCUMULATING: Mapping[str, Family] = {
    "hopping": FAMILIES["hopping"],
    "sliding": FAMILIES["sliding"],
    "early_aligned": _family(
        early_aligned.operator,
        early_aligned.specs(("rows", "event_time")).map(
            lambda spec: spec._replace(discarding=False)
        ),
    ),
    "early_sliding": _family(
        early_sliding.operator,
        early_sliding.specs(("rows",)).map(lambda spec: spec._replace(discarding=False)),
    ),
}
"""Families whose panes replace each other."""

_OTHERS = (
    *("rows", "distinct", "scan", "late_rows", "toy", "guarded", "slots"),
    *("join", "window_join", "gathering_join", "session_join", "table_join"),
    "broadcast_join",
    "pattern",
    "rules",
)
AGGREGATING = [name for name in FAMILIES if name not in _OTHERS]
"""The families whose aggregates a test can replace."""
