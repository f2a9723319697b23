"""Aggregates in Python as users write them: arguments that do not fit are named."""

from typing import Any

import pytest

import tidemark as td
from tests.support.aggregating import CountRows
from tidemark.errors import PipelineError

# Without their types: arguments of other types are the mistakes under test.
custom: Any = td.custom
apply_frame: Any = td.apply_frame


def trail(rows):
    return ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: custom(CountRows, "int", str),
            "is not an object with the methods init, add, merge",
        ),
        (
            lambda: custom(object(), "int", str),
            "is not an object with the methods init, add, merge",
        ),
        (
            lambda: custom(CountRows(), [], str),
            r"custom\(columns\): \[\] is not a list of column names",
        ),
        (lambda: custom(CountRows(), "int", "text"), r"custom\(type\): .* 'text' is not a type"),
        (lambda: apply_frame(3, "int", str), "apply_frame: 3 is not a function"),
        (lambda: apply_frame(trail, [4], str), r"apply_frame\(columns\): \[4\] is not a list"),
        (lambda: apply_frame(trail, None, str), r"apply_frame\(columns\): None is not a list"),
    ],
)
def test_arguments_that_do_not_fit_are_named(make, message):
    with pytest.raises(PipelineError, match=message):
        make()
