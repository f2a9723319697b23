"""Joins with tables as slow Python, from docs/semantics.md, "Tables".

It is what they share, whether a row meets the versions of its key or of all keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from tests.oracles.aligned import LateRow, late_of
from tests.oracles.clock import Judged, RowId, Table, heard, row_id
from tests.oracles.join import LEFT, RIGHT, Rejected
from tidemark.core.time.segment import FOREVER_MS, Segment

Result = TypeVar("Result")


@dataclass(frozen=True)
class TableSpec:
    """A join of the rows of topics with the versions of topics; one may be in both.

    ``deleted``: whether a value makes a version a tombstone.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    how: str
    keep_ms: int
    lateness_ms: int
    wait: str
    deleted: Callable[[int | None], bool]


class Version(NamedTuple):
    """A version of a key; of those that count from a time on, the highest is the answer."""

    at_ms: int
    id: RowId
    from_ms: int
    key: str | None
    value: int | None


@dataclass
class TableRun(Generic[Result]):
    """What a log gives: the results of each step, the end of input last, and late rows."""

    steps: list[list[Result]] = field(default_factory=list)
    late_left: list[LateRow] = field(default_factory=list)
    late_right: list[LateRow] = field(default_factory=list)

    @property
    def rejected(self) -> list[Rejected]:
        """The late rows of both sides."""
        late = ((LEFT, self.late_left), (RIGHT, self.late_right))
        return [Rejected(side, row_id(each.row), "late") for side, some in late for each in some]


class TableJoin(ABC, Generic[Result]):
    """A join, and what has come so far."""

    def __init__(self, spec: TableSpec, run: TableRun[Result]) -> None:
        self.spec = spec
        self.run = run
        self.versions: list[Version] = []

    @abstractmethod
    def take_timely(self, row: Judged) -> list[Result]:
        """Take a row that is not late; return what it gives at once."""

    @abstractmethod
    def due(self, clock_ms: int) -> list[Result]:
        """Return the results of the rows that wait until the clock."""

    def read(self, segments: Sequence[Segment]) -> None:
        """Take a log and the end of input, step by step."""
        spec = self.spec
        for step in heard(segments, Table(sorted({*spec.left, *spec.right}))):
            results: list[Result] = []
            for row in step.rows:
                topic = row.source.rpartition("/")[0]
                if topic in spec.left:
                    results += self.take_row(row)
                if topic in spec.right:
                    self.take_version(row)
            self.run.steps.append(results + self.due(step.clock))
        self.run.steps.append(self.due(FOREVER_MS))

    def take_row(self, row: Judged) -> list[Result]:
        """Take a row; return what it gives at once."""
        if row.at_ms + self.spec.lateness_ms < row.w_ms:
            self.run.late_left.append(late_of(row, row.at_ms + 1, self.spec.lateness_ms))
            return []
        return self.take_timely(row)

    def take_version(self, row: Judged) -> None:
        """Take a row of the table."""
        if row.at_ms < row.w_ms - self.spec.keep_ms:
            self.run.late_right.append(late_of(row, row.at_ms + self.spec.keep_ms + 1))
        else:
            from_ms = max(row.at_ms, row.w_ms - self.spec.lateness_ms)
            self.versions.append(Version(row.at_ms, row_id(row), from_ms, row.key, row.value))
