"""All queries, by name."""

from collections.abc import Mapping

from bench.nexmark.aggregates import AGGREGATES
from bench.nexmark.joins import JOINS
from bench.nexmark.query import Query
from bench.nexmark.rows import ROWS
from bench.nexmark.windows import WINDOWS

QUERIES: Mapping[str, Query] = dict(
    sorted({**ROWS, **WINDOWS, **AGGREGATES, **JOINS}.items(), key=lambda each: int(each[0][1:]))
)
