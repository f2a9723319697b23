"""A changelog that is compacted stays within three times the size of its state."""

import random
from collections import deque
from collections.abc import Iterator

import pytest

from tests.support.changelogs import PARTS, State, commit, journal_of
from tidemark.core.state import blocks
from tidemark.runtime.keyed import changelog as changelog_module
from tidemark.runtime.keyed.changelog import Changelog, SnapshotRule


def lives(kind: str) -> Iterator[State]:
    """Yield a state commit after commit: it is steady, comes and goes, grows, or is tiny."""
    draw, state = random.Random(kind), State(bytes_each=2_000)
    for n in range(1_500):
        if kind == "steady":
            state.add(*range(20))
            del state.held[:-500]
        elif kind == "swells and empties":
            state.add(*range(draw.randrange(30)))
            if n % 300 == 299:
                state.held.clear()
        elif kind == "grows":
            state.add(*range(5))
        elif kind == "bursts":
            state.add(*range(5 if n % 300 else 600))
            del state.held[:-800]
        else:
            state.add(n)
            del state.held[:-3]
        yield state


FLOOR = 1_000_000
CHUNK = 40_000


@pytest.mark.parametrize("kind", ["steady", "swells and empties", "grows", "bursts", "tiny"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_live_stays_within_three_times_the_state(kind, restarts, monkeypatch):
    """Of the largest state of the last 32 commits: the size is asked for in every sixteenth."""
    monkeypatch.setattr(changelog_module, "CHUNK_BYTES", CHUNK)
    monkeypatch.setattr(blocks, "PIECE_BYTES", CHUNK)
    rule = SnapshotRule(commits=500, bytes=FLOOR // 2)
    log = Changelog(rule, "w", PARTS)
    live: dict[bytes, int] = {}
    written = deltas = 0
    states: deque[int] = deque(maxlen=32)
    for n, state in enumerate(lives(kind)):
        records = commit(log, state)
        delta_bytes = sum(len(v) for k, v in records if k.startswith(b"delta") and v)
        commit_bytes = sum(len(value) for _, value in records if value)
        assert commit_bytes <= 3 * delta_bytes + 3 * CHUNK
        written, deltas = written + commit_bytes, deltas + delta_bytes
        for key, value in records:
            if value is None:
                del live[key]
            else:
                live[key] = len(value)
        states.append(state.size_bytes())
        assert sum(live.values()) <= 3 * max(states) + FLOOR, f"commit {n}"
        if restarts and n % 400 == 399:
            log = restarted(log, rule, live)
    assert written < 4 * deltas + FLOOR
    assert log.snapshot or kind == "grows"  # there each byte is of the state


def restarted(log: Changelog, rule: SnapshotRule, live: dict[bytes, int]) -> Changelog:
    journal = journal_of((key, b"x" * size) for key, size in live.items() if key != b"operator")
    journal.last, journal.snapshot = log.last, log.snapshot
    again = Changelog(rule, "w", PARTS)
    journal.resume(again)
    return again
