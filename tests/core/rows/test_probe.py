"""Which expressions are functions of one row, and which only seem to be."""

import random

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars import col, lit, when

from tidemark.core.rows.expression import METADATA
from tidemark.core.rows.probe import ROWS, probe_frame, require_row_wise
from tidemark.errors import PipelineError

COLUMNS = {
    "a": pl.Int64(),
    "f": pl.Float64(),
    "s": pl.String(),
    "b": pl.Boolean(),
    "l": pl.List(pl.Int64()),
    "kind": pl.String(),
}

ROW_WISE = [
    col("a") + 1,
    col("a") // 0,
    col("f") / col("a"),
    col("kind") == "pop",
    col("s").str.to_lowercase().str.strip_chars(),
    col("s").str.split(",").list.len(),
    col("s").str.extract(r"(\d+)").cast(pl.Int64),
    col("s").is_in(["a", "b"]),
    col("l").list.sort().list.first(),
    col("l").list.eval(pl.element().rank()),
    when(col("b")).then(col("a")).otherwise(lit(None)),
    pl.coalesce("a", 0),
    pl.max_horizontal("a", "f"),
    pl.struct("a", "s"),
    col("a").fill_null(0),
    col("a").cast(pl.Datetime("ms")).dt.hour(),
    col("s").str.to_datetime("%Y-%m-%d", strict=False),
    lit(1),
    lit("x"),
    pl.all().is_null(),
    col("_key").str.len_chars(),
    col("_headers").list.len(),
    col("a").map_batches(lambda values: values * 2, return_dtype=pl.Int64),
]

OTHER_ROWS = [
    col("a") - col("a").mean(),
    col("f") / col("f").sum(),
    col("a").shift(1),
    col("a").diff().is_null(),
    col("a").cum_sum(),
    col("a").rank(),
    col("a").first(),
    col("a").sort(),
    col("a").reverse(),
    col("a").max().over("s"),
    col("a").forward_fill(),
    col("a").is_duplicated(),
    col("a").is_first_distinct(),
    col("a").rolling_mean(2),
    col("a").sample(fraction=1.0, shuffle=True, seed=1),
    col("a").shuffle(),
    col("a").map_batches(lambda values: values - values.max(), return_dtype=pl.Int64),
    pl.len(),
    pl.int_range(pl.len()),
    lit(pl.Series(range(ROWS))),
]


def named(expressions):
    return [pytest.param(expression, id=str(expression)[:60]) for expression in expressions]


@pytest.mark.parametrize("expression", named(ROW_WISE))
def test_a_function_of_one_row_is_accepted(expression):
    require_row_wise(expression, COLUMNS, "filter")


@pytest.mark.parametrize("expression", named(OTHER_ROWS))
def test_an_expression_that_looks_at_other_rows_is_refused(expression):
    with pytest.raises(PipelineError, match=r"^filter: .* looks at other rows"):
        require_row_wise(expression, COLUMNS, "filter")


def test_other_rows_are_found_behind_a_condition_that_only_special_values_meet():
    hidden = when(col("kind") == "pop").then(col("a") - col("a").max()).otherwise(0)
    with pytest.raises(PipelineError, match="looks at other rows"):
        require_row_wise(hidden, COLUMNS, "with_columns")
    hidden = when(col("a") == 123_456).then(col("f") - col("f").max()).otherwise(0.0)
    with pytest.raises(PipelineError, match="looks at other rows"):
        require_row_wise(hidden, COLUMNS, "with_columns")


@pytest.mark.parametrize(
    "expression", named([col("a").drop_nulls(), col("a").filter(col("b")), col("l").explode()])
)
def test_an_expression_that_changes_the_number_of_rows_is_refused(expression):
    with pytest.raises(PipelineError, match="change the number of rows"):
        require_row_wise(expression, COLUMNS, "select")


def test_an_expression_that_raises_on_some_rows_is_accepted():
    require_row_wise(col("s").cast(pl.Int64), COLUMNS, "with_columns")
    require_row_wise(col("s").str.to_datetime("%Y-%m-%d"), COLUMNS, "with_columns")


def test_other_rows_are_found_although_some_rows_raise():
    numbers = col("s").cast(pl.Int64)
    with pytest.raises(PipelineError, match="looks at other rows"):
        require_row_wise(numbers - numbers.mean(), COLUMNS, "with_columns")


