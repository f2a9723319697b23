"""Queries in this process, on one partition of each topic."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from bench.nexmark.query import RESULTS, Query, pipeline
from tidemark.local.run import Cuts, LocalRun


@dataclass(frozen=True)
class Run:
    """The last results of a query, the late rows of all its operators, and its CPU time."""

    results: pl.DataFrame
    late: int
    cpu_s: float


def run(
    name: str, query: Query, records: Mapping[str, Sequence[bytes]], seed: int | None = None
) -> Run:
    """Run a query over records by kind, in order of arrival; ``seed``: cut them at random."""
    topics = {kind: f"nexmark-{kind}" for kind in query.reads}
    plan = pipeline(f"nexmark-{name}", query, topics, partitions=2).plan()
    start_s = time.process_time()
    local = LocalRun(plan, Cuts(seed))
    for _ in local.run({topic: records[kind] for kind, topic in topics.items()}):
        pass
    assert not local.dead_letters, local.dead_letters[0]
    results = local.published[RESULTS]
    last = results.last(results.plan.results.port.name)
    late = sum(each.tally.late for each in local.published.values())
    return Run(last, late, time.process_time() - start_s)
