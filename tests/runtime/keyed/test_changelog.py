"""State goes into a changelog in pieces and comes back the same, whatever compaction left."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.changelogs import HERE, NEVER, PARTS, State, Target, commit, journal_of
from tidemark.core.state import blocks
from tidemark.errors import StateError
from tidemark.runtime.client.producer import Record
from tidemark.runtime.keyed import changelog as changelog_module
from tidemark.runtime.keyed.changelog import Changelog, SnapshotRule
from tidemark.runtime.keyed.changelog_replay import ChangelogReplay
from tidemark.runtime.keyed.restore import StateBuilder
from tidemark.serde.changelog import NO_COMMIT, Commit, Piece, encode_operator


class Clocks:
    def apply(self, clocks) -> None:
        self.ms = clocks["clock_ms"].item()


def read(
    records: Iterable[Record], committed: int, snapshot: int | None = None, writer: str = "w"
) -> list[tuple[str, int, list[int]]]:
    return shown(journal_of(records, snapshot).rest(Commit(committed, writer)))


def shown(pieces: Iterable[Piece]) -> list[tuple[str, int, list[int]]]:
    return [
        (p.kind, p.commit.sequence, p.changes["blocks"]["value"].to_list() if p.changes else [])
        for p in pieces
    ]


def compacted(records: Iterable[Record]) -> dict[bytes, bytes]:
    return {key: value for key, value in dict(records).items() if value is not None}


def test_deltas_come_back_in_order_with_what_they_are_of():
    log, state = Changelog(NEVER, "w", PARTS), State()
    records = [*commit(log, state.add(1), 10), *commit(log, state.add(2, 3), 20)]

    assert read(records, committed=2) == [("delta", 1, [1]), ("delta", 2, [2, 3])]
    pieces = list(journal_of(records).rest(Commit(2, "w")))
    assert [piece.next_offset for piece in pieces] == [10, 20]
    assert [p.clocks["clock_ms"].item() for p in pieces if p.clocks is not None] == [10, 20]


def test_a_commit_that_only_moved_the_clock_has_a_delta_too():
    log = Changelog(NEVER, "w", PARTS)
    assert read(commit(log, State()), committed=1) == [("delta", 1, [])]


def test_nothing_written_is_the_state_of_no_commit():
    assert read([], committed=0, writer="") == []


@pytest.mark.parametrize("snapshot", [None, 0])
def test_a_commit_that_is_not_in_the_changelog_stops(snapshot):
    log, state = Changelog(NEVER, "w", PARTS), State()
    records = [*commit(log, state.add(1)), *commit(log, state.add(2))]

    with pytest.raises(StateError, match=f"{HERE}.*lacks commit 3, .*up to 3.*tidemark reset"):
        read(records, 3, snapshot)
    with pytest.raises(StateError, match="lacks commit"):
        read(records, 2, snapshot, writer="another")


def test_what_nobody_committed_means_nothing():
    """Two processes write commit 2 after the same commit 1; a third goes on after the second's."""
    first, state = Changelog(SnapshotRule(commits=3, bytes=10**12), "w", PARTS), State()
    begin = list(commit(first, state.add(1)))
    second, third = resumed(begin, "v"), resumed(begin, "x")
    lost = [*commit(first, state.add(5, 6)), *commit(first, state.add(7))]
    assert lost[-1][0] == b"snapshot/3/w/0"
    records = [*begin, *commit(second, State().add(2)), *lost, *commit(third, State().add(9))]
    records += commit(second, State().add(3))

    assert read(records, committed=3, writer="v") == [
        ("delta", 1, [1]), ("delta", 2, [2]), ("delta", 3, [3]),
    ]  # fmt: skip
    after = resumed(records, "u", Commit(3, "v"), SnapshotRule(commits=1, bytes=10**12))
    records += commit(after, State().add(4))
    records += [each for each in commit(after, State()) if each[1] is None]
    left = {key for key, value in dict(records).items() if value is not None}
    assert left == {b"operator", b"snapshot/4/u/0"}


def resumed(
    records: Iterable[Record],
    writer: str,
    last: Commit = Commit(1, "w"),  # noqa: B008
    rule: SnapshotRule = NEVER,
) -> Changelog:
    journal = journal_of(records)
    list(journal.rest(last))
    log = Changelog(rule, writer, PARTS)
    journal.resume(log)
    return log


