"""The versions that loads add, and what a table is after them."""

import json

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidemark import Pipeline, bounded
from tidemark.core.time.event_time import EARLIEST_MS
from tidemark.serde.decoders import record_decoder
from tidemark.serde.records import RecordBatch
from tidemark.statics.versions import StaticRows, StaticVersions


def source_of(address, delimiter=None):
    """Return the plan of a static table with the columns k and v."""
    pipeline = Pipeline("p")
    left = pipeline.source("t", schema={"k": str, "at": int}, event_time="at", watermark=bounded(0))
    table = pipeline.static(
        "static", address, key="k", schema={"k": str, "v": int}, delimiter=delimiter
    )
    left.key_by("k").join(table).to("out")
    return next(each for each in pipeline.plan().sources if each.static is not None)


SOURCES = [source_of("a.csv"), source_of("a.csv", ";"), source_of("a.parquet")]


def rows_of(source, table):
    """Return rows as a file of the source has them; ``table``: keys and values, or broken rows."""
    if source.static.kind == "parquet":
        rows = [json.dumps({"k": k, "v": v}).encode() for k, v in table]
    else:
        delimiter = source.static.delimiter
        rows = [
            f'k{delimiter}v\n"{k or ""}"{delimiter}{"" if v is None else v}'.encode()
            for k, v in table
        ]
    return StaticRows(rows, range(2, len(rows) + 2), "a.csv")


def decoded(source, versions):
    batch = RecordBatch.of_values(source.name, 0, 0, versions, 0)
    return record_decoder(source.format, source.schema).parse(batch).columns


def table_at(source, versions, at_ms=None):
    """Return the table that versions give: of each key the last one, without tombstones."""
    rows = decoded(source, versions)
    if at_ms is not None:
        rows = rows.filter(pl.col("@valid_from") <= at_ms)
    last = {row["k"]: row for row in rows.iter_rows(named=True)}
    return {key: row["v"] for key, row in last.items() if not row["@deleted"]}


KEYS = st.sampled_from(["a", "b", "c,d", 'say "x"'.replace('"', "'"), "é"])
TABLES = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 2)), max_size=5)


@given(st.sampled_from(SOURCES), st.lists(st.tuples(TABLES, st.booleans()), min_size=1, max_size=5))
def test_versions_give_the_table_of_each_load(source, loads):
    versions, written, tables = StaticVersions(source), list[bytes](), list[dict[str, int | None]]()
    for number, (table, restarts) in enumerate(loads):
        if restarts:  # a new owner knows what the topic has
            versions = StaticVersions(source)
            versions.add(written)
        read = rows_of(source, table)
        added = versions.load(read, number)
        before = table_at(source, written)
        assert len(added) <= len(before.keys() | dict(table))  # one version a key
        assert versions.load(read, number) == []
        written += added
        tables.append(dict(table))
        assert table_at(source, written) == dict(table)
    first = next((number for number, table in enumerate(tables) if table), len(tables))
    for number, table in enumerate(tables[first:], first):  # the versions of all times are there
        assert table_at(source, written, number) == table


def test_the_first_load_is_the_first_with_rows_whether_or_not_ingest_restarts():
    (source, *_), rows = SOURCES, [("a", 1)]
    versions = StaticVersions(source)
    assert versions.load(rows_of(source, []), 1) == []
    assert versions.load(rows_of(source, rows), 2) == StaticVersions(source).load(
        rows_of(source, rows), 2
    )


def test_the_first_load_is_valid_from_the_earliest_time():
    for source in SOURCES:
        versions = StaticVersions(source)
        first = decoded(source, versions.load(rows_of(source, [("a", 1)]), 7))
        later = decoded(source, versions.load(rows_of(source, [("b", 2)]), 7))
        assert first["@valid_from"].to_list() == [EARLIEST_MS]
        assert later.rows() == [("a", 1, 7, True), ("b", 2, 7, False)]


def test_a_row_without_a_key_is_written_once():
    for source in SOURCES:
        versions = StaticVersions(source)
        read = rows_of(source, [(None, 1), ("a", 1), (None, 2)])
        written = versions.load(read, 0)
        assert len(written) == 3
        assert versions.load(read, 1) == []
        restarted = StaticVersions(source)
        restarted.add(written)
        assert restarted.load(read, 1) == []
