"""Operators in order of event time with drawn settings: distinct rows, and scans."""

from hypothesis import strategies as st

from tests.support.logs import COLUMNS
from tests.support.running import over
from tidemark.core.operators.ordered.distinct import Distinct
from tidemark.core.operators.ordered.operator import OrderedRows
from tidemark.core.operators.ordered.scan import Scan
from tidemark.core.operators.ordered.values import RowValue, cum_sum, diff, prev

BY = (("key",), ("key", "value"))
WITHIN_MS = (1, 3, 10, 40)
VALUES: dict[str, RowValue] = {
    "before": prev("value"),
    "delta": diff("value"),
    "total": cum_sum("value"),
}

distincts = st.tuples(st.sampled_from(BY), st.sampled_from(WITHIN_MS))
scans = st.none() | st.sampled_from(WITHIN_MS)


def distinct(spec, topics):
    return over(topics, OrderedRows(Distinct(*spec), ("key",), COLUMNS))


def scan(max_silence_ms, topics):
    rule = Scan(VALUES, ("key",), COLUMNS, max_silence_ms)
    return over(topics, OrderedRows(rule, ("key",), COLUMNS))
