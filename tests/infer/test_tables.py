"""Tables and times in them as newcomers have them: what infer finds, and what it refuses."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.infer.modules import run
from tidemark import ConfigurationError
from tidemark.core.operators.ports import PANES
from tidemark.files.records import text_records
from tidemark.infer.fit import fitted_module
from tidemark.infer.formats import format_of_lines
from tidemark.infer.sample import Sample, SampleRecord

START = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
COUNT = 24


def at(n: int) -> datetime:
    return START + timedelta(minutes=5 * n)


def table(header, row):
    return "".join(f"{line}\n" for line in [*header, *map(row, range(COUNT))]).encode()


def inferred(content: bytes) -> tuple[str, list[bytes]]:
    """Return the module for the lines of a file, and its records."""
    lines = content.splitlines(keepends=True)
    format_ = format_of_lines(lines, "infer f")
    values = list(text_records(lines, format_))
    sample = Sample(format_, list(map(SampleRecord, values)))
    return fitted_module(sample, "f", "f"), values


def starts(text: str, values: list[bytes]) -> list[int]:
    """Return the starts of the windows that have the values, in order."""
    ran = run(text, values)
    assert ran.dead_letters == []
    panes = ran.published["counts"].every(PANES)
    assert panes["n"].sum() == COUNT
    return sorted({*panes["start"]})


def expected_starts(size_ms: int) -> list[int]:
    times = (int(at(n).timestamp() * 1000) for n in range(COUNT))
    return sorted({ms // size_ms * size_ms for ms in times})


TIMES = {
    "%d.%m.%Y %H:%M:%S,123": "%d.%m.%Y %H:%M:%S%.f",
    "%d.%m.%y %H:%M": "%d.%m.%y %H:%M",
    "%d-%b-%y %I.%M.%S.123456 %p": "%d-%b-%y %I.%M.%S%.f %p",
    "%Y-%m-%d-%H.%M.%S.123456": "%Y-%m-%d-%H.%M.%S%.f",
    "%m/%d/%Y, %I:%M:%S\u202f%p": "%m/%d/%Y, %I:%M:%S %p",
    "%m/%d/%Y %I:%M:%S\u00a0%p": "%m/%d/%Y %I:%M:%S %p",
    "%Y%m%d%H%M": "%Y%m%d%H%M",
}


@pytest.mark.parametrize("form", TIMES)
def test_times_as_people_and_databases_write_them_are_found(form):
    text, values = inferred(
        table(["when;sensor"], lambda n: f"{at(n):{form}};s{n % 3}".upper().replace("S", "s"))
    )
    assert f'    event_time="when",\n    unit="{TIMES[form]}",\n    zone="UTC",' in text
    assert 'key_by("sensor")' in text
    assert starts(text, values) == expected_starts(300_000)


@pytest.mark.parametrize(
    ("row", "expression"),
    [
        ("{0:%Y-%m-%d},{0:%H%M}", '(col("date") + " " + col("time").str.zfill(4))'),
        (
            "{0:%Y%m%d},{1}",
            '(col("date").cast(pl.String) + " " + col("time").cast(pl.String).str.zfill(6))',
        ),
    ],
)
def test_a_date_and_a_clock_of_digits_are_one_time(row, expression):
    begin = at(0) - timedelta(hours=6)
    times = [begin + timedelta(minutes=5 * n) for n in range(COUNT)]
    rows = [f"{row.format(time, int(f'{time:%H%M%S}'))},s0" for time in times]
    content = "\n".join(["date,time,sensor", *rows]).encode()
    text, values = inferred(content)
    assert f"    event_time={expression}\n" in text
    assert starts(text, values) == [each - 6 * 3_600_000 for each in expected_starts(300_000)]


def test_hours_of_ten_digits_are_not_seconds_of_2034():
    header = "STATION;MESS_DATUM;TT;eor"
    rows = [f"  {433 + n % 2};{START + timedelta(hours=n):%Y%m%d%H};  {n}.5;eor" for n in range(40)]
    text, _ = inferred("\n".join([header, *rows]).encode())
    assert '    event_time="MESS_DATUM",\n    unit="%Y%m%d%H",\n' in text
    assert "# 40 records = 40 that fit + 0 dead" in text


def test_tables_with_blanks_between_the_columns_are_read():
    cloudfront = table(
        ["#Version: 1.0", "#Fields: date time x-edge sc-bytes"],
        lambda n: f"{at(n):%Y-%m-%d}\t{at(n):%H:%M:%S}\tFRA{n % 2}\t{n}",
    )
    text, values = inferred(cloudfront)
    assert 'format=csv(["date", "time", "x-edge", "sc-bytes"], delimiter=\'\\t\'),' in text
    assert starts(text, [each for each in values if not each.startswith(b"#")]) == (
        expected_starts(300_000)
    )
    blanks = table(["date time host load"], lambda n: f"{at(n):%Y-%m-%d %H:%M:%S} h{n % 3} {n}")
    text, values = inferred(blanks)
    assert 'format=csv(["date", "time", "host", "load"], delimiter=" "),' in text
    assert starts(text, values) == expected_starts(300_000)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            table(["Report of March", "", "at,v"], lambda n: f"{at(n):%FT%TZ},{n}"),
            r"the names of the columns are in line 3.* tail -n \+3 FILE",
        ),
        (
            table(["date   time   v"], lambda n: f"{at(n):%Y-%m-%d  %H:%M}  {n:>4}"),
            r"several blanks are between the columns.* sed -E",
        ),
    ],
)
def test_a_table_that_is_not_csv_is_refused_with_the_command_that_helps(content, words):
    with pytest.raises(ConfigurationError, match=words):
        inferred(content)


def test_rows_of_another_width_are_counted_with_the_first_of_them():
    text, _ = inferred(
        table(["at,k,note"], lambda n: f"{at(n):%FT%TZ},k{n % 3},{'a, b' if n % 4 == 2 else 'a'}")
    )
    assert "# 24 records = 18 that fit + 6 dead + 0 blank" in text
    assert "#   6 dead from record 3 on: 'row 1 has 4 fields, not 3: at, k, note'" in text


def test_words_are_not_a_table():
    lines = table(["Some words in lines"], lambda n: f"more words and lines {n % 7} of text")
    assert '\n    format="text",\n' in inferred(lines)[0]


@pytest.mark.parametrize("column", ["Voltage", "High", "value"])
def test_a_measurement_is_not_a_key(column):
    text, _ = inferred(table([f"at,{column}"], lambda n: f"{at(n):%FT%TZ},{220 + n % 5}"))
    assert "# No field looks like a key: all records count together." in text
    text, _ = inferred(table([f"at;{column}"], lambda n: f"{at(n):%FT%TZ};1.2{n % 5}0,5"))
    assert "# No field looks like a key: all records count together." in text


def test_a_text_that_each_record_has_once_is_not_a_key():
    text, _ = inferred(table(["at,user_id"], lambda n: f"{at(n):%FT%TZ},u{n}"))
    assert "# No field looks like a key: all records count together." in text


def test_numbers_with_a_decimal_comma_are_text_with_a_comment():
    text, _ = inferred(
        table(
            ["at;k;v;w"], lambda n: f"{at(n):%FT%TZ};k{n % 2};1.2{n:02},5;{'' if n % 3 else '1,5'}"
        )
    )
    for name in "vw":
        assert f'"{name}": str,  # numbers with commas are text; replace' in text
    assert '"k": str,\n' in text
