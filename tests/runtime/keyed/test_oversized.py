"""Panes that fit no message become dead letters; their neighbours stay."""

import polars as pl
import pytest

from tidemark.core.operators.ports import late_port, pane_port
from tidemark.plan.physical import PortPlan
from tidemark.runtime.keyed.oversized import MOST_BYTES, without_oversized

KEY = {"k": pl.String()}
PANES = PortPlan(pane_port(tuple(KEY), KEY, {"n": pl.Int64()}), "p.out", "json")
LATE = PortPlan(late_port(tuple(KEY), KEY), "p.out.late", "json")


def test_what_fits_is_left_alone():
    keys, values = [b"a", None], [b"1", None]
    assert without_oversized(PANES, 0, keys, values) == (keys, values, [])


@pytest.mark.parametrize(("port", "noun"), [(PANES, "pane"), (LATE, "late row")])
def test_a_row_too_large_becomes_a_letter_with_its_key_and_size(port, noun):
    values = [b"1", b"x" * MOST_BYTES, b"2"]
    keys, kept, (letter,) = without_oversized(port, 3, [b"a", b"b", b"c"], values)
    assert (keys, kept) == ([b"a", b"c"], [b"1", b"2"])
    assert (letter.key, letter.topic, letter.partition) == (b"b", port.topic, 3)
    assert letter.reason == (
        f"{noun} of {MOST_BYTES + 1:,} bytes: at most {MOST_BYTES:,} fit a message"
    )
