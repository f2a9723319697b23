"""``where`` of aggregates: mistakes are named when a pipeline is built, bad rows one by one."""

import polars as pl
import pytest

from tests.support.aggregating import BY, COLUMNS, CountRows, frame
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.custom import Custom, FrameFunction
from tidemark.core.aggregates.filtered import filtered
from tidemark.errors import PipelineError

POSITIVE = pl.col("int") > 0


@pytest.mark.parametrize(
    ("aggregate", "text"),
    [
        (aggregates.count(where=POSITIVE), 'count(where=[(col("int")) > (dyn int: 0)])'),
        (
            aggregates.sum("float", where=pl.col("bool")),
            'sum("float", where=col("bool"))',
        ),
        (
            aggregates.top_k("text", 3, by="int", where=pl.col("bool")),
            'top_k("text", 3, by="int", where=col("bool"))',
        ),
        (
            filtered(Custom(("int",), pl.Int64(), CountRows()), pl.col("bool")),
            'custom(CountRows, where=col("bool"))',
        ),
    ],
)
def test_where_is_a_part_of_the_text_of_an_aggregate(aggregate, text):
    assert str(aggregate) == text


def test_texts_that_polars_shortens_differ_still():
    words = [f"word-{number}" for number in range(200)]
    first, second = (
        aggregates.count(where=pl.col("text").is_in([*words, last])) for last in ("a", "b")
    )

    assert str(first) != str(second)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (pl.col("int"), r'x=count\(\): where: col\("int"\) is Int64, not Boolean'),
        (pl.col("nope") > 1, r"x=count\(\): where: the stream has no column 'nope'"),
        (pl.col("int") > pl.col("int").mean(), "where: .* looks at other rows"),
        (pl.all_horizontal(pl.all().is_null()), "does not name its columns"),
        (pl.col("_key") == "a", r"'_key' is not in the log; .* with_columns\(name=col\('_key'\)\)"),
    ],
)
def test_a_where_that_is_no_boolean_of_a_row_is_a_mistake(where, message):
    with pytest.raises(PipelineError, match=message):
        Aggregation({"x": aggregates.count(where=where)}, COLUMNS)


def test_a_where_that_is_no_expression_is_a_mistake():
    with pytest.raises(PipelineError, match=r"sum\(\"int\"\): where: .* not an expression"):
        aggregates.sum("int", where="int > 0")  # type: ignore[arg-type]  # the mistake under test


def test_a_column_that_does_not_suit_is_a_mistake_with_where_too():
    with pytest.raises(PipelineError, match=r'x=sum\("text"\): column "text" is String'):
        Aggregation({"x": aggregates.sum("text", where=POSITIVE)}, COLUMNS)


def test_rows_on_which_where_fails_are_named_and_the_others_count():
    parsed = pl.col("text").str.to_integer() > 1
    height = FrameFunction(("text",), pl.Int64(), lambda rows: rows.height)
    aggregation = Aggregation(
        {
            "some": aggregates.count(where=parsed),
            "height": filtered(height, parsed),
        },
        COLUMNS,
    )
    texts = ["1", "2", "x", None, "3", "y"]
    rows = frame([{"user": "ann", "start": 0, "text": text} for text in texts])

    refused = aggregation.refusals(rows)

    assert [*refused] == [2, 5]
    assert refused[2].startswith("some=count(): where: ComputeError: strict integer parsing")
    good = rows.filter(~pl.int_range(pl.len()).is_in([*refused]))
    values = aggregation.values(aggregation.partials(good, BY))
    assert values.select("some", "height").rows() == [(2, 2)]


def test_rows_on_which_one_where_fails_are_not_refused_by_another():
    parsed = pl.col("text").str.to_integer() > 1
    counts = {"int": aggregates.count(where=pl.col("int") > 0), "text": aggregates.count()}
    rows = frame([{"int": n, "text": text} for n, text in enumerate(["1", "x", "2"])])

    assert Aggregation(counts, COLUMNS).refusals(rows) == {}
    failing = Aggregation({**counts, "text": aggregates.count(where=parsed)}, COLUMNS)
    refused = failing.refusals(rows)

    assert [*refused] == [1]
    assert refused[1].startswith("text=count(): where: ")


class Refuses(CountRows):
    """A count that refuses the integer 7."""

    def add(self, state, row):
        if row["int"] == 7:
            raise ValueError("seven")
        return state + 1


def test_a_user_function_sees_only_the_rows_for_which_where_is_true():
    refuses = filtered(Custom(("int",), pl.Int64(), Refuses()), pl.col("bool"))
    aggregation = Aggregation({"x": refuses}, COLUMNS)
    rows = frame(
        [
            {"user": "ann", "start": 0, "int": integer, "bool": flag}
            for integer, flag in [(1, True), (7, False), (7, None), (7, True)]
        ]
    )

    assert aggregation.refusals(rows) == {3: "x=custom(Refuses): add: ValueError: seven"}
    assert aggregation.values(aggregation.partials(rows[:3], BY))["x"].to_list() == [1]
