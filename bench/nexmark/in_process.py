"""Queries in this process, on one partition of each topic."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from bench.nexmark.arrival import values
from bench.nexmark.query import RESULTS, Query, pipeline
from tidemark.local.run import Cuts, LocalRun


@dataclass(frozen=True)
class Run:
    """The last results of a query, the number of its late rows, and the CPU time it took."""

    results: pl.DataFrame
    late: int
    cpu_s: float


def run(
    name: str, query: Query, events: Mapping[str, pl.DataFrame], seed: int | None = None
) -> Run:
    """Run a query over events in order of arrival; ``seed``: cut them into random segments."""
    topics = {kind: f"nexmark-{kind}" for kind in query.reads}
    records = {topics[kind]: values(events[kind]) for kind in query.reads}
    plan = pipeline(f"nexmark-{name}", query, topics, partitions=2).plan()
    start_s = time.process_time()
    local = LocalRun(plan, Cuts(seed))
    for _ in local.run(records):
        pass
    assert not local.dead_letters, local.dead_letters[0]
    published = local.published[RESULTS]
    main = published.plan.results.port.name
    return Run(published.last(main), published.tally.late, time.process_time() - start_s)
