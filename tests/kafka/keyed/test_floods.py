"""Few records with very many results: published in portions, over several commits."""

import json
import random
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, TopicPartition

from bench.memory.bombs import BOMBS
from bench.memory.services import measured
from tests.kafka.pipelines import floods
from tests.kafka.support.stack import Stack, wait_until
from tests.patience import PATIENCE_S
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.progress import LogProgress, decode
from tidemark.runtime.config import Config

RECORDS = 400
APART_MS = 999_000
KILLS = 5


@pytest.mark.long
def test_kills_between_the_portions_of_a_segment_lose_and_double_nothing(broker):  # C2, C3
    """One segment makes 400,000 empty panes, 200,000 overlapping ones and 400 lists."""
    rng = random.Random(14)
    with Stack(broker, "floods", module=floods, TIDEMARK_TRANSACTION_TIMEOUT_MS="6000") as stack:
        stack.produce((0, b"k", _record(n)) for n in range(RECORDS))
        stack.start("ingest")
        wait_until(lambda: _commits(stack, "ingest") == RECORDS, "ingest")
        sequences = [0]
        for _ in range(KILLS):  # each after a commit of its own, wherever that is
            stack.start("windowing")
            _await_of_windowing(
                stack,
                lambda: _progress(stack).sequence > sequences[-1] or _is_done(stack),
                "work",
            )
            time.sleep(rng.uniform(0, 2))
            stack.kill("windowing")
            sequences.append(_progress(stack).sequence)
        stack.start("windowing")
        _await_of_windowing(stack, lambda: _is_done(stack), "all results")
        stack.kill("windowing")
        within = len(set(sequences))
        assert within > 2, f"commits after each kill: {sequences}"
        gaps = [(pane["start"], pane["n"]) for pane in stack.results("gaps")]
        begin = floods_start(0)
        wanted = [
            (start, int((start - begin) % APART_MS == 0))
            for start in range(begin, floods_start(RECORDS - 2) + 1, 1_000)
        ]
        assert sorted(gaps) == wanted
        overlaps = [pane["start"] for pane in stack.results("overlaps")]
        assert len(overlaps) == len(set(overlaps)) > 500 * (RECORDS - 2)
        lists = [pane["all"] for pane in stack.results("rolling")]
        assert lists == [[*range(n + 1)] for n in range(RECORDS)]


@pytest.mark.long
def test_at_least_once_commits_within_a_segment_too(broker):
    """A kill then repeats what came after the last commit, and not the whole segment."""
    with Stack(broker, "repeats", module=floods, TIDEMARK_GUARANTEE="at-least-once") as stack:
        stack.produce((0, b"k", _record(n)) for n in range(RECORDS))
        stack.start("ingest")
        wait_until(lambda: _commits(stack, "ingest") == RECORDS, "ingest")
        (end,) = offsets(stack.admin, [_log(stack)], LATEST).values()
        stack.start("windowing")
        wait_until(lambda: _is_done(stack), "all results")
        assert _progress(stack).sequence > end, "more commits than segments"
        stack.kill("windowing")
        gaps = [pane["start"] for pane in stack.results("gaps")]
        assert len(set(gaps)) == len(gaps) > 300_000


def floods_start(number: int) -> int:
    return 1_700_000_000_000 + number * APART_MS


def _record(number: int) -> bytes:
    return json.dumps({"k": "k", "ts": floods_start(number), "v": number}).encode()


def _commits(stack: Stack, service: str) -> int:
    return _committed(stack, service, Partition(f"{stack.name}-in", 0)).offset


def _committed(stack: Stack, service: str, at: Partition) -> TopicPartition:
    """Return the committed offset of a service; the coordinator of a new group may be loading."""
    found: list[TopicPartition] = []

    def has_answered() -> bool:
        try:
            found.extend(committed_offsets(stack.config, f"{stack.name}.{service}", [at], 10.0))
        except KafkaException:
            return False
        return True

    wait_until(has_answered, f"the committed offset of {at}")
    return found[0]


def _log(stack: Stack) -> Partition:
    return Partition(stack.plan.logs[0].topic, 0)


def _await_of_windowing(stack: Stack, happened: Callable[[], bool], what: str) -> None:
    """Wait; start windowing again if it ends: on a slow machine its transaction gets too old."""

    def has_happened() -> bool:
        if stack.process("windowing").poll() is not None:
            stack.start("windowing")
        return happened()

    wait_until(has_happened, what)


def _progress(stack: Stack) -> LogProgress:
    found = _committed(stack, "windowing", _log(stack))
    return decode(found.metadata, LogProgress, "log") if found.metadata else LogProgress(1, "")


def _is_done(stack: Stack) -> bool:
    found = _committed(stack, "windowing", _log(stack))
    return found.offset > 0 and len(stack.results("rolling")) == RECORDS


@pytest.mark.long
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_stays_within_one_and_a_half_budgets(broker, bomb, tmp_path):  # C1 to C4
    config = Config(bootstrap_servers=broker)
    for found in measured(config, bomb, 0.2, PATIENCE_S, tmp_path):
        assert [*found.faults(config.memory_bytes)] == [], found
