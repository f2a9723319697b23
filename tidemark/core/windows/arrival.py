"""Windows in order of arrival: which rows of a key make up which window.

See docs/semantics.md, "Windows in order of arrival".  The rows of a key are cut into *slices*,
numbered from 0; a window is ``runs`` of them in a row, and the next begins ``step`` later.  All
windows but hopping ones are one slice each.  A slice is *complete* when no later row can be in it.
Rows close windows and time never does, so how long they take (``longest_ms``) is nothing.
"""

from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.state.keyed_lines import Facts, Mask, Numbers, running_highest
from tidemark.core.time.duration import duration_text
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS
from tidemark.errors import PipelineError

NUMBER = "@number"
REFERENCE, KNOWN = "@reference", "@known"

RUN_FACTS: list[tuple[str, type[np.generic]]] = [(NUMBER, np.int64), (ROWS, np.int64)]
"""What is known of a slice besides its key and partial aggregates: its number and its rows."""

CLOSES = "@closes"
"""Boolean column of rows: the mark of punctuation()."""

_LOOK = 64  # rows that are looked at first for the next boundary of a key


@dataclass(frozen=True, slots=True)
class RowsByKey:
    """A segment's rows by key and, of each key, in log order.

    ``key``: of each row, the place of its key.  ``first``: of each key, the place of its first row.
    ``heads``: of each key, the facts of the slice that was open before these rows.
    """

    rows: pl.DataFrame
    key: Numbers
    first: Numbers
    heads: Facts

    def counted(self, marks: Mask) -> Numbers:
        """Count for each row the marked rows of its key up to and including it."""
        total = np.concatenate([[0], np.add.accumulate(marks.astype(np.int64))])
        counts: Numbers = total[1:] - total[self.first][self.key]
        return counts


@dataclass(frozen=True, slots=True)
class RunAssignment:
    """Of each row its slice's number, and whether it completes it; facts of the open slices."""

    number: Numbers
    completes: Mask
    heads: Facts


class ArrivalWindowKind(Protocol):
    """Windows of rows in order of arrival; a frozen value."""

    @property
    def runs(self) -> int:
        """Slices that make a window."""

    @property
    def step(self) -> int:
        """Slices from one window's begin to the next."""

    @property
    def closed_by_next(self) -> bool:
        """Whether a window is closed by the first row of the next one, not by its own last."""

    @property
    def facts(self) -> np.dtype[np.void]:
        """Type of what is stored of a slice: SLICE_FACTS, and what the windows need besides."""

    @property
    def label(self) -> str:
        """How plans call the windows."""

    def cut(self, arrived: RowsByKey) -> RunAssignment:
        """Number the slices on from the heads."""


class _OneRunWindow:
    """Windows of one slice each; they need no facts of their own unless they say so."""

    __slots__ = ()

    runs: ClassVar[int] = 1
    step: ClassVar[int] = 1
    closed_by_next: ClassVar[bool] = False
    longest_ms: ClassVar[int] = 0

    @property
    def facts(self) -> np.dtype[np.void]:
        """Number and rows."""
        return np.dtype(RUN_FACTS)


