"""State goes into a changelog in pieces and comes back the same, whatever compaction left."""

from collections.abc import Iterable

import polars as pl
import pytest

from tidemark.errors import StateError
from tidemark.runtime import changelog as changelog_module
from tidemark.runtime.changelog import Changelog, Journal, Record, SnapshotRule
from tidemark.runtime.serde.changelog import Commit

NEVER = SnapshotRule(commits=10**9, bytes=10**12)


def clocks(ms: int) -> pl.DataFrame:
    return pl.DataFrame({"source": ["moves/0"], "clock_ms": [ms]})


def block(*values: int) -> dict[str, pl.DataFrame]:
    return {"blocks": pl.DataFrame({"value": list(values)})}


def read(
    records: Iterable[Record], committed: int, writer: str = "w"
) -> list[tuple[str, int, list[int]]]:
    journal = Journal("game.pops.changelog/0")
    for key, value in records:
        journal.add(key, value)
    return [
        (p.kind, p.sequence, p.changes["blocks"]["value"].to_list() if p.changes else [])
        for p in journal.pieces(Commit(committed, writer))
    ]


def test_deltas_come_back_in_order_with_their_clocks():
    log = Changelog(NEVER, "w")
    records = [*log.delta(block(1), clocks(10)), *log.delta(block(2, 3), clocks(20))]

    assert read(records, committed=2) == [("delta", 1, [1]), ("delta", 2, [2, 3])]


def test_a_commit_that_only_moved_the_clock_has_a_delta_too():
    log = Changelog(NEVER, "w")
    assert read(log.delta({}, clocks(10)), committed=1) == [("delta", 1, [])]


def test_nothing_written_is_the_state_of_no_commit():
    assert read([], committed=0) == []


def test_a_commit_that_is_not_in_the_changelog_stops():
    log = Changelog(NEVER, "w")
    records = [*log.delta(block(1), clocks(10)), *log.delta(block(2), clocks(20))]

    with pytest.raises(StateError, match=r"game.pops.changelog/0.*lacks commit 3,.*with 3;"):
        read(records, committed=3)
    with pytest.raises(StateError, match="lacks commit 2"):
        read(records, committed=2, writer="another")


def test_what_nobody_committed_means_nothing():
    """Two processes write commit 2 after the same commit 1; a third goes on after the second's."""
    first = Changelog(NEVER, "w")
    begin = list(first.delta(block(1), clocks(10)))
    second, third = resumed(begin, "v"), resumed(begin, "x")
    lost = [*first.delta(block(5, 6), clocks(15)), *first.delta(block(7), clocks(16))]
    first.snapshot([block(1, 5, 6, 7)], clocks(16))
    lost += first.snapshot_records()
    records = [
        *begin,
        *second.delta(block(2), clocks(20)),
        *lost,
        *third.delta(block(9), clocks(9)),
    ]
    records += second.delta(block(3), clocks(30))

    assert read(records, committed=3, writer="v") == [
        ("delta", 1, [1]), ("delta", 2, [2]), ("delta", 3, [3]),
    ]  # fmt: skip
    after = resumed(records, "u", Commit(3, "v"))
    records += after.delta(block(4), clocks(40))
    after.snapshot([block(1, 2, 3, 4)], clocks(40))
    records += [*after.snapshot_records(), *after.snapshot_records()]
    left = {key for key, value in dict(records).items() if value is not None}
    assert left == {b"snapshot/4/u/0"}


def resumed(records: Iterable[Record], writer: str, commit: Commit = Commit(1, "w")) -> Changelog:  # noqa: B008
    journal = Journal("here")
    for key, value in records:
        journal.add(key, value)
    list(journal.pieces(commit))
    log = Changelog(NEVER, writer)
    log.resume(journal)
    return log


def test_a_commit_is_there_when_all_of_it_is(monkeypatch):
    monkeypatch.setattr(changelog_module, "CHUNK_BYTES", 1_000)
    log = Changelog(NEVER, "w")
    records = list(log.delta(block(*range(1_000)), clocks(10)))
    journal = Journal("here")
    assert journal.has(Commit())
    for key, value in records[:-1]:
        journal.add(key, value)
    assert not journal.has(log.last)
    journal.add(*records[-1])
    assert journal.has(log.last)


