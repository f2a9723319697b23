"""Which tables a sink is asked to deliver, and what the tables of ports look like."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import polars as pl
import pytest

from examples.game import game
from tidemark.core.operators.ports import APPEND, ROWS, UPSERT, Port, RowTime
from tidemark.core.operators.rows import published_rows, rows_port
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW
from tidemark.core.windows.pane import FINAL, RETRACTED, REVISION
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.plan.physical import PortPlan
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.sinks.databases.sql import views
from tidemark.sinks.databases.sqlite import SqliteSink
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import Batch, Move
from tidemark.sinks.table import Table, chosen, tables_of
from tidemark.sinks.webhook import _body

TABLES = tables_of(game.plan())


def test_all_tables_are_delivered_unless_some_are_named():
    assert chosen(TABLES, "") == TABLES
    named = chosen(TABLES, "play_sessions, pops_per_minute,play_sessions")
    assert [table.name for table in named] == ["play_sessions", "pops_per_minute"]


def test_a_table_that_does_not_exist_is_a_mistake():
    with pytest.raises(
        ConfigurationError, match=r"no table 'pops'; there are dead_letters, pops_per_"
    ):
        chosen(TABLES, "pops")


PAIR = {"player": pl.String(), "id": pl.Int64(), "score": pl.Int64()}
UPSERTED = {REVISION: pl.Int64(), FINAL: pl.Boolean(), RETRACTED: pl.Boolean()}


def of_port(port: Port) -> tuple[Table, PortPlan]:
    """Return the table of a port of rows that are no panes."""
    plan, each = game.plan(), PortPlan(port, "game.pairs", "json")
    operator = replace(plan.operators[0], ports=(each,))
    _, table = tables_of(replace(plan, operators=(operator,)))
    return table, each


def test_rows_without_windows_that_may_be_withdrawn_have_a_view_of_final_ones(tmp_path):
    identity = ("player", "id")
    port = Port(
        "pairs", ROWS, PAIR | UPSERTED, ("player",), identity, identity, RowTime("id"),
        values=("score",), mode=UPSERT,
    )  # fmt: skip
    table, each = of_port(port)
    assert list(views(table)) == ["pairs_final"]
    rows = pl.DataFrame(
        [("ann", 1, 5, 1, True, False), ("bob", 2, 6, 1, False, False)],
        port.columns,
        orient="row",
    )
    keys, values = encoder_of(each).encode(rows)
    sink = SqliteSink(tmp_path / "results.db")
    sink.prepare([table])
    at, move = Partition(table.topic, 0), Move(None, 2, "AAAA")
    sink.write([Batch(table, at, move, decode(table, values).rows, [0, 1], keys, values)])
    sink.close()
    with closing(sqlite3.connect(tmp_path / "results.db")) as reader:
        found = reader.execute("SELECT player, id, score FROM pairs_final").fetchall()
    assert found == [("ann", 1, 5)]


def test_a_webhook_gets_the_keys_of_rows_that_are_only_appended():
    port = Port(
        "pairs", ROWS, PAIR, ("player",), ("player", "id"), ("player", "id"), RowTime("id"),
        mode=APPEND,
    )  # fmt: skip
    table, each = of_port(port)
    keys, values = encoder_of(each).encode(pl.DataFrame([("ann", 1, 5)], PAIR, orient="row"))
    rows = decode(table, values).rows
    batch = Batch(table, Partition(table.topic, 0), Move(0, 1, "AAAA"), rows, [0], keys, values)
    assert _body(batch, slice(None)) == (
        b'[{"key":["ann",1],"value":{"player":"ann","id":1,"score":5},"offset":0}]'
    )


def test_rows_of_a_stream_are_found_by_their_place_and_come_once(tmp_path):
    columns = {"start": pl.Int64(), "hour": pl.Int8(), "topic": pl.String()}
    table, each = of_port(rows_port((), columns))
    assert list(table.columns) == [
        *("start", "hour", "topic"),
        *("_topic", "_partition", "_offset", "_sub_row", "_event_time"),
    ]
    assert table.key == ("_topic", "_partition", "_offset", "_sub_row")
    own = pl.DataFrame([(1, 7, "x"), (2, None, "y")], columns, orient="row")
    rows = own.with_columns(
        pl.lit("orders/3").alias(SOURCE),
        pl.Series(OFFSET, [17, 17]),
        pl.Series(SUB_ROW, [0, 1], pl.Int32),
        pl.lit(1_000).alias(EVENT_TIME),
    )
    keys, values = encoder_of(each).encode(published_rows(rows, list(columns)))
    assert [*keys] == [b'["orders",3,17,0]', b'["orders",3,17,1]']
    sink = SqliteSink(tmp_path / "results.db")
    sink.prepare([table])
    at, decoded = Partition(table.topic, 0), decode(table, values).rows
    for first in (0, 2):  # a generation may hold the rows of the one before it
        move = Move(first or None, first + 2, "AAAA")
        sink.write([Batch(table, at, move, decoded, [first, first + 1], keys, values)])
    sink.close()
    with closing(sqlite3.connect(tmp_path / "results.db")) as reader:
        found = reader.execute("SELECT * FROM pairs ORDER BY start").fetchall()
    place = ("orders", 3, 17)
    time = "1970-01-01T00:00:01.000Z"
    assert found == [(1, 7, "x", *place, 0, time), (2, None, "y", *place, 1, time)]
