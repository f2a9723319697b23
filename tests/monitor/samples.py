"""A stats record of a process with nothing to report."""

from typing import Any

import msgspec

from tidemark.runtime.service.stats import CommitStats, Stats

NOW_MS = 1_000_000


def stats(at_ms: int = NOW_MS, service: str = "windowing", **others: Any) -> Stats:
    quiet = Stats(
        version=1,
        pipeline="p",
        service=service,
        slot="0",
        at_ms=at_ms,
        started_at_ms=1,
        ready=True,
        reasons=[],
        rows_in=5,
        rows_out=1,
        filtered=0,
        late=0,
        dead_letters=0,
        lag=0,
        commits=CommitStats(0, 0.0, 0.0, 0.0),
        partitions=[],
        sources=[],
        operators=[],
        restores=[],
    )
    return msgspec.structs.replace(quiet, **others)