def test_a_missing_delta_stops():
    log = Changelog(NEVER, "w")
    records = [r for n in range(3) for r in log.delta(block(n), clocks(n))]
    with pytest.raises(StateError, match="lacks commit 2"):
        read([records[0], records[2]], committed=3)


def test_a_snapshot_replaces_what_came_before_and_is_followed_by_what_came_after():
    log = Changelog(SnapshotRule(commits=2, bytes=10**12), "w")
    records = [*log.delta(block(1), clocks(10)), *log.delta(block(2), clocks(20))]
    assert log.snapshot_due
    log.snapshot([block(1, 2)], clocks(20))
    records += log.snapshot_records()
    assert not log.snapshot_due
    records += log.delta(block(3), clocks(30))

    expected = [("snapshot", 2, [1, 2]), ("delta", 3, [3])]
    assert read(records, committed=3) == expected
    assert None not in dict(records).values()  # until the snapshot is committed
    records += log.snapshot_records()
    assert read(records, committed=3) == expected
    tombstones = [key for key, value in records if value is None]
    assert tombstones == [b"delta/1/w/0", b"delta/2/w/0"]
    without_tombstones = [record for record in records if record[1] is not None]
    assert read(without_tombstones, committed=3) == expected


def test_the_next_snapshot_replaces_the_last_one():
    log = Changelog(NEVER, "w")
    records = list(log.delta(block(1), clocks(10)))
    log.snapshot([block(1)], clocks(10))
    records += log.snapshot_records()
    records += log.delta(block(2), clocks(20))
    log.snapshot([block(1, 2)], clocks(20))
    records += [*log.snapshot_records(), *log.snapshot_records()]

    left = {key for key, value in dict(records).items() if value is not None}
    assert left == {b"snapshot/2/w/0"}
    assert read(records, committed=2) == [("snapshot", 2, [1, 2])]


def test_a_snapshot_that_is_not_whole_means_nothing(monkeypatch):
    monkeypatch.setattr(changelog_module, "CHUNK_BYTES", 64)
    monkeypatch.setattr(changelog_module, "_BYTES_PER_COMMIT", 1)
    log = Changelog(NEVER, "w")
    records = list(log.delta(block(*range(30)), clocks(10)))
    log.snapshot([block(*range(30))], clocks(10))
    records += log.snapshot_records()  # one chunk of several
    records += log.delta(block(99), clocks(20))

    assert [(kind, n) for kind, n, _ in read(records, committed=2)] == [("delta", 1), ("delta", 2)]

    chunks = 0
    while more := list(log.snapshot_records()):
        records += more
        chunks += 1
    assert chunks > 1
    whole = [("snapshot", 1, list(range(30))), ("delta", 2, [99])]
    assert read(records, committed=2) == whole


def test_large_frames_are_cut_into_chunks_and_joined_again(monkeypatch):
    monkeypatch.setattr(changelog_module, "CHUNK_BYTES", 1_000)
    log = Changelog(NEVER, "w")
    records = list(log.delta(block(*range(1_000)), clocks(10)))

    assert len(records) >= 8
    assert read(records, committed=1) == [("delta", 1, list(range(1_000)))]
    with pytest.raises(StateError):
        read(records[:-1], committed=1)


def test_a_writer_that_resumes_replaces_what_its_predecessor_wrote():
    first = Changelog(NEVER, "w")
    records = [r for n in range(3) for r in first.delta(block(n), clocks(n))]
    journal = Journal("here")
    for key, value in records:
        journal.add(key, value)
    assert [piece.sequence for piece in journal.pieces(Commit(3, "w"))] == [1, 2, 3]

    second = Changelog(NEVER, "v")
    second.resume(journal)
    records += second.delta(block(9), clocks(9))
    second.snapshot([block(0, 1, 2, 9)], clocks(9))
    records += [*second.snapshot_records(), *second.snapshot_records()]

    assert read(records, committed=4, writer="v") == [("snapshot", 4, [0, 1, 2, 9])]
    assert {key for key, value in dict(records).items() if value is not None} == {b"snapshot/4/v/0"}
