"""Joins over raw topics: the rows that the oracle reads, and what every recording must give."""

from collections import Counter
from typing import Any

from hypothesis import strategies as st

from tests.oracles.clock import Judged
from tests.oracles.join import Joined, JoinRun, Rejected, of_raw
from tests.support.joins.stream import for_joins, run
from tests.support.logs import Raw, recordings
from tests.support.running import incidents
from tidemark.core.operators.operator import Operator


def rows_of(raw: Raw) -> list[Judged]:
    """Return the rows of raw topics with the watermarks of their own sources."""
    records = {
        source: [(each.event_time_ms, each.rows) for each in records]
        for source, records in raw.sources.items()
    }
    return of_raw(records, raw.bound_ms)


def every_recording_gives(data: Any, raw: Raw, made: Operator, expected: JoinRun) -> None:
    """Check results, their ids and rejected rows of drawn recordings.

    Any interleaving, any cuts, any purges, and 1, 2 or 4 log partitions give the same.
    """
    names: dict[Joined, str] = {}
    for partitions in data.draw(st.sampled_from(((1, 2), (1, 4), (2, 4)))):
        log = data.draw(recordings(raw))
        standing, rejected = Counter[Joined](), Counter[Rejected]()
        for partition in range(partitions):
            parts = [for_joins(each, partition, partitions) for each in log.segments]
            found = run(made, parts, data.draw(incidents()))
            standing.update(found.standing)
            rejected.update(found.rejected)
            for each in {*found.standing}:
                assert names.setdefault(each, found.ids[each]) == found.ids[each]
        assert standing == Counter(expected.standing)
        assert rejected == Counter(expected.rejected)
    assert len({*names.values()}) == len(names)
