"""A segment, panes and late rows with awkward values, to be written and read back."""

import polars as pl

from tidemark.core.time.segment import FOREVER_MS, NEVER_MS, ROW_COLUMNS, Segment, SourceMark
from tidemark.core.windows.pane import PANE_COLUMNS

VALUES = {
    "key": pl.String(),
    "n": pl.Int64(),
    "x": pl.Float64(),
    "ok": pl.Boolean(),
    "tags": pl.List(pl.String()),
}


ROWS = pl.DataFrame(
    [
        (0, 5, 0, -1, NEVER_MS, "a", 2**63 - 1, 0.1, True, ["x", None]),
        (1, 0, 3, FOREVER_MS, 7, None, None, None, None, None),
    ],
    schema={**ROW_COLUMNS, **VALUES},
    orient="row",
)


SEGMENT = Segment(
    epoch=2,
    part=1,
    sources=(
        SourceMark("moves/0", 5, 6, NEVER_MS, 7),
        SourceMark("größe/12", 0, 1, 7, FOREVER_MS, idle=True, silence_ms=99),
    ),
    partitions={"moves": 1, "größe": 13},
    ingested_at_ms=1_700_000_000_000,
    streams={"moves": ROWS, "more": ROWS.select(*ROW_COLUMNS, "key").clear()},
)


KEY = {"key": pl.String(), "n": pl.Int64()}


AGGREGATES = {"pops": pl.Int64(), "mean": pl.Float64()}


PANES = pl.DataFrame(
    [
        ("a", 1, 0, 10, 2, "on_time", True, False, 5, 0.1),
        ('"\n\u2028é', 2, 10, 20, 3, "late", False, True, None, None),
        (None, 3, -20, -10, 1, "late", True, False, None, -0.0),
    ],
    schema={**KEY, **PANE_COLUMNS, **AGGREGATES},
    orient="row",
)


LATE = pl.DataFrame(
    [("moves/0", 5, 0, 3, 100, "a", 1, 0, 10, 90), ("a.b-c/12", 6, 1, 4, 200, None, 2, 0, 10, 190)],
    schema={
        **ROW_COLUMNS,
        "@source": pl.String(),
        **KEY,
        "start": pl.Int64(),
        "end": pl.Int64(),
        "late_by_ms": pl.Int64(),
    },
    orient="row",
)
