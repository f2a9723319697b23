"""A toy operator that uses all of the operator contract: balances of orders and payments.

Two inputs with their own columns, result columns of its own, early rows, withdrawals, late rows,
refused rows, and batches of segments.  docs/decisions/0015 lists the files that it took.

Per key and ``size_ms`` of event time it publishes, to the port ``balances``:

* after each segment with rows of the window, the balance so far: orders minus payments (early);
* a withdrawal, where orders and payments are equal then;
* once the clock reaches the end of the window, the balance (final).

A row whose window ended at or before its W is late.  A row without a value is refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Body, Changes, Frames, Operator, missed
from tidemark.core.operators.ports import (
    DEAD,
    LATE,
    REASON,
    ROWS,
    UPSERT,
    Input,
    Port,
    RowTime,
    late_port,
)
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.row_watermarks import ORDER, SEGMENT
from tidemark.core.time.segment import EVENT_TIME, WATERMARK
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.pane import FINAL, RETRACTED, REVISION

ORDERS, PAYMENTS = "orders", "payments"
NAME = "accounts"
BALANCES = "balances"
VALUES = {ORDERS: "amount", PAYMENTS: "paid"}
"""The value column of each input."""

_LINE = {
    "account": pl.String(),
    "start": pl.Int64(),
    "balance": pl.Int64(),
    "rows": pl.Int64(),
    "last": pl.String(),
}
_NAMES = ("account", "start")


@dataclass
class BalanceState:
    """One line for each key and window that is open: ``_LINE``."""

    size_ms: int
    lines: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_LINE))
    changed: list[pl.DataFrame] = field(default_factory=list)

    def put(self, lines: pl.DataFrame) -> None:
        """Add lines, or replace those of the same key and window."""
        rest = self.lines.join(lines, on=_NAMES, how="anti", nulls_equal=True)
        self.lines = pl.concat([rest, lines.select(*_LINE)])
        if lines.height:
            self.changed.append(lines.select(*_LINE))

    def due(self, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the lines of windows that end in (before_ms, clock_ms], by start and key."""
        end = pl.col("start") + self.size_ms
        return self.lines.filter(end > before_ms, end <= clock_ms).sort("start", "account")

    def changes(self) -> Changes:
        """Return the lines that changed since the last call."""
        changed, self.changed = self.changed, []
        if not changed:
            return {}
        return {"lines": pl.concat(changed).unique(_NAMES, keep="last", maintain_order=True)}

    def snapshot(self) -> Iterator[Changes]:
        """Return all lines, two in a piece."""
        lines = self.lines
        return ({"lines": lines[at : at + 2]} for at in range(0, lines.height, 2))

    def size_bytes(self) -> int:
        """Return about how many bytes a snapshot has."""
        return int(self.lines.estimated_size()) if self.lines.height else 0

    def open_windows(self) -> int:
        """Count the lines."""
        return self.lines.height

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of the windows of lines."""
        begins_ms = self.lines["start"].to_numpy()
        return [OpenBounds(begins_ms, lambda place: int(begins_ms[place]) + self.size_ms)]

    def apply(self, changes: Changes) -> None:
        """Add one piece."""
        if "lines" in changes:
            self.put(changes["lines"])
            self.changed.clear()

    def purge(self, clock_ms: int) -> None:
        """Drop the lines of windows that have ended."""
        self.lines = self.lines.filter(pl.col("start") + self.size_ms > clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where a key and window has two lines."""
        assert self.lines.select(_NAMES).is_unique().all()


