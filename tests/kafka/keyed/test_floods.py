"""Few records with very many results: published in portions, over several commits."""

import json
import random
import time

import pytest

from bench.bombs import BOMBS
from bench.memory import measured
from tests.kafka.pipelines import floods
from tests.kafka.support.stack import Stack, wait_until
from tidemark.partition import Partition
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.progress import LogProgress, decode
from tidemark.runtime.config import Config

RECORDS = 400
APART_MS = 999_000


@pytest.mark.long
def test_kills_between_the_portions_of_a_segment_lose_and_double_nothing(broker):  # C2, C3
    """One segment makes 400,000 empty panes, 200,000 overlapping ones and 400 lists."""
    rng = random.Random(14)
    with Stack(broker, "floods", module=floods, TIDEMARK_TRANSACTION_TIMEOUT_MS="6000") as stack:
        stack.produce((0, b"k", _record(n)) for n in range(RECORDS))
        stack.start("ingest")
        wait_until(lambda: _commits(stack, "ingest") == RECORDS, "ingest")
        kills, within = 0, 0
        sequences = [0]
        deadline_s = time.monotonic() + 150
        while not _is_done(stack):
            assert time.monotonic() < deadline_s, f"not done after {kills} kills"
            stack.start("windowing")
            time.sleep(rng.uniform(3, 6) if kills < 5 else 20)
            stack.kill("windowing")
            kills += 1
            sequences.append(_progress(stack).sequence)
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


def floods_start(number: int) -> int:
    return 1_700_000_000_000 + number * APART_MS


def _record(number: int) -> bytes:
    return json.dumps({"k": "k", "ts": floods_start(number), "v": number}).encode()


def _commits(stack: Stack, service: str) -> int:
    (found,) = committed_offsets(
        stack.config, f"{stack.name}.{service}", [Partition(f"{stack.name}-in", 0)], 5.0
    )
    return found.offset


def _log(stack: Stack) -> Partition:
    return Partition(stack.plan.logs[0].topic, 0)


def _progress(stack: Stack) -> LogProgress:
    group = f"{stack.name}.windowing"
    (found,) = committed_offsets(stack.config, group, [_log(stack)], 10.0)
    return decode(found.metadata, LogProgress, "log") if found.metadata else LogProgress(1, "")


def _is_done(stack: Stack) -> bool:
    group = f"{stack.name}.windowing"
    (found,) = committed_offsets(stack.config, group, [_log(stack)], 10.0)
    return found.offset > 0 and len(stack.results("rolling")) == RECORDS


@pytest.mark.long
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_stays_within_one_and_a_half_budgets(broker, bomb, tmp_path):  # C1 to C4
    config = Config(bootstrap_servers=broker)
    for found in measured(config, bomb, 0.2, 60.0, tmp_path):
        assert [*found.faults(config.memory_bytes)] == [], found
