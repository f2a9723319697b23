"""The silent sources of a process: raw partitions in which everything has been read.

The next commit writes the marks of silence that ``to_mark`` names (tidemark/ingest/silence.py).
"""

from collections.abc import Mapping

from tidemark.ingest.silence import to_mark
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.ingest.raw_sources import OwnedSource


class SilentSources:
    """The sources that were silent when the broker was last asked, each with that time."""

    def __init__(self, plan: Plan) -> None:
        """Start without silent sources."""
        self._plan = plan
        self._asked_ms: dict[Partition, int] = {}

    def drop(self, partition: Partition) -> None:
        """Forget a source that has a record, or that this process no longer reads."""
        self._asked_ms.pop(partition, None)

    def find(
        self,
        sources: Mapping[Partition, OwnedSource],
        positions: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        asked_ms: int,
    ) -> set[Partition]:
        """Find the silent ones; return those with offsets to commit, of records unseen here.

        ``sources``: without those that alignment holds back.  ``ends``: as the broker gave them at
        ``asked_ms``.
        """
        self._asked_ms.clear()
        moved = set()
        for partition, source in sources.items():
            position = positions[partition]
            if position < ends.get(partition, position + 1):
                continue  # there is more to read
            if position > source.committed:
                moved.add(partition)  # behind records that only the broker sees
            self._asked_ms[partition] = asked_ms
        return moved

    def mark(self, sources: Mapping[Partition, OwnedSource], *, is_written: bool) -> set[Partition]:
        """Set the silence of the sources that the next segment has marks of, and return them.

        ``is_written``: whether a segment will be written anyway.
        """
        silences = {at: sources[at].silence(ms) for at, ms in self._asked_ms.items()}
        marked = to_mark(silences, self._plan, is_written=is_written)
        for partition in marked:
            sources[partition].silence_ms = silences[partition].lasted_ms
        return set(marked)
