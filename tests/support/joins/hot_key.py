"""A join whose rows all have one key, within a limit on memory; run it as a program.

It prints the pairs of the first rows, the refused rows by reason where they have too many pairs,
and by how much the peak of memory has grown.
"""

import json
import resource
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from tests.support.operators.joins import over_topics
from tidemark.core.operators.joins.side import Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.ports import REASON
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, Segment, SourceMark

_COLUMNS: dict[str, pl.DataType] = {"key": pl.Int64()}
_TOPICS = ("orders", "payments")
_PARTNERS, _ROWS = 200_000, 20_000
_LIMIT_BYTES = 2**30


def main() -> None:
    """Run both joins."""
    _one_pair()  # loads what is loaded at the first use
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _LIMIT_BYTES,) * 2)
    before = _peak_bytes()
    steps = islice(_joined(1_000_000).steps([_segment("orders", _ROWS)]), 3)
    pairs = [each.output.frames["rows"].height for each in steps]
    output = _joined(100_000).step(_segment("orders", _ROWS))
    assert output.frames["rows"].is_empty()
    refused = output.frames["late-left"][REASON].value_counts()
    grown = _peak_bytes() - before
    found = {"pairs": pairs, "refused": dict(refused.rows()), "grown_bytes": grown}
    sys.stdout.write(json.dumps(found))


def _joined(max_pairs: int, partners: int = _PARTNERS) -> OperatorTask:
    """Return a join of orders and payments that has read payments."""
    sides = (Side("left", _COLUMNS, {}), Side("right", _COLUMNS, {}))
    body = StreamJoin(("key",), *sides, "inner", -1_000, 1_000, max_pairs=max_pairs)
    task = OperatorTask(over_topics(body, *_TOPICS))
    task.step(_segment("payments", partners))
    return task


def _segment(topic: str, rows: int) -> Segment:
    """Return rows of one key and time."""
    zeros = np.zeros(rows, np.int64)
    numbers = (zeros, np.arange(rows), zeros, zeros, np.full(rows, NEVER_MS), zeros)
    schema = {**ROW_COLUMNS, **_COLUMNS}
    typed = zip(schema.items(), numbers, strict=True)
    frame = pl.DataFrame([pl.Series(name, each, dtype) for (name, dtype), each in typed])
    mark = SourceMark(f"{topic}/0", 0, rows, NEVER_MS, NEVER_MS)
    streams = {name: frame if name == topic else frame.clear() for name in _TOPICS}
    return Segment(0, 0, (mark,), dict.fromkeys(_TOPICS, 1), 0, streams)


def _one_pair() -> None:
    _joined(1, 1).step(_segment("orders", 1))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


if __name__ == "__main__":
    main()
