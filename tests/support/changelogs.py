"""A small state, its changelog and the journal that reads it, without Kafka."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from tidemark.core.operators.portions import BEGIN, Place
from tidemark.core.state import blocks
from tidemark.runtime.client.producer import Record
from tidemark.runtime.keyed.changelog import Changelog, SnapshotRule
from tidemark.runtime.keyed.changelog_replay import ChangelogReplay

NEVER = SnapshotRule(commits=10**9, bytes=10**12)
PARTS = {"key": "player: String", "aggregates": "pops=count()"}
HERE = "game.pops.changelog/0"


def clocks(ms: int) -> pl.DataFrame:
    return pl.DataFrame({"source": ["moves/0"], "clock_ms": [ms]})


class State:
    """Numbers, of which some are added and some expire at each commit."""

    def __init__(self, bytes_each: int = 8) -> None:
        self.held: list[int] = []
        self.added: list[int] = []
        self.bytes_each = bytes_each

    def add(self, *values: int) -> "State":
        self.held += values
        self.added += values
        return self

    def changes(self):
        added, self.added = self.added, []
        return self._frames(added)

    def _frames(self, values):
        if not values:
            return {}
        pad = ["x" * (self.bytes_each - 8)] * len(values)
        return {"blocks": pl.DataFrame({"value": values, "pad": pad})}

    def snapshot(self):
        held = list(self.held)
        step = max(1, blocks.PIECE_BYTES // self.bytes_each)
        return (self._frames(held[at : at + step]) for at in range(0, len(held), step))

    def size_bytes(self) -> int:
        return len(self.held) * self.bytes_each

    def apply(self, changes) -> None:
        if changes:
            self.held += changes["blocks"]["value"].to_list()


def commit(log: Changelog, state: Any, at: int = 0) -> list[Record]:
    return log.commit(state, clocks(at), next_offset=at)


class Target:
    """What a changelog is read into: a state, and the clocks of the last piece."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.clocks: Any = None

    def resume(self, clocks: pl.DataFrame, next_offset: int, place: Place = BEGIN) -> None:
        self.clocks = clocks


def journal_of(
    records: Iterable[Record], snapshot: int | None = None, parts=PARTS
) -> ChangelogReplay:
    journal = ChangelogReplay(HERE, "pops", parts, snapshot)
    for key, value in records:
        journal.add(key, value)
    return journal
