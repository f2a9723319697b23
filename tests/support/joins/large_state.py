"""Joins with a state many times their budget of memory; run it as a program: ``pairs``, ``table``.

Each row of the last segment has a partner, and the partners lie all over the state.  It prints the
number of pairs, the size of the state, and by how much the peak of memory has grown: by the pairs,
or also by the merges of runs of versions.
"""

import json
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.operators.joins.side import Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.joins.table_join import TableJoin
from tidemark.core.operators.operator import Body
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import (
    EVENT_TIME,
    NEVER_MS,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
)
from tidemark.runtime.backends.spill import SpillingBlocks

_COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64(), "text": pl.String()}
_LEFT, _RIGHT = Side("left", _COLUMNS, {"text": "text"}), Side("right", _COLUMNS, {"text": "other"})
_KEYS, _SEGMENT, _PAIRS, _CHARACTERS = 40_000, 2_000, 1_000, 2_000
_BUDGET, _FRAME = 4 * 2**20, 128 * 2**10

BODIES: dict[str, Body] = {
    "pairs": StreamJoin(("key",), _LEFT, _RIGHT, "inner", -_KEYS, _KEYS),
    "table": TableJoin(("key",), _LEFT, _RIGHT, "inner", _KEYS, 0, "arrival"),
}
_UNMEASURED = {"pairs": _KEYS, "table": 3 * _SEGMENT}
"""By kind: the number of rows in state before the peak of memory counts."""


def main(kind: str) -> None:
    """Fill the state, then join with rows all over it."""
    body = BODIES[kind]
    filled, asking = ("left", "right") if kind == "pairs" else ("right", "left")
    with tempfile.TemporaryDirectory() as folder:
        store = SpillingBlocks(Path(folder), _BUDGET, _FRAME)
        state = body.open(store)
        for keys in np.arange(_KEYS).reshape(-1, _SEGMENT):
            body.process({filled: _rows(keys, filled), asking: _rows(keys[:0], asking)}, state)
            state.changes()
            if keys[-1] < _UNMEASURED[kind]:
                before = _peak_bytes()
        keys = np.arange(0, _KEYS, _KEYS // _PAIRS)
        sides = {filled: _rows(keys[:0], filled), asking: _rows(keys, asking)}
        pairs = body.process(sides, state)["rows"]
        grown = _peak_bytes() - before
        assert pairs["text"].equals(pairs["other"].alias("text")), "a row has a wrong partner"
        found = {"pairs": pairs.height, "state": state.size_bytes(), "grown": grown}
        store.close()
    sys.stdout.write(json.dumps(found))


def _rows(keys: npt.NDArray[np.int64], side: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            SOURCE: pl.repeat(f"{side}/0", keys.size, eager=True),
            OFFSET: keys,
            SUB_ROW: np.zeros(keys.size, np.int32),
            EVENT_TIME: keys,
            WATERMARK: np.full(keys.size, NEVER_MS),
            "key": keys,
            "text": pl.Series([f"{key:0>{_CHARACTERS}}" for key in keys], dtype=pl.String),
            ORDER: np.arange(keys.size),
        },
        schema={**ROW_COLUMNS, SOURCE: pl.String(), **_COLUMNS, ORDER: pl.Int64()},
    )


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(sys.argv[1])
