"""Alignment: no source is read far ahead of the slowest one in event time (``max_drift``).

A source may be at most ``max_drift`` ahead of the slowest awake source.  Records beyond that are
held back, in order, until the slowest source has caught up.  Held records are neither processed nor
committed, so alignment changes no result.  It limits the windows that operators keep open.

Holding records costs memory, and pausing a partition costs a third of a second, so:

1. A short excess is only held.
2. A source with FULL_BYTES or FULL_RECORDS held is paused.  It is resumed once none of its records
   are held and it is less than half of ``max_drift`` ahead.
3. Partitions are paused or resumed at most once a second, except if far too much is held.

A process sees only its own partitions: sources of other replicas hold back nothing here.
See docs/semantics.md, "Alignment".
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.core.time.raw_topics import covers, value_of
from tidemark.core.time.segment import NEVER_MS
from tidemark.ingest.ingest import Progress
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.messages.received import ReceivedMessage

CHUNK = 2_000
"""Records taken between two checks of watermarks: a source may overshoot by this number."""

FULL_RECORDS = 20_000
FULL_BYTES = 8 * 2**20
_MOST_BYTES = 8 * FULL_BYTES
_TOGGLE_EVERY_MS = 1_000


@dataclass
class _HeldRecords:
    """The held records of one source, in order."""

    messages: deque[ReceivedMessage] = field(default_factory=deque)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.size >= FULL_BYTES or len(self.messages) >= FULL_RECORDS

    def add(self, messages: Sequence[ReceivedMessage]) -> None:
        self.messages.extend(messages)
        self.size += sum(map(len, messages))

    def chunk(self) -> list[ReceivedMessage]:
        taken = [self.messages.popleft() for _ in range(min(CHUNK, len(self.messages)))]
        self.size -= sum(map(len, taken))
        return taken


@dataclass(frozen=True, slots=True)
class Toggle:
    """Partitions to pause and to resume."""

    pause: frozenset[Partition] = frozenset()
    resume: frozenset[Partition] = frozenset()


def max_drifts_ms(plan: Plan) -> dict[str, int]:
    """Return ``max_drift`` of the sources that have one, by raw topic or pattern."""
    return {
        topic: source.max_drift_ms
        for source in plan.sources
        for topic in source.topics
        if source.max_drift_ms is not None
    }


class Alignment:
    """Decides which records wait for slower sources."""

    def __init__(self, max_drift_ms: Mapping[str, int], most_bytes: int | None = None) -> None:
        """Start with nothing held.

        ``max_drift_ms``: by raw topic or pattern, for those that take part.  ``most_bytes``: of
        records held; beyond it, all sources with held records are paused.
        """
        self._max_drift_ms = max_drift_ms
        self._most_bytes = _MOST_BYTES if most_bytes is None else most_bytes
        self._held: dict[Partition, _HeldRecords] = {}
        self._toggled_ms = 0
        self.paused: frozenset[Partition] = frozenset()

    @property
    def is_active(self) -> bool:
        """Whether any source takes part."""
        return bool(self._max_drift_ms)

    def covers(self, topic: str) -> bool:
        """Whether the sources of a topic take part."""
        return covers(self._max_drift_ms, topic)

    def aligns(self, topic: str, progress: Progress) -> bool:
        """Whether a source of a topic takes part; one that is loaded does not."""
        return self.covers(topic) and not progress.loading

    def hold(self, partition: Partition, messages: Sequence[ReceivedMessage]) -> None:
        """Add the next records of a source behind those already held."""
        self._held.setdefault(partition, _HeldRecords()).add(messages)

    def first(self, partition: Partition) -> ReceivedMessage | None:
        """Return the first held record of a source, or None."""
        held = self._held.get(partition)
        return held.messages[0] if held else None

    def withholds(self, partition: Partition) -> bool:
        """Whether records of a source are held here, or may wait at the broker."""
        return partition in self._held or partition in self.paused

    @property
    def records(self) -> int:
        """Return the number of held records."""
        return sum(len(held.messages) for held in self._held.values())

    def next(
        self, watermarks: Mapping[Partition, int]
    ) -> tuple[Partition, list[ReceivedMessage]] | None:
        """Return the next records to process, slowest source first; None if all must wait.

        ``watermarks``: of all awake sources, and of all sources with held records.
        """
        slowest_ms = self._slowest_ms(watermarks)
        for partition in sorted(self._held, key=lambda held: (watermarks[held], held)):
            if self._is_within(partition, watermarks[partition], slowest_ms, 1):
                held = self._held[partition]
                chunk = held.chunk()
                if not held.messages:
                    del self._held[partition]
                return partition, chunk
        return None

    def allows(self, partition: Partition, watermarks: Mapping[Partition, int]) -> bool:
        """Whether a source may be read on; ``watermarks``: of it, and of all awake sources."""
        slowest_ms = self._slowest_ms(watermarks)
        return self._is_within(partition, watermarks[partition], slowest_ms, 1)

    def toggle(self, watermarks: Mapping[Partition, int], now_ms: int) -> Toggle:
        """Return what to pause and resume now; the caller must do so.

        ``watermarks``: as for ``next``, and of the paused sources.
        """
        crowded = sum(held.size for held in self._held.values()) >= self._most_bytes
        full = {at for at, held in self._held.items() if held.is_full or crowded} - self.paused
        if now_ms - self._toggled_ms < _TOGGLE_EVERY_MS:
            full = full if crowded else set()
            caught_up: set[Partition] = set()
        else:
            slowest_ms = self._slowest_ms(watermarks)
            caught_up = {
                at
                for at in self.paused
                if at not in self._held and self._is_within(at, watermarks[at], slowest_ms, 2)
            }
        if full or caught_up:
            self._toggled_ms = now_ms
            self.paused = self.paused - caught_up | full
        return Toggle(frozenset(full), frozenset(caught_up))

    def drop(self, partition: Partition) -> None:
        """Forget a source: its next owner reads the held records again."""
        self._held.pop(partition, None)
        self.paused -= {partition}

    def _slowest_ms(self, watermarks: Mapping[Partition, int]) -> int:
        return min(
            (ms for partition, ms in watermarks.items() if self.covers(partition.topic)),
            default=NEVER_MS,
        )

    def _is_within(
        self, partition: Partition, watermark_ms: int, slowest_ms: int, part: int
    ) -> bool:
        """Whether a source is at most ``max_drift / part`` ahead of the slowest."""
        if watermark_ms == NEVER_MS or slowest_ms == NEVER_MS:
            return watermark_ms == slowest_ms
        max_drift_ms = value_of(self._max_drift_ms, partition.topic)
        assert max_drift_ms is not None, f"{partition} takes no part"
        return watermark_ms - slowest_ms <= max_drift_ms // part
