"""Runs on a broker of their own, ours and Flink's on the same topics, a row of a table each."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import polars as pl

from bench.cpu import used_s
from bench.nexmark import on_kafka
from bench.nexmark.flink.runner import Flink, flink_folder
from bench.nexmark.flink.sql import FlinkQuery
from bench.nexmark.query import Query
from bench.nexmark.reference import Reference
from tidemark.embedded.broker import Broker


def beside(
    queries: Mapping[str, Query],
    declared_in: str,
    flink_queries: Mapping[str, FlinkQuery],
    events: Mapping[str, pl.DataFrame],
    partitions: int,
    folder: Path,
) -> Iterator[bool]:
    """Run queries and print a table; yield for each run whether its results are right.

    Rates count the events that a query reads.  ``declared_in``: see ``on_kafka.run``.
    ``flink_queries``: by name, empty without Flink.  ``partitions``: of each topic.
    """
    reference = Reference(events, folder)
    flink = Flink(flink_folder()) if flink_queries else None
    with Broker(folder / "broker") as broker:
        source = on_kafka.Input(broker.address, events, partitions)
        print(
            "| query | rows | late | difference | events/s | events/CPU s | MiB | broker CPU s "
            "| load |\n|---|--:|--:|---|--:|--:|---|--:|--:|"
        )
        for name, query in queries.items():
            count = sum(events[kind].height for kind in query.reads)
            ours = partial(on_kafka.run, name, query, source, reference, declared_in)
            yield _reported(name, ours, count, broker.pid or 0)
            if flink is not None and name in flink_queries:
                theirs = partial(flink.run, name, query, flink_queries[name], source, reference)
                yield _reported(f"{name}, Flink", theirs, count, broker.pid or 0)


def _reported(name: str, run: Callable[[], on_kafka.KafkaRun], count: int, broker: int) -> bool:
    """Run a query and print its row; return whether its results are right.

    ``count``: of the events that it reads.  ``broker``: the process of the broker.
    """
    before_s = used_s(broker)
    made = run()
    found = made.comparison
    rates = f"{count / made.read_s:,.0f} | {count / made.cpu_s:,.0f}"
    peaks = ", ".join(f"{each} {peak >> 20}" for each, peak in made.peak_bytes.items())
    broker_s, load = used_s(broker) - before_s, os.getloadavg()[0]
    print(
        f"| {name} | {found.rows:,} | {made.late:,} | {found} | {rates} | {peaks} "
        f"| {broker_s:.1f} | {load:.1f} |",
        flush=True,
    )
    return found.is_equal
