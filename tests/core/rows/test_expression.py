"""Errors of expressions and columns: they name the remedy."""

import polars as pl
import pytest

from tidemark.core.rows.expression import require_column
from tidemark.errors import PipelineError


def test_a_member_that_is_named_as_a_column_has_the_remedy():
    columns = {"user": pl.Struct({"id": pl.Int64()})}
    with pytest.raises(PipelineError, match=r"'user.id'; with_columns\(id=field\('user.id'\)\)"):
        require_column("user.id", columns, "sum")
    with pytest.raises(PipelineError, match=r"'who.id' \(columns: user\)"):
        require_column("who.id", columns, "sum")


def test_columns_of_operators_are_not_named():
    columns = {"user": pl.String(), "@all": pl.Int64()}
    with pytest.raises(PipelineError, match=r"column 'all' \(columns: user\)"):
        require_column("all", columns, "sum")