@dataclass(frozen=True, slots=True)
class CountWindow:
    """Windows of ``size`` rows, of which a new one begins every ``slide`` rows of the key."""

    size: int
    slide: int

    closed_by_next: ClassVar[bool] = False
    longest_ms: ClassVar[int] = 0

    def __post_init__(self) -> None:
        """Refuse what is no window."""
        if self.size <= 0:
            raise PipelineError(f"count window size must be positive, got {self.size} rows")
        if not 0 < self.slide <= self.size:
            raise PipelineError(
                f"count window slide must be positive and at most the size of {self.size} rows, "
                f"got {self.slide} rows"
            )

    @property
    def run_rows(self) -> int:
        """Rows of a slice: no window begins or ends inside one."""
        return gcd(self.size, self.slide)

    @property
    def runs(self) -> int:
        """Slices that make a window."""
        return self.size // self.run_rows

    @property
    def step(self) -> int:
        """Slices from one window's begin to the next."""
        return self.slide // self.run_rows

    @property
    def facts(self) -> np.dtype[np.void]:
        """Number and rows."""
        return np.dtype(RUN_FACTS)

    @property
    def label(self) -> str:
        """How plans call the windows."""
        slide = "" if self.slide == self.size else f", {self.slide}"
        return f"count_window({self.size}{slide})"

    def cut(self, arrived: RowsByKey) -> RunAssignment:
        """Cut after every ``run_rows`` rows of a key."""
        heads, rows = arrived.heads, self.run_rows
        before = heads[NUMBER] * rows + heads[ROWS] - arrived.first
        row = before[arrived.key] + np.arange(arrived.key.size)
        return RunAssignment(row // rows, (row + 1) % rows == 0, heads)


@dataclass(frozen=True, slots=True)
class PunctuationWindow(_OneRunWindow):
    """Windows that end with a row whose CLOSES is true; null is not true.

    ``text``: the expression behind it, for people.
    """

    text: str

    @property
    def label(self) -> str:
        """How plans call the windows."""
        return f"punctuation({self.text})"

    def cut(self, arrived: RowsByKey) -> RunAssignment:
        """Cut after every marked row."""
        marks = arrived.rows[CLOSES].fill_null(value=False).to_numpy()
        before = arrived.counted(marks) - marks
        return RunAssignment(arrived.heads[NUMBER][arrived.key] + before, marks, arrived.heads)


@dataclass(frozen=True, slots=True)
class GlobalWindow(_OneRunWindow):
    """One window that no row ends."""

    @property
    def label(self) -> str:
        """How plans call the windows."""
        return "global_window()"

    def cut(self, arrived: RowsByKey) -> RunAssignment:
        """Cut nowhere."""
        never = np.zeros(arrived.key.size, np.bool_)
        return RunAssignment(arrived.heads[NUMBER][arrived.key], never, arrived.heads)


@dataclass(frozen=True, slots=True)
class StepWindow(_OneRunWindow):
    """A global window that is cut after each row that takes it into a later interval of event time.

    A row does so when its event time is the highest so far, and in a later interval than the
    highest before it.
    """

    interval_ms: int

    @property
    def facts(self) -> np.dtype[np.void]:
        """Also the highest event time of the key, if it had rows: KNOWN."""
        return np.dtype([*RUN_FACTS, (REFERENCE, np.int64), (KNOWN, np.bool_)])

    @property
    def label(self) -> str:
        """How plans call the windows."""
        return f"global_window(), every {duration_text(self.interval_ms)} of event time, discarding"

    def cut(self, arrived: RowsByKey) -> RunAssignment:
        """Cut after every row that steps on."""
        heads = arrived.heads.copy()
        before = np.where(heads[KNOWN], heads[REFERENCE], NEVER_MS)
        times = arrived.rows[EVENT_TIME].to_numpy()
        highest = np.maximum(running_highest(times, arrived.key), before[arrived.key])
        last = np.roll(highest, 1)
        last[arrived.first] = before
        steps = (last > NEVER_MS) & (highest // self.interval_ms > last // self.interval_ms)
        heads[REFERENCE] = highest[np.append(arrived.first[1:], times.size) - 1]
        heads[KNOWN] = True
        number = heads[NUMBER][arrived.key] + arrived.counted(steps) - steps
        return RunAssignment(number, steps, heads)


@dataclass(frozen=True, slots=True)
class DeltaWindow(_OneRunWindow):
    """Windows whose values differ by at most ``threshold`` from the first one of theirs.

    The row that differs by more begins the next window.  Null and NaN differ from nothing.
    """

    column: str
    threshold: float
    floats: bool

    closed_by_next: ClassVar[bool] = True

    @property
    def facts(self) -> np.dtype[np.void]:
        """Also the first value of the open window, if there was one."""
        value = np.float64 if self.floats else np.int64
        return np.dtype([*RUN_FACTS, (REFERENCE, value), (KNOWN, np.bool_)])

    @property
    def label(self) -> str:
        """How plans call the windows."""
        return f"delta({self.column}, {self.threshold})"

    def cut(self, arrived: RowsByKey) -> RunAssignment:
        """Cut before every row that differs too much."""
        values = arrived.rows[self.column]
        told = values.is_not_null()
        if self.floats:
            told &= values.is_not_nan()
        at = np.flatnonzero(told.to_numpy())
        heads = arrived.heads.copy()
        opens = np.zeros(values.len(), np.bool_)
        numbers = values[at].cast(pl.Float64 if self.floats else pl.Int64).to_numpy()
        opens[at[self._opening(numbers, arrived.key[at], heads)]] = True
        number = arrived.heads[NUMBER][arrived.key] + arrived.counted(opens)
        return RunAssignment(number, np.zeros(values.len(), np.bool_), heads)

    def _opening(self, values: npt.NDArray[Any], key: Numbers, heads: Facts) -> Numbers:
        """Return the values that begin a window; move the references of the keys to the last.

        One round finds the next boundary of every key that has one, so it loops over boundaries.
        """
        places = np.arange(heads.size)
        at, stop = np.searchsorted(key, places), np.searchsorted(key, places, "right")
        reference, known = heads[REFERENCE], heads[KNOWN]
        new = np.flatnonzero(~known & (at < stop))
        reference[new], known[new] = values[at[new]], True
        at[new] += 1
        look = np.full(heads.size, _LOOK)
        found = [np.empty(0, np.int64)]
        keys = np.flatnonzero(at < stop)
        while keys.size:
            length = np.minimum(stop[keys] - at[keys], look[keys])
            begin = np.add.accumulate(length) - length
            seen = np.arange(begin[-1] + length[-1]) + np.repeat(at[keys] - begin, length)
            far = self._far(values[seen], np.repeat(reference[keys], length))
            hits, of_key = seen[far], np.repeat(np.arange(keys.size), length)[far]
            of_key, first = np.unique(of_key, return_index=True)
            found.append(hits[first])
            at[keys], look[keys] = at[keys] + length, look[keys] * 2
            hit = keys[of_key]
            reference[hit], at[hit], look[hit] = values[found[-1]], found[-1] + 1, _LOOK
            keys = keys[at[keys] < stop[keys]]
        return np.concatenate(found)

    def _far(self, values: npt.NDArray[Any], others: npt.NDArray[Any]) -> Mask:
        if self.floats:
            with np.errstate(invalid="ignore"):  # equal infinities do not differ
                far: Mask = np.abs(values - others) > self.threshold
        else:
            # Modulo 2**64 the difference of two Int64 is right, however far they are apart.
            apart = np.where(values >= others, values - others, others - values).view(np.uint64)
            far = apart > np.uint64(self.threshold)
        return far


ArrivalWindow = CountWindow | DeltaWindow | PunctuationWindow | GlobalWindow | StepWindow
