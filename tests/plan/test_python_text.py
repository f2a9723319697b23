"""What polars prints of an expression, as a user writes it."""

import polars as pl
import pytest

from tidemark import col
from tidemark.plan.python_text import in_python


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("kind") != "miss", 'col("kind") != "miss"'),
        (col("score") >= 1, 'col("score") >= 1'),
        ((col("a") > 1) & (col("b") < 2.5), '(col("a") > 1) & (col("b") < 2.5)'),
        ((col("a") + 1) * 2 > col("b"), '((col("a") + 1) * 2) > col("b")'),
        (col("x").str.starts_with("a"), 'col("x").str.starts_with("a")'),
        (
            col("x").is_in([1, 2]) | col("y").is_null(),
            'col("x").is_in([1, 2]) | col("y").is_null()',
        ),
        ((col("a") > 1).alias("is_high"), '(col("a") > 1).alias("is_high")'),
        (col("a").cast(pl.Int64), 'col("a").cast(Int64)'),
        (col("s").struct.field("f") > 1, 'col("s").struct.field("f") > 1'),
        (col("k") == "[(x) & (y)]", 'col("k") == "[(x) & (y)]"'),
        (~col("done"), 'col("done").not_()'),
    ],
)
def test_an_expression_reads_as_it_was_written(expression, text):
    assert in_python(str(expression)) == text
    assert in_python(f"filter({expression})") == f"filter({text})"


@pytest.mark.parametrize("text", ["all rows", "bounded(2s)", 'half of "a text', "[(x", "([)]"])
def test_other_texts_stay_as_they_are(text):
    assert in_python(text) == text
