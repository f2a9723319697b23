"""Operators that are not at the commit of their log partition: what is restored; how they join."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.changelogs import NEVER, PARTS, State, Target, commit, journal_of
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.progress import ANY, VERSION, LogProgress
from tidemark.runtime.keyed.changelog import Changelog
from tidemark.runtime.keyed.log_partition import LogPartition
from tidemark.runtime.keyed.restore import ChangelogReader, RestoreRequest, StateBuilder
from tidemark.serde.changelog import NO_COMMIT, Commit

OWN = Commit(2, "w")
LOG = Commit(9, "x", "x")


def before() -> tuple[State, list[Record]]:
    """Return the state of an operator that stopped at commit 2, and its changelog."""
    log, state = Changelog(NEVER, "w", PARTS), State()
    return state, [*commit(log, state.add(1)), *commit(log, state.add(2))]


def joined(records: list[Record], state: State, writer: str, value: int) -> list[Record]:
    """Return the records of the first two commits of the operator after commit 9 of the log."""
    log, journal = Changelog(NEVER, writer, PARTS), journal_of(records)
    list(journal.rest(OWN))
    journal.resume(log)
    log.join(LOG)
    return [*commit(log, state.add(value)), *commit(log, state.add(value + 1))]


def restored(records: list[Record], at: Commit, snapshot: int | None) -> list[int]:
    state: Any = State()
    target: Any = Target(state)
    list(reader(records, target, snapshot).rest(at))
    held: list[int] = state.held
    return held


def reader(
    records: list[Record], target: Any = None, snapshot: int | None = None, **options: Any
) -> ChangelogReader:
    return ChangelogReader(journal_of(records, snapshot), StateBuilder(target), **options)


@pytest.mark.parametrize("snapshot", [None, 10])
def test_the_first_commit_after_a_gap_has_all_state(snapshot):
    state, records = before()
    records += joined(records, state, "v", 7)
    assert restored(records, Commit(11, "v"), snapshot) == [1, 2, 7, 8]
    live = {key: value for key, value in dict(records).items() if value is not None}
    assert set(live) == {b"operator", b"snapshot/10/v/0", b"delta/11/v/0"}


@pytest.mark.parametrize("snapshot", [None, 10])
def test_a_process_that_could_not_commit_its_join_leaves_nothing_that_counts(snapshot):
    state, records = before()
    lost = joined(records, State().add(1, 2), "u", 99)[:2]
    records += joined([*records, *lost], state, "v", 7)
    seen = records if snapshot else [*lost, *records]  # without transactions, both are read
    assert restored(seen, Commit(11, "v"), snapshot) == [1, 2, 7, 8]


def request(offset: int = 5, *, ahead: bool = False, **readers: ChangelogReader) -> RestoreRequest:
    by_partition = {Partition(name, 0): each for name, each in readers.items()}
    return RestoreRequest(Partition("log", 0), offset, LOG, ahead, by_partition)


def test_an_operator_apart_is_restored_to_its_own_commit_until_it_has_joined():
    state, records = before()
    apart = reader(records, apart=OWN)
    assert request().commit_of(apart, LOG) == OWN
    records += joined(records, state, "v", 7)
    at = Commit(10, "v", "x")
    assert request().commit_of(reader(records, apart=OWN), at) == at


def test_an_empty_changelog_is_a_new_operator_or_one_whose_changelog_was_deleted():
    assert request().commit_of(reader([], has_state=False), LOG) == NO_COMMIT
    assert request().commit_of(reader([], apart=NO_COMMIT), LOG) == NO_COMMIT
    deleted = reader([])
    with pytest.raises(StateError, match="is empty, but its log is at commit 9: it was deleted"):
        list(deleted.rest(request().commit_of(deleted, LOG)))


def test_state_without_a_committed_offset_is_refused_with_the_cause():
    _, records = before()
    with pytest.raises(StateError, match="nothing is committed"):
        request(-1).commit_of(reader(records), NO_COMMIT)
    target: Any = Target(State())
    other = ChangelogReader(journal_of(records, parts={"key": "b"}), StateBuilder(target))
    with pytest.raises(StateError, match=r"key 'player: String' is now 'b'"):  # A2
        request(-1).commit_of(other, NO_COMMIT)


def test_operators_apart_do_not_decide_which_commit_of_the_log_is_restored():
    log, state = Changelog(NEVER, "x", PARTS), State()
    log.join(Commit(8, "x"))
    at_log = reader(commit(log, state.add(1)))
    _, records = before()
    found = request(ahead=True, a=at_log, b=reader(records, apart=OWN), c=reader([]))
    assert found.restorable() == LOG
    behind = request(ahead=True, a=reader(records), b=reader([]))
    assert behind.restorable()[:2] == (8, "x")


def test_operators_that_lag_are_found_by_their_offsets_if_the_metadata_names_none():
    operators = [Restored("lags", 3), Restored("keeps up", 5)]
    past = LogProgress(VERSION, "id", *LOG, behind=[ANY])
    log = LogPartition(Partition("log", 0), 5, past, operators, "generations")  # type: ignore[arg-type]
    mirrors = {each.changelog: None for each in operators}
    restore: Any = SimpleNamespace(commits={log.at: LOG}, mirrors=mirrors, troubles={})
    readers: Any = {each.changelog: None for each in operators}
    log.restored(restore, RestoreRequest(log.at, 5, LOG, False, readers), certain=True)
    assert [each.is_behind for each in operators] == [True, False]
    assert log.past.behind == ["lags"]


class Restored:
    """An operator whose changelog ends with the last commit of the log partition."""

    is_stopped, is_behind, trouble, snapshot = False, False, None, 7

    def __init__(self, name: str, next_offset: int) -> None:
        self.plan = SimpleNamespace(name=name)
        self.changelog = Partition(name, 0)
        self.task = SimpleNamespace(next_offset=next_offset)

    def restored(self, _reader: object, _mirror: object) -> Commit:
        return LOG
