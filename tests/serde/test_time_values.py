"""Times in records: whole columns are read as event time is, and a faulty one kills its record."""

from datetime import UTC, date, datetime

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serde.outcomes import outcomes, parsed_by
from tests.support.hostile import GOOD
from tidemark import field
from tidemark.core.rows.schema import INSTANT, Schema, TimeValue
from tidemark.errors import PipelineError
from tidemark.language.schema import schema_of
from tidemark.serde.json_records import JsonRecords
from tidemark.serde.spellings.time_values import FormatDays, FormatMicros, time_column

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
AUTO = "no date and time in unit auto"
NESTED = {
    "at": datetime,
    "day": date,
    "o": {"t": datetime, "n": int},
    "list": [{"t": datetime}],
    "map": dict[str, list[datetime]],
    "text": field("text", {"t": datetime}, json=True),
    "n": int,
}


def read(declared: object, *values: str, time_columns=()):
    return parsed_by(
        JsonRecords(schema_of(declared, "s"), time_columns), [value.encode() for value in values]
    )


def test_times_are_read_wherever_they_are():
    parsed = read(
        NESTED,
        '{"at": "2026-01-02T03:04:05.678Z", "day": "2026-01-02", "o": {"t": 1767323045678},'
        ' "list": [{"t": 1767323045.678}, null, {}], "map": {"a": ["1767323045678", null]},'
        ' "text": "{\\"t\\": \\"2026-01-02 04:04:05.678+01\\"}"}',
    )
    assert parsed.columns.rows() == [
        (
            *(AT, date(2026, 1, 2), {"t": AT, "n": None}),
            *([{"t": AT}, None, {"t": None}], [{"key": "a", "value": [AT, None]}]),
            *({"t": AT}, None),
        )
    ]


FAULTS = (
    ('"soon"', AUTO),
    ('"2026-01-02T03:04:05"', "no offset, and the source names no zone"),
    ("true", "expected datetime in unit auto, got bool"),
    ("[]", "expected datetime in unit auto, got array"),
    ("1", "1 is from 2000 to 2100 in no unit of s, ms, us and ns"),
    ("99999999999999999999", "number out of range"),
)


@pytest.mark.parametrize(("value", "reason"), FAULTS)
@pytest.mark.parametrize(
    ("record", "place"),
    [
        ('{"at": %s}', "at"),
        ('{"o": {"t": %s}}', "o.t"),
        ('{"list": [{}, {"t": %s}]}', "list[1].t"),
        ('{"map": {"a": [], "b": [null, %s]}}', "map[...][1]"),
        ('[{}, {"at": %s}]', "at"),
    ],
)
def test_a_value_that_is_no_time_kills_its_record_alone(record, place, value, reason):
    parsed = read(NESTED, '{"n": 1}', record % value, '{"n": 2}')
    element = "element 1: " if record.startswith("[") else ""
    assert outcomes(parsed) == {0: GOOD, 1: f"{element}column {place}: {reason}", 2: GOOD}
    assert parsed.columns["n"].to_list() == [1, 2]


def test_the_first_column_in_order_of_the_schema_is_the_reason():
    parsed = read(NESTED, '{"day": "x", "at": "x"}', '{"day": "x", "n": "x", "at": "x"}')
    assert outcomes(parsed) == {
        0: f"column at: {AUTO}",
        1: "column n: expected int, got str",  # the types of JSON are looked at first
    }


def test_a_record_whose_fault_is_another_time_still_moves_time():
    parsed = read(
        {"at": datetime, "made": datetime},
        '{"at": "2026-01-02T03:04:05.678Z", "made": "x"}',
        '{"at": "x", "made": "x"}',
        '{"at": "2026-01-02T03:04:05.678Z", "made": 1767323045}',
        time_columns=("at",),
    )
    assert parsed.records.tolist() == [2]
    assert parsed.dead_with_time.tolist() == [0]
    assert parsed.times.to_dicts() == [{"at": AT}]


def test_a_record_with_another_fault_moves_time_only_if_its_time_is_one():
    parsed = read({"at": datetime, "n": int}, '{"at": "x", "n": ""}', time_columns=("at",))
    assert outcomes(parsed) == {0: "column n: expected int, got str"}
    assert parsed.dead_with_time.tolist() == []


