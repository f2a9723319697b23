"""Patterns of which each partial match has one row: results of all keys in columns.

See docs/semantics.md, "Patterns", and decision 0058.  Two forms of patterns are like that:

* two steps with one row each: the partial matches are the rows of the first step since the last row
  of the second one;
* one step, and conditions that must never hold until the time is over: an absence.

After a row that completes or bans them, a key has no partial match of an earlier row.  So the next
such row of the key decides each partial match, and a search finds it.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates.lists import unflattened
from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.operators.patterns.automaton import Automaton, Target
from tidemark.core.operators.patterns.findings import MATCH, REFUSED, TIMEOUT, Findings
from tidemark.core.operators.patterns.key_rows import KeyPartials, KeyRows
from tidemark.core.operators.patterns.partial import HEAD, STEP_BITS, numbers_of
from tidemark.core.time.segment import FOREVER_MS

_WIDTH = HEAD + 1


@dataclass(frozen=True)
class OneRowPattern:
    """What a row does to partial matches that have one row each.

    Args:
        starts: bits of conditions: a partial match begins with such a row.
        completes: with such a row the partial matches before it are matches; 0: when their time is
            over.
        bans: such a row ends the partial matches before it, if it does not complete them.
        last_step: the number of the step of a row that completes.
        first_only: whether only the first of the matches that a row completes counts.
        restarts: whether a partial match can begin with the row that completes a match.
        within_ms: of the pattern.
        max_partial: the number of partial matches of a key.
    """

    starts: int
    completes: int
    bans: int
    last_step: int
    first_only: bool
    restarts: bool
    within_ms: int
    max_partial: int

    @classmethod
    def of(cls, automaton: Automaton) -> "OneRowPattern | None":
        """Return the pattern of an automaton in this form, None if it has another form."""
        pattern, skip = automaton.pattern, automaton.pattern.skip.to
        first = automaton.starts[0]
        targets = automaton.stages[first.stage].targets
        if len(automaton.starts) > 1 or _is_special(first) or len(targets) > 1:
            return None
        (then,) = targets
        first_only = skip in ("past_last", "to_first", "to_last")
        if then.bit == automaton.end:
            completes = 0
            if not pattern.never:
                return None
        else:
            completes = then.needs
            follows = then.is_next or (then.is_any and not first_only)
            ends = all(each.bit == automaton.end for each in automaton.stages[then.stage].targets)
            if _is_special(then) or follows or not ends or pattern.never:
                return None
        return cls(
            first.needs,
            completes,
            then.bans,
            then.step,
            first_only,
            skip != "past_last",
            pattern.within_ms,
            automaton.max_partial,
        )

    def has_ambiguous(self, rows: KeyRows) -> Mask:
        """Mark rows of which only the rows before can tell whether a partial match begins."""
        both = self.starts | self.completes
        if self.restarts or not self.completes:
            return np.zeros(rows.key.size, np.bool_)
        ambiguous: Mask = rows.bits & both == both
        return ambiguous

    def run(
        self, rows: KeyRows, partials: KeyPartials, until_ms: int
    ) -> tuple[Findings, KeyPartials]:
        """Return what rows and the timers before ``until_ms`` decide, and what partials are left.

        ``partials``: of the keys before the rows.
        """
        every = self._joined(partials, rows)
        starts = np.flatnonzero(every.bits & self.starts)
        key, place, at_ms = (column[starts] for column in every[:3])
        over_ms = at_ms + self.within_ms
        stop = self._next_stop(every, starts)
        is_stopped = np.append(every.at_ms, FOREVER_MS)[stop] < over_ms
        refused_by = self._refused_by(every, starts, stop, over_ms)
        is_kept = refused_by < 0
        is_over = is_kept & ~is_stopped & (over_ms <= until_ms)
        opened = np.flatnonzero(is_kept & ~is_stopped & ~is_over)
        findings = (
            self._completed(every, starts, np.where(is_kept & is_stopped, stop, -1)),
            self._timed_out(place[is_over], over_ms[is_over] - 1),
            _refused(every, place[~is_kept], refused_by[~is_kept]),
        )
        return Findings.joined(findings), _open(key[opened], place[opened], at_ms[opened])

    def _joined(self, partials: KeyPartials, taken: KeyRows) -> KeyRows:
        """Return the rows of partial matches and the new rows, by key, then in order."""
        sizes, flat = numbers_of(partials.lists)
        counts, numbers = sizes // _WIDTH, flat.reshape(-1, _WIDTH)
        stored = KeyRows(
            np.repeat(partials.key, counts),
            numbers[:, HEAD] >> STEP_BITS,
            numbers[:, 0],
            np.full(numbers.shape[0], self.starts),
        )
        both = [np.concatenate(pair) for pair in zip(stored, taken, strict=True)]
        order = np.argsort(both[0], kind="stable")
        return KeyRows(*(column[order] for column in both))

    def _next_stop(self, every: KeyRows, starts: Numbers) -> Numbers:
        """Return the next row of the key that completes or bans, else the number of rows."""
        count = every.key.size
        stops = np.flatnonzero(every.bits & (self.completes | self.bans))
        after = np.append(stops, count)[np.searchsorted(stops, starts, "right")]
        same = np.append(every.key, -1)[after] == every.key[starts]
        return np.where(same, after, count)

    def _refused_by(
        self, every: KeyRows, starts: Numbers, stop: Numbers, over_ms: Numbers
    ) -> Numbers:
        """Return the row that makes too many partial matches while each is the oldest, else -1.

        That is the row that begins the ``max_partial``-th partial match after it, if it comes
        before the time is over and before a row that ends both.
        """
        found, most = np.full(starts.size, -1), self.max_partial
        if starts.size > most:
            by, key = starts[most:], every.key[starts]
            together = (key[most:] == key[:-most]) & (stop[most:] == stop[:-most])
            in_time = every.at_ms[by] < over_ms[:-most]
            found[:-most] = np.where(together & in_time, by, -1)
        return found

    def _completed(self, every: KeyRows, starts: Numbers, stop: Numbers) -> Findings:
        """Return the matches of partial matches; ``stop``: the row that ends each, else -1."""
        at = np.flatnonzero(stop >= 0)
        at = at[every.bits[stop[at]] & self.completes != 0]
        if self.first_only and at.size:
            at = at[np.append(True, stop[at[1:]] != stop[at[:-1]])]
        first, last = every.place[starts[at]], every.place[stop[at]]
        refs = np.stack([first << STEP_BITS, last << STEP_BITS | self.last_step], axis=1)
        return _findings(MATCH, every.at_ms[stop[at]], last, first, refs)

    def _timed_out(self, place: Numbers, at_ms: Numbers) -> Findings:
        kind = TIMEOUT if self.completes else MATCH
        return _findings(kind, at_ms, place, place, place[:, None] << STEP_BITS, is_timer=True)


def _is_special(target: Target) -> bool:
    return target.asks or target.is_greedy or bool(target.until)


def _refused(every: KeyRows, place: Numbers, by: Numbers) -> Findings:
    refs = place[:, None] << STEP_BITS
    return _findings(REFUSED, every.at_ms[by], every.place[by], place, refs)


def _findings(
    kind: int,
    at_ms: Numbers,
    place: Numbers,
    number: Numbers,
    refs: Numbers,
    *,
    is_timer: bool = False,
) -> Findings:
    """Return findings of one kind; ``refs``: a line of rows for each."""
    count, size = refs.shape
    return Findings(
        np.full(count, kind),
        at_ms,
        np.full(count, is_timer),
        place,
        number,
        np.full(count, size),
        refs.ravel(),
    )


def _open(key: Numbers, place: Numbers, at_ms: Numbers) -> KeyPartials:
    """Return partial matches with these rows; keys ascend."""
    numbers = np.zeros((key.size, _WIDTH), np.int64)
    numbers[:, 0], numbers[:, HEAD - 1], numbers[:, HEAD] = at_ms, 1, place << STEP_BITS
    begins = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: key.size])
    index = np.repeat(np.arange(begins.size), np.diff(np.append(begins, key.size)) * _WIDTH)
    lists = unflattened(index, pl.Series(numbers.ravel()), begins.size)
    return KeyPartials(key[begins], at_ms[begins], lists)
