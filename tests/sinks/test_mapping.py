"""The file that maps tables to existing ones: what it may say."""

import pytest

from examples.game import game
from tests.sinks.feeds import PANES
from tidemark.errors import ConfigurationError
from tidemark.sinks.mapping import mapped, require_mapping
from tidemark.sinks.rows import decode
from tidemark.sinks.table import tables_of


def read(tmp_path, text, tables=(PANES,)):
    path = tmp_path / "mapping.toml"
    path.write_text(text)
    return mapped(tables, str(path))


def test_tables_are_as_they_are_without_a_file():
    assert mapped([PANES], "") == (PANES,)


def test_columns_get_other_names_and_those_that_are_not_named_are_left_out(tmp_path):
    columns = "columns = { pops = 'n', window_start = 'bucket', player = 'who' }"
    (table,) = read(tmp_path, f"[pops]\nschema = 'metrics'\ntable = 'traffic'\n{columns}")
    assert (table.schema, table.name, list(table.columns)) == (
        "metrics", "traffic", ["n", "bucket", "who"],
    )  # fmt: skip
    assert (table.key, table.window, table.record_key) == (
        ("bucket", "who"), ("bucket", "who"), ("who",),
    )  # fmt: skip
    decoded = decode(table, [b'{"player":"ann","start":5,"pops":7}'])
    assert decoded.rows.drop("retracted").select("n", "who").rows() == [(7, "ann")]
    assert decoded.rows["bucket"].to_physical().to_list() == [5]


def test_the_raw_row_of_late_rows_may_have_another_name(tmp_path):
    tables = tables_of(game.plan())
    (late,) = (each for each in tables if each.name == "pops_per_minute_late")
    key = ", ".join(f"{name} = '{name}'" for name in late.key)
    text = f"[{late.name}]\ncolumns = {{ {key}, row = 'event' }}"
    (table,) = read(tmp_path, text, [late])
    value = b'{"topic":"moves","partition":0,"offset":3,"sub_row":0,"row":{"player":"ann"}}'
    (event,) = decode(table, [value]).rows["event"]
    assert '"player":"ann"' in event


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[pops", "is not TOML"),
        ("[nope]", "no table 'nope'; there are pops"),
        ("[pops]\nname = 'x'", "unknown field `name`"),
        ("[pops]\ncolumns = { nope = 'x' }", "no column 'nope'; there are player"),
        ("[pops]\ncolumns = { player = 'x' }", "lacks 'window_start', which is part of the key"),
        ("[pops]\ncolumns = { player = 'x', window_start = 'x' }", "names a column twice"),
        ("[pops]\ncolumns = { player = 'retracted', window_start = 'x' }", "which the sink keeps"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, text, says):
    with pytest.raises(ConfigurationError, match=says) as raised:
        read(tmp_path, text)
    assert "TIDEMARK_SINK_MAPPING: " in str(raised.value)


def test_a_missing_file_and_two_outputs_of_one_table_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"nope\.toml: No such file"):
        mapped([PANES], str(tmp_path / "nope.toml"))
    tables = tables_of(game.plan())
    first, second = (each.name for each in tables[1:3])
    with pytest.raises(ConfigurationError, match="would both go to table 'x'"):
        read(tmp_path, f"[{first}]\ntable = 'x'\n[{second}]\ntable = 'x'", tables)
    with pytest.raises(ConfigurationError, match="dead letters have a table of their own form"):
        read(tmp_path, "[dead_letters]\ntable = 'x'", tables)


@pytest.mark.parametrize("address", ["kafka:copy", "https://host/", "parquet:x", "jsonl:x"])
def test_sinks_without_tables_take_no_mapping(tmp_path, address):
    tables = read(tmp_path, "[pops]\ntable = 'x'")
    with pytest.raises(ConfigurationError, match="has no tables to map to"):
        require_mapping(address, tables)
    require_mapping("sqlite:x", tables)
    require_mapping(address, [PANES])
