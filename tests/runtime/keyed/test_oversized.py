"""Panes that fit no message become dead letters; their neighbours stay."""

import polars as pl
import pytest

from tidemark.core.operators.ports import late_port, pane_port
from tidemark.plan.physical import PortPlan
from tidemark.runtime.keyed.oversized import MOST_BYTES, without_oversized
from tidemark.serde.binary_column import BinaryColumn

KEY = {"k": pl.String()}
PANES = PortPlan(pane_port(tuple(KEY), KEY, {"n": pl.Int64()}), "p.out", "json")
LATE = PortPlan(late_port(tuple(KEY), KEY), "p.out.late", "json")


def test_what_fits_is_left_alone():
    keys, values = BinaryColumn.of([b"a", b"b"]), BinaryColumn.of([b"1", b""])
    assert without_oversized(PANES, 0, keys, values) == (keys, values, [])


@pytest.mark.parametrize(("port", "noun"), [(PANES, "pane"), (LATE, "late row")])
def test_a_row_too_large_becomes_a_letter_with_its_key_and_size(port, noun):
    keys = BinaryColumn.of([b"a", b"b", b"c"])
    values = BinaryColumn.of([b"1", b"x" * MOST_BYTES, b"2"])
    kept_keys, kept, (letter,) = without_oversized(port, 3, keys, values)
    assert ([*kept_keys], [*kept]) == ([b"a", b"c"], [b"1", b"2"])
    assert (letter.key, letter.topic, letter.partition) == (b"b", port.topic, 3)
    assert letter.reason == (
        f"{noun} of {MOST_BYTES + 1:,} bytes: at most {MOST_BYTES:,} fit a message"
    )
