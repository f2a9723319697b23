"""A query: what it reads and computes, as a pipeline and as SQL.

The SQL works on the tables persons, auctions and bids (reference.py).  ``ts`` is the event time of
an event, ``w`` the watermark of its partition just before it.  So SQL decides which rows are late.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.nexmark.generator import AUCTIONS, BIDS, PERSONS
from tidemark import Pipeline, bounded
from tidemark.language.stream import Stream

DELAY_MS = 4_000
"""The delay of watermarks, as in the Flink SQL of nexmark/nexmark."""

RESULTS = "results"
"""Name of the output of each query."""

NEXMARK: Mapping[str, Mapping[str, type]] = {
    PERSONS: {"id": int, "name": str, "email": str, "card": str, "city": str, "state": str},
    AUCTIONS: {
        "id": int,
        "seller": int,
        "category": int,
        "initial": int,
        "reserve": int,
        "item": str,
        "description": str,
        "expires": int,
    },
    BIDS: {"auction": int, "bidder": int, "price": int, "channel": str, "url": str, "extra": str},
}
"""The columns of events by kind, besides their time ``at``."""


@dataclass(frozen=True)
class Streams:
    """The streams of a pipeline, by kind of events."""

    pipeline: Pipeline
    by_kind: Mapping[str, Stream]

    def __getitem__(self, kind: str) -> Stream:
        return self.by_kind[kind]


@dataclass(frozen=True)
class Query:
    """One query.

    Args:
        says: what it computes.
        reads: kinds of events.
        declare: ends streams, by kind, with an output named RESULTS.
        sql: the rows that must come out.
        results: SQL that makes such rows of the table ``results``; it may look at the rows of
            ``sql`` as the table ``wanted``.
        schemas: the columns of events by kind, besides their time ``at``.
    """

    says: str
    reads: tuple[str, ...]
    declare: Callable[[Streams], None]
    sql: str
    results: str
    schemas: Mapping[str, Mapping[str, type]] = field(default_factory=lambda: NEXMARK)


def pipeline(name: str, query: Query, topics: Mapping[str, str], partitions: int) -> Pipeline:
    """Return a query as a pipeline with a name.

    ``topics``: by kind.  ``partitions``: of its logs and results.
    """
    made = Pipeline(name, partitions=partitions)
    streams = {
        kind: made.source(
            topics[kind],
            schema={**query.schemas[kind], "at": int},
            event_time="at",
            watermark=bounded(f"{DELAY_MS}ms"),
            idle_after="1s",
        )
        for kind in query.reads
    }
    query.declare(Streams(made, streams))
    return made