def test_an_expression_that_is_not_deterministic_is_refused():
    dice = random.Random(1)
    rolled = col("a").map_elements(lambda _: dice.random(), return_dtype=pl.Float64)
    with pytest.raises(PipelineError, match="differs between two runs"):
        require_row_wise(rolled, COLUMNS, "with_columns")


def test_an_expression_that_passes_on_one_type_is_refused_on_another_each_time():
    greatest = col("a").eq_missing(col("a").max())
    require_row_wise(greatest, {"a": pl.Null()}, "filter")
    for what in ("filter", "select"):
        with pytest.raises(PipelineError, match=f"^{what}: .* looks at other rows"):
            require_row_wise(greatest, COLUMNS, what)


def test_a_python_function_is_tried_each_time():
    calls = []

    def noting(values):
        calls.append(values)
        return values

    noted = col("a").map_batches(noting, return_dtype=pl.Int64)
    require_row_wise(noted, COLUMNS, "filter")
    first = len(calls)
    require_row_wise(noted, COLUMNS, "filter")
    assert len(calls) == 2 * first > 0


def test_a_type_that_is_not_kept_is_refused():
    lying = col("a").map_batches(lambda values: values.cast(pl.String), return_dtype=pl.Int64)
    with pytest.raises(PipelineError, match="expected output type 'Int64', got 'String'"):
        require_row_wise(lying, COLUMNS, "with_columns")


def test_the_probe_is_the_same_each_time_and_holds_nulls_repeats_and_extremes():
    columns = {**COLUMNS, **METADATA}
    rows = probe_frame(columns, nulls=True)
    assert rows.equals(probe_frame(columns, nulls=True))
    assert rows.height == ROWS >= 64
    values = rows["a"].drop_nulls().to_list()
    assert min(values) < 0 < max(values)
    assert "" in rows["s"]
    for name in columns:
        assert rows[name].null_count() > 0
        assert rows[name].is_duplicated().any()
        assert probe_frame(columns, nulls=False)[name].null_count() == 0


LEAVES = st.sampled_from(
    [
        *(pl.Float32(), pl.Float64(), pl.Int8(), pl.UInt64(), pl.Boolean(), pl.String()),
        *(pl.Binary(), pl.Date(), pl.Time(), pl.Duration("us"), pl.Datetime("ms", "UTC")),
        *(pl.Datetime("us"), pl.Datetime("ns", "Europe/Berlin"), pl.Decimal(12, 3)),
        *(pl.Enum(["x", "y"]), pl.Categorical(), pl.Null()),
    ]
)


def _nested(inner):
    fields = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(pl.List),
        st.builds(pl.Array, inner, st.integers(1, 3)),
        fields.map(pl.Struct),
        inner.map(lambda value: pl.List(pl.Struct({"key": pl.String(), "value": value}))),
    )


@given(st.recursive(LEAVES, _nested, max_leaves=4), st.sampled_from([(), ("12", "-3", "x")]))
@example(pl.List(pl.Struct({"s": pl.List(pl.Struct({"value": pl.Float64()}))})), ())
@example(pl.Array(pl.String(), 2), ())
def test_the_probe_has_the_type_of_any_column(dtype, words):
    rows = probe_frame({"x": dtype}, words, nulls=True)
    assert rows.schema == {"x": dtype}
    assert rows.height == ROWS
    if dtype != pl.Null():
        assert 0 < rows["x"].null_count() < ROWS
    require_row_wise(col("x").is_null(), {"x": dtype}, "filter")


def test_a_type_without_values_is_refused():
    with pytest.raises(PipelineError, match=r"column 'x': .* no columns of type Object"):
        require_row_wise(col("x").is_null(), {"x": pl.Object()}, "filter")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "shown",
    [
        lambda at: at.dt.strftime("%Y-%m-%d"),
        lambda at: at.dt.convert_time_zone("Europe/Berlin").dt.to_string("%H:%M"),
        lambda at: at.cast(pl.String),
        lambda at: at.dt.truncate("1h").dt.year(),
        lambda at: at.dt.date().dt.strftime("%Y"),
        lambda at: (at - at.dt.truncate("1d")).dt.to_string(),
    ],
)
def test_polars_prints_no_panic_while_an_expression_of_instants_is_tried(capfd, unit, shown):
    columns = {"a": pl.Int64(), "n": pl.Struct({"at": pl.Int64()})}
    for number in (col("a"), col("n").struct.field("at")):
        at = pl.from_epoch(number, unit).dt.replace_time_zone("UTC")
        require_row_wise(shown(at), columns, "with_columns")
    assert "panicked" not in capfd.readouterr().err
