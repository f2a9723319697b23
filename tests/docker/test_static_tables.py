"""Static tables of PostgreSQL: the types of its columns, and a table that changes while it is live.

Types are those that PostgreSQL documents; values are those that a record of JSON would have.
"""

import time
from typing import Any

import pytest

from tests.docker.support.databases import Postgres
from tests.kafka.ingest.users import HOUR_MS, answers, click, versions
from tests.kafka.pipelines.chains import named
from tests.kafka.support.stack import Stack, wait_until
from tests.support.clicks import numbered_clicks
from tidemark import Pipeline, col
from tidemark.errors import ConfigurationError
from tidemark.testing import InProcess

QUERY = "SELECT id AS user, name FROM users ORDER BY id"


def joined(url: str, type_: Any, value: str) -> InProcess:
    """Return a run that has joined a click with a row whose column ``v`` is a value of SQL."""
    pipeline = Pipeline("typed")
    clicks = numbered_clicks(pipeline)
    rows = pipeline.static(
        "rows",
        url,
        key="user",
        schema={"user": int, "v": type_},
        query=f"SELECT 1 AS user, {value} v",
    )
    shown = col("v").bin.encode("hex") if type_ is bytes else col("v")
    clicks.key_by("user").join(rows).select("user", v=shown).to("joined")
    run = InProcess(pipeline)
    run.send("clicks", {"user": 1, "at": 0}, {"user": 9, "at": 1})
    return run


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (int, "2::int2", 2),
        (int, "9007199254740993", 9007199254740993),
        (int, "12::numeric", 12),
        (float, "12.50::numeric", 12.5),
        (str, "12.50::numeric", "12.50"),
        (float, "'NaN'::float8", None),
        (bool, "true", True),
        (str, "'a'::char(3)", "a  "),
        (
            str,
            "'6ecd8c99-4036-403d-bf84-cf8400f67836'::uuid",
            "6ecd8c99-4036-403d-bf84-cf8400f67836",
        ),
        (str, "'10.1.2.0/24'::inet", "10.1.2.0/24"),
        (str, "'10.1.2.0/24'::cidr", "10.1.2.0/24"),
        (str, "'08:00:2b:01:02:03'::macaddr", "08:00:2b:01:02:03"),
        (str, "'1 mon 2 days 03:04:05'::interval", "P1M2DT3H4M5S"),
        (str, "int4range(1, 5)", "[1,5)"),
        (str, "'{[1,3), [5,7)}'::int4multirange", "{[1,3),[5,7)}"),
        (str, "'(1,2)'::point", "(1,2)"),
        (str, "b'101'", "101"),
        (str, "'12.5'::money", "$12.50"),
        (str, "to_tsvector('simple', 'a b')", "'a':1 'b':2"),
        (str, "row(1, 'x')", "(1,x)"),
        (str, "'<a/>'::xml", "<a/>"),
        (str, "date '2026-01-02'", "2026-01-02"),
        (str, "timestamp '2026-01-02 03:04:05.6'", "2026-01-02T03:04:05.600000"),
        (str, "timestamptz '2026-01-02 03:04:05+01'", "2026-01-02T02:04:05Z"),
        (str, "time '03:04'", "03:04:00"),
        (list[int], "array[1, null, 3]", [1, None, 3]),
        (list[str], "array['a', 'b']::text[]", ["a", "b"]),
        (list[str], "array['10.0.0.1'::inet]", ["10.0.0.1"]),
        ({"a": int, "b": float}, '\'{"a": 1, "b": 1e3, "c": 1e999}\'::jsonb', {"a": 1, "b": 1e3}),
        (dict[str, int], "'{\"a\": 1}'::json", [{"key": "a", "value": 1}]),
        (bytes, "'\\x00ff'::bytea", "00ff"),
        (str, "null::uuid", None),
    ],
)
def test_a_value_of_each_type(postgres: Postgres, type_: Any, value: str, expected: Any):
    run = joined(postgres.url(), type_, value)
    assert run.dead_letters() == []
    (row,) = run.published("joined")
    assert row["v"] == expected


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        (str, "'\\x00'::bytea", "row 1: column 'v' has bytes; make text of them"),
        (str, "timestamp 'infinity'", "timestamp too large"),
        (str, "date '0044-03-15 BC'", "date too small"),
        (str, "1 / 0", "division by zero"),
    ],
)
def test_a_value_that_cannot_be_read_stops_the_load(
    postgres: Postgres, type_: Any, value: str, message: str
):
    with pytest.raises(ConfigurationError, match=r"^static table typed\.rows\.static") as raised:
        joined(postgres.url(), type_, value)
    assert message in str(raised.value)
    assert "test:test" not in str(raised.value)


def test_a_table_of_postgres_changes_while_it_is_live_and_its_server_restarts(
    broker: str, postgres: Postgres
):
    """The address names the schema by ``options``, which the table keeps."""
    url = postgres.url("crm")
    for statement in (
        "CREATE SCHEMA crm",
        "CREATE TABLE users (id int8 PRIMARY KEY, name text)",
        "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob')",
    ):
        postgres.run(url, statement)
    options = {"address": url, "query": QUERY, "reload": "1s"}
    with Stack(broker, "crm", module=named, options=options) as stack:
        stack.start()
        click(stack, (1, 1_000), (2, 2_000), (3, 3_000), (0, 4_000))
        known: list[tuple[int, str | None]] = [(1, "Ann"), (2, "Bob"), (3, None)]
        wait_until(lambda: answers(stack) == known, "answers of the first load")
        postgres.stop()
        try:
            wait_until(lambda: "stays as it is" in stack.log("ingest"), "a load that fails")
        finally:
            postgres.start()
        postgres.run(url, "UPDATE users SET name = 'Anna' WHERE id = 1")
        postgres.run(url, "DELETE FROM users WHERE id = 2")
        wait_until(lambda: len(versions(stack)) == 4, "the version and the tombstone")
        at_ms = int(time.time() * 1_000) + HOUR_MS
        click(stack, (1, 5_000), (1, at_ms), (2, at_ms + 1), (0, at_ms + 2))
        known += [(0, None), (1, "Ann"), (1, "Anna"), (2, None)]
        wait_until(lambda: answers(stack) == known, "answers of all loads")
        assert set(stack.stop().values()) == {0}
        log = stack.log("ingest")
        assert "static table crm.users.static from postgresql://***" in log
        assert "test:test" not in log