def test_a_commit_is_there_when_all_of_it_is(monkeypatch):
    monkeypatch.setattr(changelog_module, "CHUNK_BYTES", 1_000)
    log = Changelog(NEVER, "w", PARTS)
    records = commit(log, State().add(*range(1_000)))
    journal = journal_of(records[:-1])
    assert journal.has(NO_COMMIT)
    assert not journal.has(log.last)
    journal.add(*records[-1])
    assert journal.has(log.last)


@pytest.mark.parametrize("place", [1, 3])
def test_two_histories_where_none_can_be_stop(place):
    log, state = Changelog(NEVER, "w", PARTS), State()
    records = [r for n in range(3) for r in commit(log, state.add(n))]
    other = resumed(records[:2], "v", Commit(1, "w"))
    records[place:place] = commit(other, State())
    with pytest.raises(StateError, match=f"{HERE}.*commit . was written by two processes"):
        read(records, committed=3, snapshot=0)


def test_a_missing_delta_stops():
    log, state = Changelog(NEVER, "w", PARTS), State()
    records = [r for n in range(3) for r in commit(log, state.add(n)) if r[0] != b"delta/2/w/0"]
    with pytest.raises(StateError, match="lacks commit 2"):
        read(records, committed=3)


def test_an_empty_changelog_of_a_log_that_was_committed_stops():
    with pytest.raises(StateError, match=f"{HERE}.*'pops' is empty, but its log is at commit 7"):
        read([], committed=7)


def test_a_foreign_record_stops():
    with pytest.raises(StateError, match=f"{HERE}.*b'x' is not of a changelog"):
        journal_of([(b"x", b"")])


@pytest.mark.parametrize("snapshot", [None, 0])
def test_state_of_another_operator_stops_with_what_changed(snapshot):
    log, state = Changelog(NEVER, "w", PARTS), State()
    records = commit(log, state.add(1))
    journal = journal_of(records, snapshot, {**PARTS, "aggregates": "pops=sum(score)"})

    assert list(journal.pieces()) == []
    with pytest.raises(StateError) as stopped:
        list(journal.rest(Commit(1, "w")))
    text = str(stopped.value)
    assert "'pops'" in text
    assert "aggregates 'pops=count()' is now 'pops=sum(score)'" in text
    assert "player" not in text
    assert "tidemark reset" in text


def test_a_snapshot_replaces_what_came_before_and_is_followed_by_what_came_after():
    log, state = Changelog(SnapshotRule(commits=2, bytes=10**12), "w", PARTS), State()
    records = [*commit(log, state.add(1)), *commit(log, state.add(2))]
    assert log.snapshot == 2
    assert None not in dict(records).values()  # until the snapshot is committed
    records += commit(log, state.add(3))

    expected = [("snapshot", 2, [1, 2]), ("delta", 3, [3])]
    for hint in (None, 2):
        assert read(records, committed=3, snapshot=hint) == expected
    tombstones = [key for key, value in records if value is None]
    assert tombstones == [b"delta/1/w/0", b"delta/2/w/0"]
    without_tombstones = [record for record in records if record[1] is not None]
    for hint in (None, 2):
        assert read(without_tombstones, committed=3, snapshot=hint) == expected
    assert read(compacted(records).items(), committed=3) == expected


def test_the_next_snapshot_replaces_the_last_one():
    log, state = Changelog(SnapshotRule(commits=2, bytes=10**12), "w", PARTS), State()
    records = [record for n in range(5) for record in commit(log, state.add(n))]

    assert set(compacted(records)) == {b"operator", b"snapshot/4/w/0", b"delta/5/w/0"}
    assert read(records, committed=5) == [("snapshot", 4, [0, 1, 2, 3]), ("delta", 5, [4])]


@pytest.fixture
def tiny_chunks(monkeypatch):
    """Ten numbers in each chunk of a snapshot, of which few fit in a commit."""
    monkeypatch.setattr(changelog_module, "CHUNK_BYTES", 250)
    monkeypatch.setattr(blocks, "PIECE_BYTES", 80)


IN_TWO = SnapshotRule(commits=32, bytes=10**12)


def until_a_snapshot_begins(log: Changelog, state: State) -> list[Record]:
    """Add 60 numbers in 32 commits."""
    records = commit(log, state.add(*range(29)))
    return records + [r for n in range(29, 60) for r in commit(log, state.add(n))]


def test_state_of_sessions_from_before_they_were_strict_says_how_it_goes_on():
    parts = {**PARTS, "windows": "session(30s)"}
    records = commit(Changelog(IN_TWO, "w", parts), State().add(1))
    now = {**parts, "windows": "session(30s), strict"}
    with pytest.raises(StateError, match=r'lateness="after_merging"\) goes on with this state'):
        list(journal_of(records, parts=now).rest(Commit(1, "w")))


