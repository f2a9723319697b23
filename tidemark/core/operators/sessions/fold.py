"""How sessions merge: which rows and stored sessions of a key become one, which rows are late.

See docs/semantics.md, "Sessions".  Only bounds and lateness are decided here.  The operator
aggregates rows by the session numbers that ``merge`` returns, and withdraws the panes of sessions
whose start moved (operator.py, ``_taken`` and ``publish``).

Theory of operation.  A row is a fragment [t, t + gap), where each row may have a gap of its own.
A stored session is a fragment [start, end).

1. Fragments of a key that overlap, directly or through others, form a *component*.  A row can only
   merge with fragments of its own component.
2. A component is *plain* if the order of its rows cannot matter: no two of its stored sessions
   overlap, and no row with W > t has W at or past the first end among its fragments.  Then each row
   sees every session that it overlaps.  (A row with W <= t only overlaps ends after W.  For the
   others, W is before every end.)  No row is late, and the component is one session.
3. The rows of all other components are folded one by one in log order, by ``_Timeline``.

That is ``lateness="after_merging"``.  With "strict", the default, late rows are removed first.
Every session that an accepted row overlaps is visible to it (end > t >= W - allowed lateness).  So
the order never matters, and all components are treated as plain.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from tidemark.core.operators.sessions.history import taken_into
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NONE = -1
"""In place of a session number: the row is late, or the stored session does not change."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in log order.  ``key``: the number of the key; ``end_ms``: event time + gap."""

    key: Numbers
    at_ms: Numbers
    end_ms: Numbers
    watermark_ms: Numbers


