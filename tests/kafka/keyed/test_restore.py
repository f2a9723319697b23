"""Restores against a real broker: what is open, aborted, hanging, deleted or compacted."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.kafka.support.stack import Stack, wait_until
from tests.support.changelogs import State, Target, clocks
from tidemark.core.time.segment import NEVER_MS, Segment, SourceMark
from tidemark.errors import StateError
from tidemark.ingest.ingest import Progress
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.backends.backend import MemoryBackend
from tidemark.runtime.client import clients
from tidemark.runtime.client import range_reader as reading
from tidemark.runtime.client.consumer import EARLIEST, LATEST, Start, offsets
from tidemark.runtime.client.producer import Record
from tidemark.runtime.ingest import past_marks
from tidemark.runtime.keyed.changelog import Changelog, SnapshotRule
from tidemark.runtime.keyed.changelog_replay import ChangelogReplay
from tidemark.runtime.keyed.restore import (
    ChangelogReader,
    Restore,
    RestoreRequest,
    StateBuilder,
)
from tidemark.serde.changelog import NO_COMMIT, Commit
from tidemark.serde.segments import encode_segment


class Writer:
    """A process with transactions that writes the changelog of one operator on a partition."""

    def __init__(
        self, stack: Stack, rule: SnapshotRule | None = None, slot: str = "0", partition: int = 0
    ) -> None:
        self.stack = stack
        self.plan: OperatorPlan = stack.plan.operators[0]
        self.at = Partition(self.plan.changelog, partition)
        self.state: Any = State()
        self.log = Changelog(rule or SnapshotRule(10**9, 10**12), "w", self.plan.state_signature)
        config = stack.config.model_copy(update={"transaction_timeout_ms": 60_000})
        self.producer: Producer = clients.transactional_producer(config, f"{stack.name}.{slot}")
        self.producer.init_transactions(30)

    def write(self, *values: int) -> list[Record]:
        """Open a transaction and write a commit to it."""
        self.producer.begin_transaction()
        records = self.log.commit(self.state.add(*values), clocks(0), next_offset=0)
        for key, value in records:
            self.producer.produce(self.at.topic, value, key, self.at.number)
        self.producer.flush(10)
        return records

    def commit(self, *values: int) -> list[Record]:
        records = self.write(*values)
        self.producer.commit_transaction(30)
        return records


class Seen(State):
    """State that is restored into; clocks are of no matter here."""


@pytest.fixture
def stack(broker, request) -> Iterator[Stack]:
    with Stack(broker, f"r{abs(hash(request.node.name)) % 10**8}") as made:
        yield made


def wanted(writer: Writer, commit: Commit, offset: int = 1) -> tuple[RestoreRequest, State]:
    state = Seen()
    snapshot = 0 if writer.log.snapshot == 0 else writer.log.snapshot
    replay = ChangelogReplay(str(writer.at), "pops", writer.plan.state_signature, snapshot)
    target: Any = Target(state)
    readers = {writer.at: ChangelogReader(replay, StateBuilder(target))}
    log = Partition(writer.plan.log, writer.at.number)
    return RestoreRequest(log, offset, commit, ahead=False, readers=readers), state


def restore_of(
    writer: Writer, commit: Commit, offset: int = 1, patience_s: float | None = None
) -> tuple[Restore, State]:
    want, state = wanted(writer, commit, offset)
    stack = writer.stack
    return Restore(stack.config, stack.admin, [want], MemoryBackend(), patience_s), state


def await_end(restore: Restore, what: str) -> None:
    def ends() -> bool:
        restore.step()
        return restore.done

    wait_until(ends, what)


def restored(writer: Writer, commit: Commit, offset: int = 1) -> list[int]:
    restore, state = restore_of(writer, commit, offset)
    await_end(restore, "the restore")
    restore.close()
    for trouble in restore.troubles.values():
        raise trouble
    return state.held


def test_nothing_is_restored_before_anything_was_committed(stack):
    writer = Writer(stack)
    assert restored(writer, NO_COMMIT, offset=-1) == []
    assert restored(writer, NO_COMMIT, offset=0) == []


def test_the_end_of_a_commit_that_is_not_visible_yet_is_waited_for(stack):
    """The committed end leaves it out, though the offsets of the same commit may be known."""
    writer = Writer(stack)
    writer.commit(1)
    writer.write(2)
    restore, state = restore_of(writer, writer.log.last)
    for _ in range(4):
        restore.step()
        assert not restore.done
    (shown,) = restore.progress
    assert shown.done < shown.total
    writer.producer.commit_transaction(30)
    await_end(restore, "the restore")
    restore.close()
    assert state.held == [1, 2]


def test_what_another_process_aborts_is_waited_for_and_left_out(stack):
    writer = Writer(stack)
    writer.commit(1)
    other = Writer(stack, slot="1")
    other.log = Changelog(other.log.rule, "w", writer.plan.state_signature)
    other.log.resume(writer.log.last, 0, (), has_signature=True)
    other.write(99)
    restore, state = restore_of(writer, writer.log.last)
    restore.step()
    assert not restore.done
    other.producer.abort_transaction(30)
    await_end(restore, "the restore")
    restore.close()
    assert state.held == [1]
    assert restored(writer, writer.log.last) == [1]  # with the abort and its marker at the end


def test_a_transaction_that_hangs_stops_the_restore_and_says_which(stack, monkeypatch):
    """Its timeout is a minute, the patience of this reader three seconds."""
    monkeypatch.setattr(reading, "_QUIET_S", 0.5)
    writer = Writer(stack)
    writer.commit(1)
    last = writer.log.last
    writer.write(2)
    restore, _ = restore_of(writer, last, patience_s=3.0)
    with pytest.raises(StateError, match=rf"{writer.at}.*find-hanging"):
        await_end(restore, "the end of patience")
    assert restore.waits_for == [writer.at]
    restore.close()
    writer.producer.abort_transaction(30)


def test_a_changelog_with_its_first_records_deleted_stops(stack):
    writer = Writer(stack)
    for value in range(3):
        writer.commit(value)
    settings = {"cleanup.policy": "compact,delete"}
    _alter(stack, writer.at.topic, settings)
    end = TopicPartition(*writer.at, 3)
    # A setting that was altered holds a moment later.
    clients.when_known(lambda: stack.admin.delete_records([end])[end].result())
    with pytest.raises(StateError, match=rf"{writer.at}: .*tidemark reset"):
        restored(writer, writer.log.last)


def test_state_whose_offset_is_gone_stops(stack):
    writer = Writer(stack)
    writer.commit(1)
    with pytest.raises(StateError, match=r"/0: nothing is committed, but .* has state"):
        restored(writer, NO_COMMIT, offset=-1)


@pytest.mark.long
def test_what_a_changelog_holds_stays_within_three_times_the_state(stack):
    """The smallest files the broker takes, and a cleaner that may look at them at once."""
    writer = Writer(stack, SnapshotRule(commits=1_000, bytes=512 * 2**10))
    settings = {
        "segment.bytes": str(2**20),
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1000",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": "100",
    }
    _alter(stack, writer.at.topic, settings)
    writer.state.bytes_each = 1_000
    live: dict[bytes, int] = {}
    floor = 2 * 2**20 + 64 * 2**10
    for value in range(500):
        records = writer.commit(*[value] * 12)
        del writer.state.held[:-1_000]
        for key, cell in records:
            if cell is None:
                live.pop(key)
            else:
                live[key] = len(cell)
        assert sum(live.values()) <= 3 * writer.state.size_bytes() + floor
    assert writer.log.snapshot
    assert restored(writer, writer.log.last)[-1_000:] == writer.state.held
    wait_until(
        lambda: bool(writer.commit(1)) and _bytes(stack, writer) <= 3 * 10**6 + floor, "cleaning"
    )
    idle = _end(stack, writer)
    time.sleep(1)
    assert _end(stack, writer) == idle


def _bytes(stack: Stack, writer: Writer) -> int:
    """Return what a reader from the log's start gets."""
    time.sleep(1)  # a file is closed by the next write, and cleaned some time after
    return sum(
        len(key or b"") + len(value or b"") for key, value in stack.committed(writer.at.topic)
    )


