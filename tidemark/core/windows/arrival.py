"""Windows in order of arrival: which rows of a key belong to which window.

See docs/semantics.md, "Windows in order of arrival".  The rows of a key are cut into *runs* of
consecutive rows, numbered from 0.  A window is ``runs`` consecutive runs, and the next window
begins ``step`` runs later.  Every window except a hopping one is one run.  A run is *complete* when
no later row can be in it.  Rows close windows, and time never does, so ``longest_ms`` is 0.
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
"""Facts of a run, in addition to its key and partials: its number and its rows."""

CLOSES = "@closes"
"""Boolean column of rows: whether the row closes a window of punctuation()."""

_LOOK = 64  # rows of a key searched first for its next boundary; doubles without one


@dataclass(frozen=True, slots=True)
class RowsByKey:
    """A segment's rows, ordered by key and, within a key, by place in the log.

    ``key``: for each row, the position of its key.  ``first``: for each key, the position of its
    first row.  ``heads``: for each key, the facts of the run that was open before these rows.
    """

    rows: pl.DataFrame
    key: Numbers
    first: Numbers
    heads: Facts

    def counted(self, marks: Mask) -> Numbers:
        """Return for each row the number of marked rows of its key up to and including it."""
        total = np.concatenate([[0], np.add.accumulate(marks.astype(np.int64))])
        counts: Numbers = total[1:] - total[self.first][self.key]
        return counts


@dataclass(frozen=True, slots=True)
class RunAssignment:
    """The runs that rows belong to.

    ``number``: for each row, the number of its run.  ``completes``: whether the row completes it.
    ``heads``: the heads of RowsByKey, with the facts of this kind of windows after these rows.
    """

    number: Numbers
    completes: Mask
    heads: Facts


class ArrivalWindowKind(Protocol):
    """A kind of windows in order of arrival; a frozen value."""

    @property
    def runs(self) -> int:
        """The number of runs in a window."""

    @property
    def step(self) -> int:
        """The number of runs from the begin of one window to the begin of the next."""

    @property
    def closed_by_next(self) -> bool:
        """Whether the first row of the next window closes a window, not its own last row."""

    @property
    def facts(self) -> np.dtype[np.void]:
        """The type of a run's facts: RUN_FACTS, and further facts of this kind of windows."""

    @property
    def label(self) -> str:
        """The windows in plans, as a user writes them."""

    def assign_runs(self, by_key: RowsByKey) -> RunAssignment:
        """Assign rows to runs, which continue from the heads."""


class _OneRunWindow:
    """Base of windows of one run each; without further facts by default."""

    __slots__ = ()

    runs: ClassVar[int] = 1
    step: ClassVar[int] = 1
    closed_by_next: ClassVar[bool] = False
    longest_ms: ClassVar[int] = 0

    @property
    def facts(self) -> np.dtype[np.void]:
        """RUN_FACTS."""
        return np.dtype(RUN_FACTS)


