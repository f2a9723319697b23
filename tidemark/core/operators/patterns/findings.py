"""What rows and timers decide, as columns: matches, timeouts and refused rows."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.state.keyed_lines import ranges

MATCH, TIMEOUT, REFUSED = range(3)
"""Kinds of findings."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Matches, timeouts and refused rows, a position of each array for each of them.

    Args:
        kind: ``MATCH``, ``TIMEOUT`` or ``REFUSED``.
        at_ms: the time of the row or timer that decides it.
        is_timer: whether it is a timer: timers come after the rows of their time.
        place: of the row that decides it, for timers of the first row.
        number: its position among the findings of its key with the same time and place.
        sizes: its number of rows.
        refs: the rows of all findings, one after the other, see ``partial.ref_of``.
    """

    kind: Numbers
    at_ms: Numbers
    is_timer: Mask
    place: Numbers
    number: Numbers
    sizes: Numbers
    refs: Numbers

    @classmethod
    def joined(cls, parts: Sequence["Findings"]) -> "Findings":
        """Return the findings of all parts, in the order of results."""
        some = [part for part in parts if part.kind.size] or parts[:1]
        every = some[0] if len(some) == 1 else cls._concatenated(some)
        order = np.lexsort((every.number, every.place, every.is_timer, every.at_ms))
        return every.at(order)

    @classmethod
    def _concatenated(cls, parts: Sequence["Findings"]) -> "Findings":
        return cls(
            *(
                np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(cls)
            )
        )

    def of_kind(self, kind: int) -> "Findings":
        """Return the findings of a kind, in order."""
        return self.at(np.flatnonzero(self.kind == kind))

    def at(self, index: Numbers) -> "Findings":
        """Return the findings at positions ``index``."""
        sizes = self.sizes[index]
        return Findings(
            self.kind[index],
            self.at_ms[index],
            self.is_timer[index],
            self.place[index],
            self.number[index],
            sizes,
            self.refs[ranges(self._begins[index], sizes)],
        )

    @property
    def first_refs(self) -> Numbers:
        """The first row of each."""
        return self.refs[self._begins]

    @property
    def _begins(self) -> Numbers:
        """The position of the first row of each in ``refs``."""
        begins: Numbers = np.add.accumulate(self.sizes) - self.sizes
        return begins