def _end(stack: Stack, writer: Writer) -> int:
    assert offsets(stack.admin, [writer.at], EARLIEST)[writer.at] >= 0
    return offsets(stack.admin, [writer.at], LATEST)[writer.at]


def _alter(stack: Stack, topic: str, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    stack.admin.incremental_alter_configs([resource])[resource].result()


def test_a_restore_forgets_what_went_to_another_owner(stack):
    writer = Writer(stack)
    writer.commit(1)
    writer.write(2)
    restore, state = restore_of(writer, writer.log.last)
    restore.step()
    restore.drop(Partition(writer.plan.log, 0))
    await_end(restore, "the end")
    restore.close()
    assert restore.requests == []
    assert state.held == [1]  # what was applied before
    writer.producer.abort_transaction(30)


def test_what_goes_away_between_two_pieces_is_left_out_of_the_rest(stack, monkeypatch):
    """Two changelogs come in one batch; while a piece of one is applied, the other one goes."""
    writers = [Writer(stack, slot=str(n), partition=n) for n in range(2)]
    for writer in writers:
        writer.commit(1)
        writer.commit(2)
    wants, states = zip(*(wanted(each, each.log.last) for each in writers), strict=True)
    restore = Restore(stack.config, stack.admin, wants, MemoryBackend())
    read = restore._read

    def read_all() -> set[Partition]:
        found = set()
        while restore._kafka.left:
            found |= read()
        return found

    monkeypatch.setattr(restore, "_read", read_all)
    while not any(state.held for state in states):
        next(restore._steps)
    (gone,) = (n for n, state in enumerate(states) if not state.held)
    restore.drop(wants[gone].log)
    await_end(restore, "the end")
    restore.close()
    assert [state.held for state in states] == ([[], [1, 2]] if gone == 0 else [[1, 2], []])


def test_what_the_log_knows_of_a_source_is_found_however_far_back(stack, monkeypatch):
    """One segment has its mark; the search takes several steps back over those that follow."""
    monkeypatch.setattr(past_marks, "_STEP", 3)
    marks = [SourceMark(f"{stack.raw}/0", 0, 7, NEVER_MS, 5, idle=False, silence_ms=0)]
    marks += [SourceMark("others/0", n, n + 1, 0, 0, idle=False, silence_ms=0) for n in range(19)]
    producer = Producer({"bootstrap.servers": stack.config.bootstrap_servers})
    (log,) = stack.plan.logs
    for mark in marks:
        segment = Segment(0, 0, (mark,), {stack.raw: 2}, 0, {})
        producer.produce(log.topic, encode_segment(segment), partition=0)
    assert producer.flush(10) == 0
    past = past_marks.PastMarks(stack.config, stack.admin, stack.plan)

    assert past.progress(Start(Partition(stack.raw, 0), 7, "")) == Progress(7, 5)
    for number in (0, 1):  # also the one without records: it would vouch for the other one
        with pytest.raises(StateError, match=rf"/{number}: nothing .* of {stack.raw}/0 up to .* 7"):
            past.require_new(Partition(stack.raw, number))

    group = f"{stack.name}.ingest"
    member = Consumer({"bootstrap.servers": stack.config.bootstrap_servers, "group.id": group})
    member.commit(offsets=[TopicPartition(stack.raw, 0, 7)], asynchronous=False)
    member.close()
    past.require_new(Partition(stack.raw, 1))
