"""The due index: slots by the time at which they are due.

Only the earliest time of a slot counts, until that time has passed.  If the real due time has moved
later, the caller gets the slot too early and puts it again.  So a growing session costs nothing
here.
"""

import numpy as np

from tidemark.core.state.blocks import size_tier
from tidemark.core.state.keyed_lines import Numbers
from tidemark.core.time.segment import FOREVER_MS

_MANY = 8
"""Number of arrays of similar size that are merged into one."""

_FEW = 4_096
"""Entries; all smaller arrays count as of similar size."""

_LARGE = 1 << 19
"""Maximum entries of a merged array, so that no merge takes long."""


class DueIndex:
    """Sorted arrays of times and slots, merged by size tiers; passed entries are cut off."""

    def __init__(self) -> None:
        """Start empty."""
        self._parts: list[tuple[Numbers, Numbers]] = []
        self._next_ms = np.empty(0, np.int64)  # by slot: its earliest entry

    def put(self, slots: Numbers, at_ms: Numbers) -> None:
        """Make distinct slots due at ``at_ms``; a slot that is already due earlier stays so."""
        self._make_room(int(slots.max(initial=-1)) + 1)
        earlier = np.flatnonzero(at_ms < self._next_ms[slots])
        if not earlier.size:
            return
        slots, at_ms = slots[earlier], at_ms[earlier]
        self._next_ms[slots] = at_ms
        order = np.argsort(at_ms)
        self._parts.append((at_ms[order], slots[order]))
        self._merge()

    def _make_room(self, slots: int) -> None:
        if slots > self._next_ms.size:
            more = np.full(max(slots - self._next_ms.size, self._next_ms.size // 2), FOREVER_MS)
            self._next_ms = np.concatenate([self._next_ms, more])

    def _merge(self) -> None:
        """Merge arrays of similar size once there are many of them."""
        self._parts.sort(key=lambda part: part[0].size, reverse=True)
        begin = size_tier([times.size for times, _ in self._parts], _MANY, _FEW)
        if begin is None:
            return
        merged = self._parts[begin : begin + _MANY]
        if sum(times.size for times, _ in merged) <= _LARGE:
            self._parts[begin : begin + _MANY] = [self._joined(merged)]

    def _joined(self, parts: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
        """Return one sorted array of the entries that count."""
        times = np.concatenate([times for times, _ in parts])
        slots = np.concatenate([slots for _, slots in parts])
        count = self._next_ms[slots] == times
        times, slots = times[count], slots[count]
        order = np.argsort(times, kind="stable")  # timsort: it merges runs that are in order
        return times[order], slots[order]

    def is_due(self, until_ms: int) -> bool:
        """Whether ``pop_due`` may find slots."""
        return any(times.size and times[0] <= until_ms for times, _ in self._parts)

    def pop_due(self, until_ms: int) -> Numbers:
        """Remove and return the slots that are due up to ``until_ms``, in ascending order."""
        due = []
        for number, (times, slots) in enumerate(self._parts):
            if times.size and times[0] <= until_ms:
                stop = int(np.searchsorted(times, until_ms, "right"))
                due.append(slots[:stop][self._next_ms[slots[:stop]] == times[:stop]])
                self._parts[number] = times[stop:], slots[stop:]
        if not due:
            return np.empty(0, np.int64)
        self._parts = [part for part in self._parts if part[0].size]
        every = np.unique(np.concatenate(due))
        self._next_ms[every] = FOREVER_MS
        return every

    def slots(self) -> Numbers:
        """Return the slots that are not popped yet; one may come twice."""
        return np.concatenate([np.empty(0, np.int64), *(slots for _, slots in self._parts)])

    def validate(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        earliest = np.full(self._next_ms.size, FOREVER_MS)
        for times, slots in self._parts:
            assert bool((times[1:] >= times[:-1]).all()), "times out of order"
            np.minimum.at(earliest, slots, times)
        missing = self._next_ms < earliest
        assert not missing.any(), f"slots {np.flatnonzero(missing)[:9]} are never due"