@dataclass(frozen=True, slots=True)
class CountWindow:
    """Windows of ``size`` rows; a new window begins every ``slide`` rows of the key.

    ``by_event_time``: rows are in order of event time, and wait until the clock has passed them.
    """

    size: int
    slide: int
    by_event_time: bool = False

    closed_by_next: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise PipelineError if size or slide is out of range."""
        if self.size <= 0:
            raise PipelineError(f"count window size must be positive, got {self.size} rows")
        if not 0 < self.slide <= self.size:
            raise PipelineError(
                f"count window slide must be positive and at most the size of {self.size} rows, "
                f"got {self.slide} rows"
            )

    @property
    def longest_ms(self) -> int:
        """How long after its event time, in ms, a row may become due."""
        return int(self.by_event_time)

    @property
    def run_rows(self) -> int:
        """The rows of a run: no window begins or ends inside a run."""
        return gcd(self.size, self.slide)

    @property
    def runs(self) -> int:
        """The number of runs in a window."""
        return self.size // self.run_rows

    @property
    def step(self) -> int:
        """The number of runs from the begin of one window to the begin of the next."""
        return self.slide // self.run_rows

    @property
    def facts(self) -> np.dtype[np.void]:
        """RUN_FACTS."""
        return np.dtype(RUN_FACTS)

    def __repr__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The windows in plans, as a user writes them."""
        slide = "" if self.slide == self.size else f", {self.slide}"
        order = ', order="event_time"' if self.by_event_time else ""
        return f"count_window({self.size}{slide}{order})"

    def assign_runs(self, by_key: RowsByKey) -> RunAssignment:
        """End a run after every ``run_rows`` rows of a key."""
        heads, rows = by_key.heads, self.run_rows
        before = heads[NUMBER] * rows + heads[ROWS] - by_key.first
        row = before[by_key.key] + np.arange(by_key.key.size)
        return RunAssignment(row // rows, (row + 1) % rows == 0, heads)


@dataclass(frozen=True, slots=True)
class PunctuationWindow(_OneRunWindow):
    """Windows that end with a row whose CLOSES is true; null is not true.

    ``text``: the user's expression, for plans.
    """

    text: str

    @property
    def label(self) -> str:
        """The windows in plans, as a user writes them."""
        return f"punctuation({self.text})"

    def assign_runs(self, by_key: RowsByKey) -> RunAssignment:
        """End a run after every row whose CLOSES is true."""
        marks = by_key.rows[CLOSES].fill_null(value=False).to_numpy()
        before = by_key.counted(marks) - marks
        return RunAssignment(by_key.heads[NUMBER][by_key.key] + before, marks, by_key.heads)


@dataclass(frozen=True, slots=True)
class GlobalWindow(_OneRunWindow):
    """One window for all rows of a key; no row ends it."""

    def __repr__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The windows in plans, as a user writes them."""
        return "global_window()"

    def assign_runs(self, by_key: RowsByKey) -> RunAssignment:
        """Keep all rows in the open run."""
        never = np.zeros(by_key.key.size, np.bool_)
        return RunAssignment(by_key.heads[NUMBER][by_key.key], never, by_key.heads)


@dataclass(frozen=True, slots=True)
class StepWindow(_OneRunWindow):
    """A global window, discarding, that ends with each row that steps into a later interval.

    A row steps if its event time is in a later interval of ``interval_ms`` than the highest event
    time of the key before it.
    """

    interval_ms: int

    @property
    def facts(self) -> np.dtype[np.void]:
        """RUN_FACTS; the highest event time of the key, REFERENCE; whether it had rows, KNOWN."""
        return np.dtype([*RUN_FACTS, (REFERENCE, np.int64), (KNOWN, np.bool_)])

    @property
    def label(self) -> str:
        """The windows in plans, as a user writes them."""
        return f"global_window(), every {duration_text(self.interval_ms)} of event time, discarding"

    def assign_runs(self, by_key: RowsByKey) -> RunAssignment:
        """End a run after every row that steps into a later interval."""
        heads = by_key.heads.copy()
        before = np.where(heads[KNOWN], heads[REFERENCE], NEVER_MS)
        times = by_key.rows[EVENT_TIME].to_numpy()
        highest = np.maximum(running_highest(times, by_key.key), before[by_key.key])
        last = np.roll(highest, 1)
        last[by_key.first] = before
        steps = (last > NEVER_MS) & (highest // self.interval_ms > last // self.interval_ms)
        heads[REFERENCE] = highest[np.append(by_key.first[1:], times.size) - 1]
        heads[KNOWN] = True
        number = heads[NUMBER][by_key.key] + by_key.counted(steps) - steps
        return RunAssignment(number, steps, heads)


@dataclass(frozen=True, slots=True)
class DeltaWindow(_OneRunWindow):
    """Windows whose values differ by at most ``threshold`` from the window's first value.

    A row that differs by more begins the next window.  Rows with null or NaN never do.
    """

    column: str
    threshold: float
    floats: bool

    closed_by_next: ClassVar[bool] = True

    @property
    def facts(self) -> np.dtype[np.void]:
        """RUN_FACTS; the first value of the open window, REFERENCE; whether it has one, KNOWN."""
        value = np.float64 if self.floats else np.int64
        return np.dtype([*RUN_FACTS, (REFERENCE, value), (KNOWN, np.bool_)])

    @property
    def label(self) -> str:
        """The windows in plans, as a user writes them."""
        return f"delta({self.column}, {self.threshold})"

    def assign_runs(self, by_key: RowsByKey) -> RunAssignment:
        """Begin a run with every row that differs by more than the threshold."""
        values = by_key.rows[self.column]
        known = values.is_not_null()
        if self.floats:
            known &= values.is_not_nan()
        at = np.flatnonzero(known.to_numpy())
        heads = by_key.heads.copy()
        opens = np.zeros(values.len(), np.bool_)
        numbers = values[at].cast(pl.Float64 if self.floats else pl.Int64).to_numpy()
        opens[at[self._opening(numbers, by_key.key[at], heads)]] = True
        number = by_key.heads[NUMBER][by_key.key] + by_key.counted(opens)
        return RunAssignment(number, np.zeros(values.len(), np.bool_), heads)

    def _opening(self, values: npt.NDArray[Any], key: Numbers, heads: Facts) -> Numbers:
        """Return the positions of values that begin a window; update the heads in place.

        Each round finds the next boundary of every key, so the loop is over boundaries of a key.
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
            # As UInt64 the difference of two Int64 is right, however far apart they are.
            apart = np.where(values >= others, values - others, others - values).view(np.uint64)
            far = apart > np.uint64(self.threshold)
        return far


ArrivalWindow = CountWindow | DeltaWindow | PunctuationWindow | GlobalWindow | StepWindow
