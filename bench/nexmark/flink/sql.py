"""The queries in Flink SQL, with what must come out of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.nexmark.query import DELAY_MS, Query

_TYPES = {int: "BIGINT", float: "DOUBLE", str: "STRING"}


@dataclass(frozen=True)
class FlinkQuery:
    """A query in Flink SQL.

    Args:
        columns: of the result, with types; with a key if rows are updated.
        select: the rows of the result.
        results: DuckDB SQL that makes rows as those of the query's ``sql`` of the table results.
        wanted: what replaces the query's ``sql`` where Flink's rule differs.
    """

    columns: str
    select: str
    results: str
    wanted: str | None = None

    @property
    def has_key(self) -> bool:
        """Whether rows are updated by a key, and not appended."""
        return "PRIMARY KEY" in self.columns


def statements(
    query: Query, flink: FlinkQuery, topics: Mapping[str, str], results: str, broker: str
) -> tuple[str, ...]:
    """Return the statements of a job that reads ``topics``, by kind, and writes ``results``."""
    return (
        *(_source(kind, query.schemas[kind], topic, broker) for kind, topic in topics.items()),
        _sink(flink, results, broker),
        f"INSERT INTO results {flink.select}",
    )


def _source(kind: str, schema: Mapping[str, type], topic: str, broker: str) -> str:
    columns = ", ".join(f"`{name}` {_TYPES[type_]}" for name, type_ in schema.items())
    return (
        f"CREATE TABLE {kind} ({columns}, `at` BIGINT, ts AS TO_TIMESTAMP_LTZ(`at`, 3), "
        f"WATERMARK FOR ts AS ts - INTERVAL '{DELAY_MS // 1_000}' SECOND) WITH ("
        f"'connector' = 'kafka', 'topic' = '{topic}', "
        f"'properties.bootstrap.servers' = '{broker}', "
        "'properties.max.poll.records' = '5000', 'properties.fetch.min.bytes' = '65536', "
        "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', "
        "'format' = 'json')"
    )


def _sink(query: FlinkQuery, topic: str, broker: str) -> str:
    kind = (
        "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
        if query.has_key
        else "'connector' = 'kafka', 'format' = 'json'"
    )
    return (
        f"CREATE TABLE results ({query.columns}) WITH ({kind}, 'topic' = '{topic}', "
        f"'properties.bootstrap.servers' = '{broker}', 'properties.linger.ms' = '50', "
        "'properties.batch.size' = '262144', 'properties.compression.type' = 'lz4', "
        "'properties.transaction.timeout.ms' = '600000', "
        "'sink.delivery-guarantee' = 'exactly-once', "
        f"'sink.transactional-id-prefix' = '{topic}')"
    )
