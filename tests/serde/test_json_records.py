import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serde.outcomes import outcomes, parsed_by
from tests.support.hostile import COLUMNS, VALUES
from tidemark.core.rows.schema import Schema
from tidemark.errors import PipelineError
from tidemark.serde.json_records import JsonRecords
from tidemark.serde.parsed_batch import ParsedBatch


def parse(columns, values, time_columns=()) -> ParsedBatch:
    return parsed_by(JsonRecords(Schema.of(columns), time_columns), values)


@pytest.mark.parametrize(("value", "outcome"), VALUES, ids=lambda part: repr(part)[:40])
def test_each_record_alone_has_its_outcome(value: bytes | None, outcome: str):
    assert outcomes(parse(COLUMNS, [value])) == {0: outcome}


def test_neighbours_change_nothing():
    parsed = parse(COLUMNS, [value for value, _ in VALUES])

    assert outcomes(parsed) == dict(enumerate(outcome for _, outcome in VALUES))


SMALL = [(value, outcome) for value, outcome in VALUES if value is None or len(value) < 1000]


@given(st.lists(st.sampled_from(SMALL), max_size=8))
def test_no_record_shifts_another(records: list[tuple[bytes | None, str]]):
    decoder = JsonRecords(Schema.of(COLUMNS))
    together = parsed_by(decoder, [value for value, _ in records])
    alone = [parsed_by(decoder, [value]).columns for value, _ in records]

    assert outcomes(together) == dict(enumerate(outcome for _, outcome in records))
    assert together.columns.equals(pl.concat([pl.DataFrame(schema=COLUMNS), *alone]))


@given(st.lists(st.binary(max_size=12) | st.text(max_size=8).map(str.encode), max_size=5))
def test_any_bytes_have_an_outcome(values: list[bytes]):
    decoder = JsonRecords(Schema.of(COLUMNS))

    apart = [outcomes(parsed_by(decoder, [value]))[0] for value in values]
    assert outcomes(parsed_by(decoder, values)) == dict(enumerate(apart))


def test_values_become_columns_of_the_declared_types():
    parsed = parse(
        COLUMNS, [b'{"player":"a","at":1,"x":2,"ok":false,"other":0}', b'{"at":3,"at":4,"x":0.1}']
    )

    assert parsed.columns.equals(
        pl.DataFrame([("a", 1, 2.0, False), (None, 4, 0.1, None)], schema=COLUMNS, orient="row")
    )
    assert parsed.columns.schema == COLUMNS


def test_time_is_kept_where_another_column_is_wrong():
    parsed = parse(
        COLUMNS,
        [
            b'{"at":5,"player":5}',
            b'{"player":5,"at":6}',
            b'{"player":5}',
            b'{"player":5,"at":"6"}',
            b'{"player":5,"at":6',
            b'{"at":7}{}',
            b'{"at":8,"other":NaN}',
        ],
        ["at"],
    )

    assert len(parsed.dead) == 7
    assert parsed.dead_with_time.tolist() == [0, 1, 2]
    assert parsed.times.to_dict(as_series=False) == {"at": [5, 6, None]}


def test_lists_and_structs_nest():
    schema = {
        "xs": pl.List(pl.Int32),
        "deep": pl.Struct({"we ird": pl.String, "all": pl.List(pl.Struct({"q": pl.Float64}))}),
    }
    parsed = parse(
        schema,
        [
            b'{"xs":[1,null],"deep":{"we ird":"x","all":[{"q":1}]}}',
            b'{"xs":null}',
            b'{"xs":[2147483648]}',
            b'{"deep":{"all":[{"q":"1"}]}}',
        ],
    )

    assert parsed.columns.schema == schema
    assert parsed.columns.rows() == [
        ([1, None], {"we ird": "x", "all": [{"q": 1.0}]}),
        (None, None),
    ]
    assert [dead.reason for dead in parsed.dead] == [
        "column xs[0]: number out of range",
        "column deep.all[0].q: expected float, got str",
    ]


def test_columns_may_have_any_name():
    schema = {name: pl.Int64() for name in ("class", "a b", "f0", "_key", "größe", "`", "")}
    parsed = parse(schema, ['{"class":1,"a b":2,"f0":3,"_key":4,"größe":5,"`":6,"":7}'.encode()])

    assert parsed.columns.row(0) == (1, 2, 3, 4, 5, 6, 7)


def test_column_of_a_type_that_json_lacks_is_refused():
    with pytest.raises(PipelineError, match=r"'at'.*Duration"):
        JsonRecords(Schema.of({"at": pl.Duration("ms")}))