def test_null_is_a_fault_of_a_required_time_and_a_default_takes_its_place():
    required = {"o": {"t": field("t", datetime, optional=False), "n": int}}
    parsed = read(required, '{"o": null}', '{"o": {"t": null}}', '{"o": {"n": 1}}')
    assert outcomes(parsed) == {
        0: GOOD,
        1: "column o.t: expected datetime in unit auto, got null",
        2: "column o.t: missing",
    }
    filled = {"at": field("at", datetime, default=AT), "d": field("d", date, default=AT.date())}
    assert read(filled, "{}").columns.rows() == [(AT, AT.date())]


def test_units_zones_and_leniency_are_those_of_the_field():
    declared = {
        "s": field("s", datetime, unit="s", lenient=True),
        "local": field("local", datetime, unit="iso8601", zone="Europe/Berlin"),
        "day": field("day", date, unit=["%d.%m.%Y", "%Y%m%d"]),
        "days": field("days", date, unit="days"),
    }
    parsed = read(
        declared,
        '{"s": "1767323045", "local": "2026-01-02 04:04:05.678", "day": "02.01.2026", "days": -1}',
        '{"s": "-", "day": "20260102"}',
        '{"s": 1.5}',
        '{"days": 3000000}',
        '{"local": 1}',
    )
    assert parsed.columns.rows()[:2] == [
        (AT.replace(microsecond=0), AT, date(2026, 1, 2), date(1969, 12, 31)),
        (None, None, date(2026, 1, 2), None),
    ]
    assert parsed.converted == 2
    assert outcomes(parsed)[3] == "column days: outside the years 0001 to 9999 in unit days"
    assert outcomes(parsed)[4] == "column local: expected datetime in unit iso8601, got int"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"a": field("a", datetime, unit="days")}, "unit 'days' is not one of s, ms"),
        ({"a": field("a", datetime, unit="s", zone="Europe/Berlin")}, "a zone needs a datetime"),
        ({"a": field("a", date, unit="ms")}, "unit 'ms' of a date is not 'days' or a pattern"),
        ({"a": field("a", date, unit="%Y-%m-%d %H")}, "of a date has a time; declare"),
        ({"a": field("a", datetime, zone="Mars")}, "'Mars' is not a time zone"),
        ({"a": field("a", str, unit="s")}, "unit and zone are of a datetime or date"),
        ({"a": field("a", datetime, default="now")}, "default 'now' is not a datetime with a zone"),
        ({"a": field("a", list[datetime], default=[AT])}, "can only be empty"),
    ],
)
def test_what_a_time_cannot_be_is_refused(declared, message):
    with pytest.raises(PipelineError, match=message.replace("(", r"\(")):
        schema_of(declared, "s")


def test_times_of_a_format_have_their_own_unit():
    at = TimeValue(INSTANT, ("auto",))
    day = TimeValue(pl.Date(), ("%Y-%m-%d",))
    us = FormatMicros(AT.timestamp() * 1_000_000)
    assert time_column("a", [us, None, "2026-01-02T03:04:05.678Z"], at).series.to_list() == [
        AT,
        None,
        AT,
    ]
    assert time_column("d", [FormatDays(1)], day).series.to_list() == [date(1970, 1, 2)]
    mixed = time_column("a", [FormatDays(1), us], at)
    assert mixed.reasons == {0: "expected datetime in unit auto, got a date"}


@given(
    st.lists(st.sampled_from([part for part, _ in FAULTS] + ["null", '"1767323045"']), max_size=6)
)
def test_no_record_shifts_another(values):
    whole = read({"at": datetime}, *(f'{{"at": {value}}}' for value in values))
    alone = [read({"at": datetime}, f'{{"at": {value}}}') for value in values]
    assert outcomes(whole) == {at: outcomes(each)[0] for at, each in enumerate(alone)}
    columns = pl.concat([no_columns(), *(each.columns for each in alone)])
    assert whole.columns.equals(columns)


def no_columns() -> pl.DataFrame:
    schema: Schema = schema_of({"at": datetime}, "s")
    return pl.DataFrame(schema=dict(schema))