@dataclass(frozen=True, slots=True)
class StoredSessions:
    """Live sessions of the keys that have rows."""

    key: Numbers
    start_ms: Numbers
    end_ms: Numbers
    late: Mask


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The sessions that rows were folded into, numbered from 0 in order of their key's number.

    ``of_row`` and ``of_stored`` give the session of each row and stored session, or NONE.
    ``first_row``, ``start_ms``, ``end_ms`` and ``late`` are per session.
    """

    of_row: Numbers
    of_stored: Numbers
    first_row: Numbers
    start_ms: Numbers
    end_ms: Numbers
    late: Mask


def merge(
    rows: Rows,
    stored: StoredSessions,
    allowed_lateness_ms: int,
    strict: bool,
    versions: Numbers | None = None,
) -> MergeResult:
    """Fold rows into sessions.

    Args:
        rows: in log order; with ``strict`` without late rows.
        stored: live sessions of the keys of the rows.
        allowed_lateness_ms: of the windows.
        strict: whether lateness is decided before merging.
        versions: if given, receives the history (history.py): for each stored session, then for
            each row, the node that took in its version, or NONE.
    """
    axis_start, axis_end = _on_one_axis(rows, stored)
    component, size = _components(axis_start, axis_end)
    of_row, of_stored = component[: rows.key.size].copy(), component[rows.key.size :].copy()
    has_rows = np.zeros(size, np.bool_)
    has_rows[of_row] = True
    of_stored[~has_rows[of_stored]] = NONE
    behind = rows.watermark_ms > rows.at_ms
    joined_late = behind if strict else np.zeros(behind.size, np.bool_)
    ordered = np.zeros(size, np.bool_)
    if not strict:
        ordered = _ordered(component, size, rows, stored, behind)
    if versions is not None:
        # In the history stored sessions come before rows.
        nodes, axis_start, axis_end = (
            np.roll(of, stored.key.size) for of in (component, axis_start, axis_end)
        )
        plain = np.flatnonzero(has_rows[nodes] & ~ordered[nodes])
        into = taken_into(axis_start[plain], axis_end[plain])
        versions[plain] = np.where(into == NONE, NONE, plain[into])
    if ordered.any():
        fold = _RowFold(allowed_lateness_ms, stored.key.size)
        fold.run(rows, stored, of_row, of_stored, ordered, joined_late, versions)
        size += fold.sessions
    return _numbered(rows, stored, of_row, of_stored, joined_late, size)


def _components(axis_start: Numbers, axis_end: Numbers) -> tuple[Numbers, int]:
    """Number the components of rows, then stored sessions, in order of key; return their count."""
    order = np.argsort(axis_start)
    opens = np.ones(order.size, np.bool_)
    opens[1:] = axis_start[order[1:]] >= np.maximum.accumulate(axis_end[order])[:-1]
    component = np.empty(order.size, np.int64)
    component[order] = np.cumsum(opens) - 1
    return component, int(np.count_nonzero(opens))


def _on_one_axis(rows: Rows, stored: StoredSessions) -> tuple[Numbers, Numbers]:
    """Return starts and ends on one axis for all keys, on which different keys never overlap."""
    key = np.concatenate((rows.key, stored.key))
    times = np.concatenate((rows.at_ms, stored.start_ms, rows.end_ms, stored.end_ms))
    first_ms, last_ms = int(times.min()), int(times.max())
    keys = int(key.max()) + 1
    if keys * (last_ms - first_ms + 1) > FOREVER_MS:
        # Ranks are in the same order as times and always fit.
        _, times = np.unique(times, return_inverse=True)
        first_ms, last_ms = 0, times.size
    axis_start = (times - first_ms).reshape(2, -1) + key * (last_ms - first_ms + 1)
    return axis_start[0], axis_start[1]


def _ordered(
    component: Numbers, size: int, rows: Rows, stored: StoredSessions, behind: Mask
) -> Mask:
    """Mark the components that are not plain and must be folded row by row."""
    of_row, of_stored = component[: rows.key.size], component[rows.key.size :]
    ordered = np.zeros(size, np.bool_)
    if behind.any():
        first_end = np.full(size, FOREVER_MS)
        np.minimum.at(first_end, of_row, rows.end_ms)
        np.minimum.at(first_end, of_stored, stored.end_ms)
        ordered[of_row[behind & (rows.watermark_ms >= first_end[of_row])]] = True
    if np.bincount(of_stored, minlength=1).max() > 1:
        ordered[_overlapping(of_stored, stored)] = True
    return ordered


def _overlapping(of_stored: Numbers, stored: StoredSessions) -> Numbers:
    """Return the components in which stored sessions overlap; comparing neighbours is enough."""
    by_start = np.lexsort((stored.start_ms, of_stored))
    component = of_stored[by_start]
    overlap = stored.start_ms[by_start][1:] < stored.end_ms[by_start][:-1]
    neighbours: Numbers = component[1:][overlap & (component[1:] == component[:-1])]
    return neighbours


def _numbered(
    rows: Rows,
    stored: StoredSessions,
    of_row: Numbers,
    of_stored: Numbers,
    joined_late: Mask,
    size: int,
) -> MergeResult:
    """Number sessions without gaps, in order of key; find the bounds and timing of each."""
    first_row = np.full(size + 1, NONE)
    first_row[of_row[::-1]] = np.arange(of_row.size)[::-1]
    first_row[NONE] = NONE
    used = np.flatnonzero(first_row >= 0)
    used = used[np.argsort(rows.key[first_row[used]], kind="stable")]
    number = np.full(size + 1, NONE)
    number[used] = np.arange(used.size)
    of_row, of_stored = number[of_row], number[of_stored]
    start_ms, end_ms = np.full(used.size, FOREVER_MS), np.full(used.size, NEVER_MS)
    late = np.zeros(used.size, np.bool_)
    accepted, touched = of_row >= 0, of_stored >= 0
    for members, starts, ends in (
        (of_row[accepted], rows.at_ms[accepted], rows.end_ms[accepted]),
        (of_stored[touched], stored.start_ms[touched], stored.end_ms[touched]),
    ):
        np.minimum.at(start_ms, members, starts)
        np.maximum.at(end_ms, members, ends)
    late[of_row[accepted & joined_late]] = True
    late[of_stored[touched & stored.late]] = True
    return MergeResult(of_row, of_stored, first_row[used], start_ms, end_ms, late)


@dataclass(slots=True, eq=False)
class _Span:
    """A session while rows are folded.

    ``node``: its number in the history.  ``into``: the session that absorbed it.  ``number``: the
    number of the session that it became part of.
    """

    start_ms: int
    end_ms: int
    node: int
    into: "_Span | None" = None
    number: int = NONE

    def absorb(self, other: "_Span") -> None:
        """Extend this session by another one."""
        self.start_ms = min(self.start_ms, other.start_ms)
        self.end_ms = max(self.end_ms, other.end_ms)
        other.into = self

    def now(self) -> "_Span":
        """Return the session that this one is now part of, and shorten the path to it."""
        last = self
        while last.into is not None:
            last = last.into
        span = self
        while span.into is not None:
            span.into, span = last, span.into
        return last


_START = attrgetter("start_ms")


@dataclass(slots=True)
class _Timeline:
    """The sessions of one component in order of start, while its rows come in log order."""

    allowed_lateness_ms: int
    spans: list[_Span] = field(default_factory=list)
    overlapping: bool = False  # whether spans overlap, because rows could not see one of them

    def put(self, span: _Span) -> None:
        """Add a stored session."""
        insort(self.spans, span, key=_START)

    def watch_overlaps(self) -> None:
        """Note whether stored sessions overlap."""
        pairs = zip(self.spans, self.spans[1:], strict=False)
        self.overlapping = any(later.start_ms < span.end_ms for span, later in pairs)

    def fold(
        self, at_ms: int, end_ms: int, watermark_ms: int, node: int
    ) -> tuple[_Span | None, bool]:
        """Fold a row; return its session, and whether W had reached an end.

        The session is None if the row is late.  The end is that of the row, or of a session that
        the row joined.
        """
        overlapped = self._overlapping_spans(at_ms, end_ms)
        first_seen_ms = watermark_ms - self.allowed_lateness_ms + 1
        seen = [index for index in overlapped if self.spans[index].end_ms >= first_seen_ms]
        if not seen and end_ms + self.allowed_lateness_ms <= watermark_ms:
            return None, False
        self.overlapping |= len(seen) < len(overlapped)
        joined = _Span(at_ms, end_ms, node)
        first_end_ms = end_ms
        for index in seen:
            first_end_ms = min(first_end_ms, self.spans[index].end_ms)
            joined.absorb(self.spans.pop(index))
        self.put(joined)
        return joined, first_end_ms <= watermark_ms

    def _overlapping_spans(self, at_ms: int, end_ms: int) -> list[int]:
        """Return the places of spans that overlap [at_ms, end_ms), last first."""
        overlapped = []
        for index in range(bisect_left(self.spans, end_ms, key=_START) - 1, -1, -1):
            if self.spans[index].end_ms > at_ms:
                overlapped.append(index)
            elif not self.overlapping:
                break
        return overlapped


class _RowFold:
    """Fold the rows of some components one by one, into sessions numbered from 0."""

    def __init__(self, allowed_lateness_ms: int, stored: int) -> None:
        self.sessions = 0
        self._stored = stored
        self._timelines = defaultdict[int, _Timeline](lambda: _Timeline(allowed_lateness_ms))

    def run(
        self,
        rows: Rows,
        stored: StoredSessions,
        of_row: Numbers,
        of_stored: Numbers,
        ordered: Mask,
        joined_late: Mask,
        versions: Numbers | None,
    ) -> None:
        """Replace component numbers by session numbers, which begin after all component numbers."""
        ours = np.flatnonzero((of_stored >= 0) & ordered[of_stored])
        stored_spans = self._load(stored, of_stored, ours)
        which = np.flatnonzero(ordered[of_row])
        spans, after_end = self._fold(rows, of_row, which)
        joined_late[which] = after_end
        if versions is not None:
            made = [*stored_spans, *(span for span in spans if span is not None)]
            versions[[span.node for span in made]] = [_node(span.into) for span in made]
        of_row[which] = [self._number(span, ordered.size) for span in spans]
        of_stored[ours] = [span.now().number for span in stored_spans]

    def _load(self, stored: StoredSessions, of_stored: Numbers, ours: Numbers) -> list[_Span]:
        spans = []
        columns = (of_stored[ours], stored.start_ms[ours], stored.end_ms[ours], ours)
        for component, *span in zip(*(c.tolist() for c in columns), strict=True):
            spans.append(_Span(*span))
            self._timelines[component].put(spans[-1])
        for timeline in self._timelines.values():
            timeline.watch_overlaps()
        return spans

    def _fold(
        self, rows: Rows, of_row: Numbers, which: Numbers
    ) -> tuple[list[_Span | None], list[bool]]:
        spans: list[_Span | None] = []
        after_end: list[bool] = []
        nodes = self._stored + which
        columns = (c[which] for c in (of_row, rows.at_ms, rows.end_ms, rows.watermark_ms))
        for component, *row in zip(*(c.tolist() for c in (*columns, nodes)), strict=True):
            span, after = self._timelines[component].fold(*row)
            spans.append(span)
            after_end.append(after)
        return spans, after_end

    def _number(self, span: _Span | None, components: int) -> int:
        if span is None:
            return NONE
        span = span.now()
        if span.number == NONE:
            span.number = components + self.sessions
            self.sessions += 1
        return span.number


def _node(span: _Span | None) -> int:
    return NONE if span is None else span.node