def test_a_snapshot_that_is_not_whole_means_nothing(tiny_chunks):
    log, state = Changelog(IN_TWO, "w", PARTS), State()
    records = until_a_snapshot_begins(log, state)

    assert log.snapshot == 0
    assert {b"snapshot/32/w/0", b"snapshot/32/w/1"} < set(compacted(records))
    assert {kind for kind, _, _ in read(records, committed=32)} == {"delta"}
    records += commit(log, state.add(60))
    assert log.snapshot == 32
    expected = [("snapshot", 32, list(range(n, n + 10))) for n in range(0, 60, 10)]
    for hint in (None, 32):
        assert read(records, committed=33, snapshot=hint) == [*expected, ("delta", 33, [60])]


def test_pieces_apply_as_they_come_where_the_snapshot_is_known(tiny_chunks):
    log, state = Changelog(IN_TWO, "w", PARTS), State()
    records = [*until_a_snapshot_begins(log, state), *commit(log, state.add(60))]
    journal = ChangelogReplay(HERE, "pops", PARTS, snapshot=32)
    seen = []
    for key, value in records:
        journal.add(key, value)
        seen += [(key, piece.kind, piece.chunk) for piece in journal.pieces()]
        assert len(journal._held) <= 1  # the delta between two chunks of the snapshot
    assert seen == [
        *((b"snapshot/32/w/%d" % n, "snapshot", n) for n in range(6)),
        (b"snapshot/32/w/5", "delta", 0),
    ]
    assert list(journal.rest(Commit(33, "w"))) == []


def test_what_is_left_of_a_snapshot_never_finished_is_dropped_with_the_next(tiny_chunks):
    first, state = Changelog(IN_TWO, "w", PARTS), State()
    records = until_a_snapshot_begins(first, state)
    assert b"snapshot/32/w/0" in compacted(records)

    journal = journal_of(records, snapshot=0)
    assert {kind for kind, _, _ in shown(journal.rest(Commit(32, "w")))} == {"delta"}
    second = Changelog(IN_TWO, "w", PARTS)
    journal.resume(second)
    while second.snapshot == 0:
        records += commit(second, state)
    records += commit(second, state)
    snapshots = {key.split(b"/")[1] for key in compacted(records) if key.startswith(b"snapshot")}
    assert snapshots == {str(second.snapshot).encode()}


def test_large_changes_are_cut_into_chunks_and_apply_as_one(monkeypatch):
    monkeypatch.setattr(changelog_module, "CHUNK_BYTES", 1_000)
    log, state = Changelog(NEVER, "w", PARTS), State()
    records = commit(log, state.add(*range(1_000)))
    assert len(records) >= 8

    pieces = list(journal_of(records).rest(Commit(1, "w")))
    assert [piece.continues for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    applied: list[list[int]] = []
    restored: Any = State()
    restored.apply = lambda changes: applied.append(changes["blocks"]["value"].to_list())
    target: Any = Target(restored)
    builder = StateBuilder(target)
    for piece in pieces:
        builder.take(piece)
    assert applied == [list(range(1_000))]
    with pytest.raises(StateError):
        read(records[:-1], committed=1)


def test_a_writer_that_resumes_replaces_what_its_predecessor_wrote():
    first, state = Changelog(NEVER, "w", PARTS), State()
    records = [r for n in range(3) for r in commit(first, state.add(n))]
    journal = journal_of(records)
    assert [sequence for _, sequence, _ in shown(journal.rest(Commit(3, "w")))] == [1, 2, 3]

    second = Changelog(SnapshotRule(commits=4, bytes=10**12), "v", PARTS)
    journal.resume(second)
    records += [*commit(second, state.add(9)), *commit(second, state.add(10))]

    expected = [("snapshot", 4, [0, 1, 2, 9]), ("delta", 5, [10])]
    assert read(records, committed=5, writer="v") == expected
    assert set(compacted(records)) == {b"operator", b"snapshot/4/v/0", b"delta/5/v/0"}


def test_an_operator_that_begins_again_writes_its_signature_over_another():
    changed = {**PARTS, "stream": "raw#2"}
    records: list[Record] = [(b"operator", encode_operator(changed))]  # as a reset leaves it
    log = resumed(records, "w", NO_COMMIT)
    records += commit(log, State().add(1))
    assert read(records, committed=1) == [("delta", 1, [1])]
    log = resumed(records, "v")
    assert b"operator" not in dict(commit(log, State().add(2)))
