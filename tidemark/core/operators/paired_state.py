"""Keyed state of two parts, each with its own frames of changes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

from tidemark.core.operators.operator import Changes
from tidemark.core.windows.open_bounds import OpenBounds


class Part(Protocol):
    """Part of a state; the methods are as those of ``State``."""

    def changes(self) -> Changes:
        """Return, once, the changes since the last call."""

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces."""

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""

    def apply(self, changes: Changes) -> None:
        """Apply the frames of this part; the piece may have others."""

    def purge(self, clock_ms: int) -> None:
        """Drop the state that no row can reach."""

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""


class PairedState(ABC):
    """A ``State`` of two parts, whose frames of changes have different names."""

    @property
    @abstractmethod
    def _parts(self) -> tuple[Part, Part]:
        """The two parts."""

    @abstractmethod
    def open_windows(self) -> int:
        """Return the number of windows that rows can still reach."""

    @abstractmethod
    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of open windows."""

    def changes(self) -> Changes:
        """Return, once, the changes since the last call."""
        one, other = self._parts
        return {**one.changes(), **other.changes()}

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces."""
        one, other = self._parts
        return chain(one.snapshot(), other.snapshot())

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        one, other = self._parts
        return one.size_bytes() + other.size_bytes()

    def apply(self, changes: Changes) -> None:
        """Apply one piece."""
        one, other = self._parts
        one.apply(changes)
        other.apply(changes)

    def purge(self, clock_ms: int) -> None:
        """Drop the state that no row can reach."""
        one, other = self._parts
        one.purge(clock_ms)
        other.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        one, other = self._parts
        one.validate()
        other.validate()
