"""A join of two inputs: each row gives a result with each earlier row of its key on the other side.

It shows that the rows of several inputs can be taken in portions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from tidemark.core.operators.operator import Body, Changes, Frames, Operator
from tidemark.core.operators.ports import APPEND, ROWS, Input, Port, RowTime
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW
from tidemark.core.windows.open_bounds import OpenBounds

_SIDE = "@side"
_ROW = ("key", "value", EVENT_TIME, SOURCE, OFFSET, SUB_ROW)
_PAIR = {"key": pl.String(), "earlier": pl.Int64(), "later": pl.Int64(), "at": pl.Int64()}
_PORT = Port("pairs", ROWS, _PAIR, ("key",), ("key",), (), RowTime("at"), mode=APPEND)


@dataclass
class PairState:
    """All rows so far, in log order."""

    rows: list[pl.DataFrame] = field(default_factory=list)
    added: list[pl.DataFrame] = field(default_factory=list)

    def changes(self) -> Changes:
        added, self.added = self.added, []
        return {"rows": pl.concat(added)} if added else {}

    def snapshot(self) -> Iterator[Changes]:
        return iter([{"rows": pl.concat(self.rows)}] if self.rows else [])

    def apply(self, changes: Changes) -> None:
        self.rows += [changes["rows"]] if "rows" in changes else []

    def size_bytes(self) -> int:
        return sum(int(frame.estimated_size()) for frame in self.rows)

    def open_windows(self) -> int:
        return 0

    def open_bounds(self) -> Iterable[OpenBounds]:
        return ()

    def purge(self, clock_ms: int) -> None:
        pass

    def validate(self) -> None:
        pass


class Pairs(Body):
    """Rows of both inputs have ``key`` and ``value``."""

    outputs = (_PORT,)
    can_portion = True

    def open(self, store: BlockStore = IN_MEMORY, /) -> PairState:
        return PairState()

    def process(self, sides: Frames, state: PairState) -> Frames:
        new = pl.concat(
            frame.select(*_ROW, ORDER, pl.lit(side).alias(_SIDE)) for side, frame in sides.items()
        ).sort(ORDER)
        if new.is_empty():
            return {}
        before = pl.concat([*state.rows, new.drop(ORDER)]).with_row_index("n")
        later = before[-new.height :]
        pairs = later.join(before, on="key", how="inner", suffix="_earlier").filter(
            pl.col(_SIDE) != pl.col(f"{_SIDE}_earlier"), pl.col("n_earlier") < pl.col("n")
        )
        state.rows.append(new.drop(ORDER))
        state.added.append(new.drop(ORDER))
        return {
            "pairs": pairs.sort("n", "n_earlier").select(
                "key",
                pl.col("value_earlier").alias("earlier"),
                pl.col("value").alias("later"),
                pl.col(EVENT_TIME).alias("at"),
            )
        }

    def flush(self, state: PairState, clock_ms: int) -> Frames:
        return {}

    def advance(self, state: PairState, before_ms: int, clock_ms: int) -> Frames:
        return {}


def pairs(streams: tuple[str, str]) -> Operator:
    """Return the operator; ``streams``: of each side, named as its raw topic."""
    columns = {"key": pl.String(), "value": pl.Int64()}
    inputs = tuple(Input((name,), ("key",), columns, frozenset({name}), name) for name in streams)
    return Operator("pairs", inputs, Pairs())
