"""Operators that wrap another one: they change what it publishes, and pass everything else on."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemark.core.operators.operator import Body, Frames, Mask, TimePortion
from tidemark.core.time.segment import NEVER_MS


@dataclass(frozen=True)
class Wrapping(Body):
    """An operator that publishes the results of another one, ``inner``, after a conversion."""

    inner: Body

    @abstractmethod
    def _converted(self, frames: Frames, state: Any, clock_ms: int) -> Frames:
        """Return what this operator publishes for results of the other one.

        ``clock_ms``: the time until which all due results are published.
        """

    def _of_inner(self, state: Any) -> Any:
        """Return the state of the other operator; by default the whole state."""
        return state

    def advance(self, state: Any, before_ms: int, clock_ms: int) -> Frames:
        """Return what the other operator publishes, converted."""
        frames = self.inner.advance(self._of_inner(state), before_ms, clock_ms)
        return self._converted(frames, state, clock_ms)

    def advance_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return what the other operator publishes for each segment, converted."""
        frames = self.inner.advance_each(self._of_inner(state), before_ms, clock_ms)
        return self._converted(frames, state, clock_ms[-1])

    def flush(self, state: Any, clock_ms: int) -> Frames:
        """Return the results that rows alone have made due, converted."""
        # The clock moves after the rows.
        return self._converted(self.inner.flush(self._of_inner(state), clock_ms), state, NEVER_MS)

    def advance_in_portions(
        self, state: Any, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield what the other operator publishes in portions, converted."""
        inner = self._of_inner(state)
        for portion in self.inner.advance_in_portions(inner, before_ms, clock_ms):
            frames = self._converted(portion.frames, state, portion.published_ms)
            yield replace(portion, frames=frames)

    @property
    def can_batch(self) -> bool:
        """Whether the other operator takes segments in batches."""
        return self.inner.can_batch

    @property
    def max_late_segments(self) -> int:
        """See ``Body.max_late_segments``."""
        return self.inner.max_late_segments

    def needs_own_step(self, sides: Frames) -> Mapping[str, Mask]:
        """Mark the rows that may correct published panes."""
        return self.inner.needs_own_step(sides)

    @property
    def can_portion(self) -> bool:
        """Whether the other operator takes the rows of a segment in portions."""
        return self.inner.can_portion

    def can_pause(self, state: Any) -> bool:
        """Whether a restore after a portion of rows continues with the same results."""
        return self.inner.can_pause(self._of_inner(state))

    def duplicates(self, state: Any) -> int:
        """Return, once, the number of rows that gave no result because they repeat others."""
        return self.inner.duplicates(self._of_inner(state))

    def active_rules(self, state: Any) -> int | None:
        """Return the number of rules that count; None without rules."""
        return self.inner.active_rules(self._of_inner(state))

    def record(self, state: Any, now_ms: int, clock_ms: int) -> None:
        """Take the processing time of a segment."""
        self.inner.record(self._of_inner(state), now_ms, clock_ms)

    def rests(self, state: Any, before_ms: int, clock_ms: int) -> bool:
        """Whether a segment without rows changes and publishes nothing."""
        return self.inner.rests(self._of_inner(state), before_ms, clock_ms)

    def pending(self, state: Any) -> bool:
        """Whether time alone makes results due."""
        return self.inner.pending(self._of_inner(state))
