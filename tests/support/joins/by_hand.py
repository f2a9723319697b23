"""A join fed by hand, and its results as text.

A row is written ``L1 a 5``: a name that begins with L for the left side and R for the right side,
the key, and the event time.  A result is shown as ``L1+R1 5``, an unmatched row as ``L1 5``, and a
withdrawn one as ``-L1``.
"""

from collections.abc import Mapping

import polars as pl

from tests.oracles.join import LEFT, RIGHT, JoinRules
from tests.support.joins.stream import JOIN_COLUMNS, SIDES, operator
from tests.support.running import Task
from tidemark.core.operators.operator import Frames
from tidemark.core.operators.ports import LATE, ROWS
from tidemark.core.operators.rows import EVENT_TIME_MS, ID
from tidemark.core.time.segment import NEVER_MS, ROW_COLUMNS, Segment, SourceMark
from tidemark.core.windows.pane import RETRACTED

SOURCES = {"L": "t/0", "R": "u/0"}
SIDE_OF = {LEFT: "L", RIGHT: "R"}


class Joining:
    """A task of one join with a source for each side."""

    def __init__(self, rules: JoinRules) -> None:
        """Start before the first step."""
        self.operator = operator(rules)
        self.task = Task(self.operator)
        self.late: list[str] = []
        self._offsets = dict.fromkeys(SOURCES, 0)
        self._watermarks_ms = dict.fromkeys(SOURCES, NEVER_MS)
        self._names: dict[str, str] = {}

    def step(
        self,
        rows: str = "",
        *,
        left: int | None = None,
        right: int | None = None,
        silence_ms: int | None = None,
    ) -> list[str]:
        """Take rows, then move the watermarks that are given; return the results.

        ``silence_ms``: for so long, both sources have been silent.
        """
        marks, streams = [], {}
        moved = {"L": left, "R": right}
        for index, (side, source) in enumerate(SOURCES.items()):
            made = [text.split() for text in rows.split("|") if text.strip().startswith(side)]
            first, before_ms = self._offsets[side], self._watermarks_ms[side]
            named = [
                (index, first + place, 0, int(at), before_ms, key, None, name)
                for place, (name, key, at) in enumerate(made)
            ]
            self._offsets[side] += len(made)
            self._watermarks_ms[side] = before_ms if moved[side] is None else int(moved[side] or 0)
            marks.append(
                SourceMark(
                    source,
                    first,
                    self._offsets[side],
                    before_ms,
                    self._watermarks_ms[side],
                    silence_ms is not None,
                    silence_ms or 0,
                )
            )
            if named:
                schema = {**ROW_COLUMNS, **JOIN_COLUMNS}
                streams[source[0]] = pl.DataFrame(named, schema=schema, orient="row")
        partitions = {topic: 1 for topics in SIDES.values() for topic in topics}
        return self._shown(
            self.task.step(Segment(0, 0, tuple(marks), partitions, 0, streams)).frames
        )

    def finish(self) -> list[str]:
        """End the input and return the results."""
        return self._shown(self.task.finish().frames)

    def purge(self) -> int:
        """Drop what no row can reach, and return the number of rows that are left."""
        self.task.state.purge(self.task.clock_ms)
        left: int = self.task.state.open_windows()
        return left

    def _shown(self, frames: Frames) -> list[str]:
        for side, letter in SIDE_OF.items():
            late = frames[f"{LATE}-{side}"]
            assert all(name.startswith(letter) for name in late["row"])
            self.late += late["row"].to_list()
        return [self._result(row) for row in frames[ROWS].iter_rows(named=True)]

    def _result(self, row: Mapping[str, object]) -> str:
        if row.get(RETRACTED):
            return f"-{self._names[str(row[ID])]}"
        sides = [row["left_row"], row.get("right_row")]
        name = "+".join(str(side) for side in sides if side is not None)
        self._names[str(row[ID])] = name
        return f"{name} {row[EVENT_TIME_MS]}"
