"""Which values columns of other types hold: all that are exact, and no others."""

from datetime import UTC, datetime
from decimal import Decimal

import polars as pl
import pytest

from tidemark.core.rows.schema import INSTANT
from tidemark.sinks.databases.conversion import conversion
from tidemark.sinks.databases.duck import DIALECT as DUCK
from tidemark.sinks.databases.postgres import DIALECT as POSTGRES
from tidemark.sinks.databases.sqlite import DIALECT as SQLITE

STRUCT = pl.Struct({"a": pl.Int64()})


def kept(dtype, declared, values, dialect=POSTGRES):
    """Return the values that a column of another type holds."""
    found = conversion("c", dtype, declared, dialect.rules)
    assert found is not None, f"{dtype} never fits {declared}"
    frame = pl.DataFrame({"c": pl.Series(values, dtype=dtype)})
    for _, bad in found.problems:
        frame = frame.filter(~bad.fill_null(value=False))
    return frame["c"].to_list()


@pytest.mark.parametrize(
    ("dtype", "declared", "good", "bad"),
    [
        (pl.Int64(), "smallint", [-32_768, 32_767, None], [-32_769, 32_768]),
        (pl.Int64(), "numeric(3,0)", [-999, 999], [1_000, -1_000, -(2**63)]),
        (pl.Int64(), "numeric(3,2)", [9, -9], [10]),
        (pl.Int64(), "numeric", [2**63 - 1], []),
        (pl.Int64(), "double precision", [2**53, -(2**53)], [2**53 + 1]),
        (pl.Int64(), "real", [2**24], [2**24 + 1]),
        (pl.UInt64(), "bigint", [2**63 - 1], [2**63, 2**64 - 1]),
        (pl.Int32(), "bigint", [2**31 - 1], []),
        (pl.Float64(), "numeric(4,2)", [0.1, -99.99, 0.0, 12.0], [0.125, 100.0, 1e-9, 1e300]),
        (pl.Float64(), "numeric(2,2)", [0.12, -0.5], [1.0, float("nan"), float("inf")]),
        (pl.Float64(), "real", [0.1, 1e10, float("inf")], [0.123456789, 1e300]),
        (pl.Float32(), "double precision", [0.5], []),
        (pl.Decimal(38, 4), "numeric(4,2)", [Decimal("99.9900")], [Decimal("0.001"), Decimal(100)]),
        (pl.Decimal(10, 2), "numeric(12,4)", [Decimal("99999999.99")], []),
        (pl.Decimal(38, 4), "numeric", [Decimal("0.0001")], []),
        (pl.String(), "character varying(3)", ["äöü", ""], ["abcd", "abc "]),
        (pl.String(), "character(2)", ["ab"], ["a", "abc"]),
        (pl.String(), "text", ["a" * 99], []),
        (pl.String(), "uuid", ["0" * 8 + "-0000-4000-8000-" + "A" * 12], ["0" * 32, ""]),
    ],
)
def test_a_column_holds_what_is_exact(dtype, declared, good, bad):

    assert kept(dtype, declared, [*good, *bad]) == good


def test_instants_are_held_by_columns_that_do_not_cut_them():
    instants = [datetime(2026, 3, 1, 0, 0, 0, ms, UTC) for ms in (0, 1_000)]
    later = datetime(2026, 3, 1, 1, tzinfo=UTC)
    given = [*instants, later]
    for declared in ("timestamp without time zone", "timestamp(3) with time zone"):
        assert kept(INSTANT, declared, given) == given
    assert kept(INSTANT, "timestamp(0) without time zone", given) == [instants[0], later]
    assert kept(INSTANT, "date", given) == instants[:1]
    assert kept(INSTANT, "TIMESTAMP_S", given, DUCK) == [instants[0], later]
    local = conversion("c", INSTANT, "TIMESTAMP", DUCK.rules)
    assert local is not None
    frame = pl.DataFrame({"c": pl.Series(given, dtype=INSTANT)})
    assert frame.select(local.value).to_series()[0] == instants[0].replace(tzinfo=None)


def test_sqlite_keeps_fifteen_digits_of_a_decimal():
    numbers = [Decimal("1234567890123.45"), Decimal("12345678901234.56"), Decimal("0.01")]
    assert kept(pl.Decimal(38, 2), "NUMERIC", numbers, SQLITE) == [numbers[0], numbers[2]]
    assert kept(pl.Decimal(38, 2), "DECIMAL(20,2)", numbers, SQLITE) == [numbers[0], numbers[2]]
    assert kept(pl.Decimal(38, 2), "varchar", numbers, SQLITE) == numbers


@pytest.mark.parametrize(
    ("dtype", "declared", "dialect"),
    [
        (pl.Int64(), "text", POSTGRES),
        (pl.Int64(), "boolean", POSTGRES),
        (pl.Float64(), "bigint", POSTGRES),
        (pl.Decimal(10, 2), "double precision", POSTGRES),
        (pl.Decimal(10, 2), "integer", POSTGRES),
        (pl.Decimal(10, 2), "text", POSTGRES),
        (pl.String(), "integer", POSTGRES),
        (pl.String(), "jsonb", POSTGRES),
        (pl.String(), "some_enum", POSTGRES),
        (pl.String(), "text[]", POSTGRES),
        (pl.Boolean(), "smallint", POSTGRES),
        (INSTANT, "bigint", POSTGRES),
        (INSTANT, "time without time zone", POSTGRES),
        (pl.Date(), "text", POSTGRES),
        (STRUCT, "character varying(9)", POSTGRES),
        (pl.List(pl.String()), "integer", DUCK),
        (INSTANT, "INTEGER", SQLITE),
        (pl.String(), "BLOB", SQLITE),
    ],
)
def test_a_type_that_never_fits_is_refused(dtype, declared, dialect):
    assert conversion("c", dtype, declared, dialect.rules) is None


@pytest.mark.parametrize(
    ("dtype", "declared", "dialect"),
    [
        (STRUCT, "json", POSTGRES),
        (STRUCT, "text", POSTGRES),
        (pl.Boolean(), "BOOLEAN", SQLITE),
        (pl.Boolean(), "tinyint", SQLITE),
        (INSTANT, "datetime", SQLITE),
        (INSTANT, "varchar", SQLITE),
        (pl.Date(), "DATE", SQLITE),
        (pl.Float64(), "float", SQLITE),
        (pl.Int64(), "int", SQLITE),
        (pl.String(), "nvarchar(4)", SQLITE),
        (pl.UInt8(), "HUGEINT", DUCK),
    ],
)
def test_common_types_fit(dtype, declared, dialect):
    assert conversion("c", dtype, declared, dialect.rules) is not None


def test_texts_of_json_go_to_json_columns():
    assert conversion("c", pl.String(), "jsonb", POSTGRES.rules, is_json=True) is not None