@dataclass(frozen=True)
class Balances(Body):
    """The body; ``columns``: those of each input, by name."""

    name: str
    columns: Mapping[str, Mapping[str, pl.DataType]]
    size_ms: int

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of balances, of late rows of each input, and of refused rows."""
        balances = Port(
            BALANCES,
            ROWS,
            {
                "account": pl.String(),
                "start": pl.Int64(),
                REVISION: pl.Int64(),
                FINAL: pl.Boolean(),
                RETRACTED: pl.Boolean(),
                "balance": pl.Int64(),
                "last": pl.String(),
            },
            ("account",),
            message_key=_NAMES,
            identity=_NAMES,
            row_time=RowTime("start", self.size_ms - 1),
            values=("balance", "last"),
            mode=UPSERT,
            instants=frozenset({"start"}),
            holds_ms=0,
        )
        late = (
            late_port(("account",), columns, name=f"{LATE}-{side}")
            for side, columns in self.columns.items()
        )
        refused = Port(
            self.name,
            DEAD,
            {REASON: pl.String()},
            ("account",),
            message_key=("account",),
            identity=(),
            row_time=RowTime(EVENT_TIME),
            stage=self.name,
        )
        return balances, *late, refused

    @property
    def can_batch(self) -> bool:
        """Whether many segments can be taken as one: always, since no row corrects a window."""
        return True

    def open(self, store: BlockStore = IN_MEMORY, /) -> BalanceState:
        """Return state that holds nothing; it lies in memory whatever the store."""
        return BalanceState(self.size_ms)

    def process(self, sides: Frames, state: BalanceState) -> Frames:
        """Change balances; return early rows, late rows and refused rows."""
        frames: dict[str, pl.DataFrame] = {}
        good, refused = [], []
        for side, frame in sides.items():
            value = frame[VALUES[side]]
            start_ms = frame[EVENT_TIME].to_numpy() // self.size_ms * self.size_ms
            late = start_ms + self.size_ms <= frame[WATERMARK].to_numpy()
            over = frame.filter(pl.Series(late))
            ends = start_ms[late] + self.size_ms
            frames[f"{LATE}-{side}"] = missed(over, start_ms[late], ends, ends)
            dead = ~late & value.is_null().to_numpy()
            reason = pl.lit(f"{VALUES[side]} is null").alias(REASON)
            refused.append(_common(frame).with_columns(reason).filter(pl.Series(dead)))
            sign = 1 if side == ORDERS else -1
            kept = _common(frame).with_columns(
                pl.Series("start", start_ms), (value * sign).alias("balance"), side=pl.lit(side)
            )
            good.append(kept.filter(pl.Series(~late & ~dead)))
        frames[self.name] = pl.concat(refused, how="vertical_relaxed").sort(ORDER)
        return {BALANCES: self._early(pl.concat(good).sort(ORDER), state), **frames}

    def _early(self, rows: pl.DataFrame, state: BalanceState) -> pl.DataFrame:
        """Add rows to the state; return a row for each segment, key and window that has some."""
        segment = [SEGMENT] * (SEGMENT in rows.columns)
        summed = rows.group_by(*segment, *_NAMES, maintain_order=True).agg(
            pl.col("balance").sum(), pl.len().cast(pl.Int64).alias("rows"), pl.col("side").last()
        )
        stored = state.lines.select(*_NAMES, before="balance", earlier="rows")
        lines = summed.join(stored, on=_NAMES, how="left", nulls_equal=True).with_columns(
            (pl.col("balance").cum_sum().over(*_NAMES) + pl.col("before").fill_null(0)).alias(
                "balance"
            ),
            (pl.col("rows").cum_sum().over(*_NAMES) + pl.col("earlier").fill_null(0)).alias("rows"),
            pl.col("side").alias("last"),
        )
        state.put(lines.unique(_NAMES, keep="last", maintain_order=True))
        return self._published(lines.sort(*segment, *_NAMES), final=False)

    def _published(self, lines: pl.DataFrame, *, final: bool) -> pl.DataFrame:
        zero = pl.col("balance") == 0
        return lines.select(
            *_NAMES,
            pl.col("rows").alias(REVISION),
            pl.lit(final).alias(FINAL),
            (zero & (not final)).alias(RETRACTED),
            "balance",
            "last",
            *[SEGMENT] * (SEGMENT in lines.columns),
        )

    def advance(self, state: BalanceState, before_ms: int, clock_ms: int) -> Frames:
        """Publish the windows that the clock has reached."""
        return {BALANCES: self._published(state.due(before_ms, clock_ms), final=True)}

    def advance_each(self, state: BalanceState, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Publish the windows that the clock has reached, each in its segment."""
        due = state.due(before_ms, clock_ms[-1])
        reached = np.searchsorted(np.array(clock_ms), due["start"].to_numpy() + self.size_ms)
        lines = due.with_columns(pl.Series(SEGMENT, reached))
        return {BALANCES: self._published(lines, final=True)}


def _common(frame: pl.DataFrame) -> pl.DataFrame:
    """Return what rows of both inputs have in common."""
    names: list[Any] = [*("@source", "@offset", "@sub_row"), EVENT_TIME, ORDER, "account"]
    return frame.select(*names, *[SEGMENT] * (SEGMENT in frame.columns))


COLUMNS: Mapping[str, Mapping[str, pl.DataType]] = {
    side: {"account": pl.String(), "at": pl.Int64(), value: pl.Int64()}
    for side, value in VALUES.items()
}
"""Columns of the streams, by name; each is an input of the operator."""


def balances(streams: Mapping[str, str] | None = None, size_ms: int = 10_000) -> Operator:
    """Return the operator; ``streams``: of each side, the stream, which is its raw topic too."""
    named = streams or {side: side for side in VALUES}
    inputs = tuple(
        Input((stream,), ("account",), COLUMNS[side], frozenset({stream}), side)
        for side, stream in named.items()
    )
    body = Balances(NAME, COLUMNS, size_ms)
    return Operator(NAME, inputs, body, horizon_ms=size_ms)
