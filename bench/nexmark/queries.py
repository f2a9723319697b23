"""All queries, by name."""

from collections.abc import Mapping

from bench.nexmark.aggregates import AGGREGATES
from bench.nexmark.highest_bids import HIGHEST_BIDS
from bench.nexmark.joins import JOINS
from bench.nexmark.query import Query
from bench.nexmark.rows import ROWS
from bench.nexmark.side_input import SIDE_INPUT
from bench.nexmark.windows import WINDOWS

_ALL = {**ROWS, **WINDOWS, **AGGREGATES, **JOINS, **HIGHEST_BIDS, **SIDE_INPUT}

QUERIES: Mapping[str, Query] = dict(sorted(_ALL.items(), key=lambda each: int(each[0][1:])))
