"""Names that a place would cut, fold or keep for itself are refused at the start (D1)."""

from dataclasses import replace

import polars as pl
import pytest

from tests.sinks.contract import opened
from tests.sinks.feeds import PANES
from tests.sinks.places import duck_place, lines_place, parquet_place, sqlite_place
from tidemark.errors import ConfigurationError
from tidemark.sinks.databases.postgres import DIALECT as POSTGRES


def with_columns(*names):
    return replace(PANES, columns={**PANES.columns, **dict.fromkeys(names, pl.Int64())})


@pytest.mark.parametrize("made", [sqlite_place, duck_place], ids=["sqlite", "duckdb"])
def test_columns_that_differ_only_in_case_are_refused(made, tmp_path):
    with pytest.raises(ConfigurationError, match="column 'Best' and column 'best' are one column"):
        opened(made(tmp_path), with_columns("best", "Best"))


@pytest.mark.parametrize("made", [sqlite_place, duck_place], ids=["sqlite", "duckdb"])
def test_long_and_reserved_names_are_taken_where_nothing_is_cut(made, tmp_path):
    place = made(tmp_path)
    table = replace(with_columns("select", "c" * 200), name="t" * 200)
    for _ in range(2):
        opened(place, table).close()
    assert place.run(f"SELECT count(*) FROM {table.name}_latest") == [(0,)]


def test_postgres_takes_names_of_63_bytes():
    def problem(table):
        (reason,) = POSTGRES.identifiers.problems([table]).values()
        return reason

    table = replace(PANES, name="t" * 56)
    wide = with_columns("é" * 31, "Best", "best", "select")
    assert POSTGRES.identifiers.problems([table, wide]) == {}
    long = replace(PANES, name="t" * 57)
    assert "t_latest' has 64 bytes; PostgreSQL takes 63" in problem(long)
    assert "é' has 64 bytes; PostgreSQL takes 63" in problem(with_columns("é" * 32))
    assert "column 'xmin': PostgreSQL has such a column" in problem(with_columns("xmin"))


@pytest.mark.parametrize("made", [lines_place, parquet_place], ids=["jsonl", "parquet"])
def test_a_name_that_is_too_long_for_a_file_is_refused(made, tmp_path):
    with pytest.raises(ConfigurationError, match="bytes; a folder takes 255"):
        opened(made(tmp_path), replace(PANES, name="t" * 256))


def test_sqlite_keeps_names(tmp_path):
    with pytest.raises(ConfigurationError, match="keep names that begin with sqlite_ or tidemark_"):
        opened(sqlite_place(tmp_path), replace(PANES, name="sqlite_pops"))
