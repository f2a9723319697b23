"""All queries, by name."""

from collections.abc import Mapping

from bench.nexmark.aggregates import AGGREGATES
from bench.nexmark.highest_bids import HIGHEST_BIDS
from bench.nexmark.joins import JOINS
from bench.nexmark.patterns import PATTERNS
from bench.nexmark.query import Query
from bench.nexmark.rows import ROWS
from bench.nexmark.side_input import SIDE_INPUT
from bench.nexmark.windows import WINDOWS

_NUMBERED = {**ROWS, **WINDOWS, **AGGREGATES, **JOINS, **HIGHEST_BIDS, **SIDE_INPUT}

QUERIES: Mapping[str, Query] = {
    **dict(sorted(_NUMBERED.items(), key=lambda each: int(each[0][1:]))),
    **PATTERNS,
}
