"""Hand-over: Spark up to a cut, live services from there on, and no result differs."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.kafka.support.stack import Stack, move, wait_until
from tests.kafka.support.tables import Table
from tests.spark.pipelines import reparsed as program
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.errors import ConfigurationError, StateError
from tidemark.spark.read.live_position import result_topics
from tidemark.spark.read.ranges import as_json, resolve
from tidemark.spark.read.raw import Raw
from tidemark.spark.replay.handover import HandOver
from tidemark.spark.replay.jobs import ReplayInput, diff, into_live

Published = dict[tuple[str, bytes | None], list[bytes | None]]


def published(stack: Stack) -> Published:
    """Return all results and late rows by topic and message key, in order.

    The order between windows is that of portions of a segment, and they differ.
    """
    found: Published = defaultdict(list)
    for topic, messages in stack.all_committed(result_topics(stack.plan.operators)).items():
        for key, value in messages:
            found[topic, key].append(value)
    return found


def middle(stack: Stack) -> str:
    """Return the offsets in the middle of each log partition."""
    ends = resolve(stack.admin, stack.plan).ends
    return as_json({at: end // 2 for at, end in ends.items()})


@pytest.fixture(scope="module")
def played(broker):
    """Pops and sessions of two partitions, some too late."""
    with Stack(broker, "played", 2) as stack:
        stack.start()
        for part in range(0, 120, 30):
            stack.produce(pops(part, part + 30))
            time.sleep(0.2)  # in commits of their own
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        yield stack


def pops(begin: int, end: int) -> Iterator[tuple[int, None, bytes]]:
    for n in range(begin, end):
        at = n * 1_500 - (n % 9 == 0) * 40_000
        yield n % 2, None, move(f"p{n % 5}", max(0, at))


def test_results_of_every_window_kind_are_those_of_live_from_the_start(kinds, sessions):
    before, replay_input = published(kinds), ReplayInput(to_offsets=kinds.first_third)
    result = into_live(kinds.config, kinds.plan, replay_input, sessions, 2, delete_results=True)
    by_spark = sum(map(len, published(kinds).values()))

    kinds.start("windowing", "sessions")
    caught_up(kinds)
    kinds.stop()

    after = published(kinds)
    assert after.keys() == before.keys()
    assert [name for name in before if after[name] != before[name]] == []
    assert len(result.outcomes) == 4
    assert 100 < by_spark < sum(map(len, before.values())) - 100


@pytest.mark.long
def test_a_table_follows_a_hand_over(broker, sessions, tmp_path):
    """The rows of before go, and those that Spark has published come."""
    path = tmp_path / "results.db"
    table = Table(path, "pops", "pops")
    with Stack(broker, "followed", 2, TIDEMARK_SINK=f"sqlite:{path}") as stack:
        stack.start(*stack.plan.services(), "sink")
        stack.produce(pops(0, 120))
        caught_up(stack)
        table.await_topic(stack, "at first")
        assert set(stack.stop(*stack.plan.services()).values()) == {0}
        table.run("UPDATE pops SET revision = 1000, pops = -1")  # as if it were of other results
        into_live(stack.config, stack.plan, ReplayInput(), sessions, 2, delete_results=True)
        table.await_topic(stack, "after the hand-over")
        stack.start(*stack.plan.services())
        stack.produce(pops(120, 150))
        caught_up(stack)
        table.await_topic(stack, "of both")
        assert set(stack.stop().values()) == {0}


def moves(begin: int, end: int) -> Iterator[tuple[int, None, bytes]]:
    """Yield records of two partitions, whose times of sending are in another order."""
    for n in range(begin, end):
        for partition in (0, 1):
            at, sent = n * 700 - (n % 7 == 0) * 20_000, n * 700 - (n % 5 == 0) * 30_000
            record = {"player": f"p{n % 3}", "at": at, "sent": sent}
            yield partition, None, json.dumps(record).encode()


def reparsed(broker: str, name: str, time: str) -> Stack:
    return Stack(broker, name, 2, module=program, options={"time": time})


def final(stack: Stack) -> tuple[list[tuple[tuple[str, int], int]], list[tuple[int, int]]]:
    """Return the last pane of each window, and which rows were late."""
    panes = {(p["player"], p["start"]): p["moves"] for p in stack.results("moves")}
    late = [(row["partition"], row["offset"]) for row in stack.results("moves.late")]
    return sorted(panes.items()), sorted(late)


@pytest.mark.long
def test_a_program_that_parses_otherwise_takes_over_from_raw_topics(broker, sessions):
    with reparsed(broker, "reparsed", "at") as old:
        old.start()
        old.produce(moves(0, 200))
        caught_up(old)
        assert set(old.stop().values()) == {0}

    with reparsed(broker, "reparsed", "sent") as new, reparsed(broker, "sent", "sent") as twin:
        replay_input = ReplayInput(from_raw=True)
        into_live(new.config, new.plan, replay_input, sessions, 2, delete_results=True)
        by_spark = len(new.results("moves"))
        new.start()
        new.produce(moves(200, 300))
        twin.start()
        twin.produce(moves(0, 300))
        for each in (new, twin):
            caught_up(each)
            assert set(each.stop().values()) == {0}

        assert 20 < by_spark < len(new.results("moves"))
        assert final(new) == final(twin)
        assert len(final(new)[1]) > 20
        result = diff(new.config, new.plan, sessions, 1, from_raw=True)
        assert result.equal, "\n".join(diff_lines(result))
        assert not diff(new.config, new.plan, sessions, 1).equal


def test_a_hand_over_from_raw_topics_waits_for_ingest(played):
    played.start("ingest")
    played.await_partitions()
    with pytest.raises(ConfigurationError, match=r"group played\.ingest has members"):
        into_live(
            played.config,
            played.plan,
            ReplayInput(from_raw=True),
            _no_spark,
            1,
            delete_results=True,
        )
    played.stop("ingest")


def test_a_log_that_ingest_never_wrote_cannot_be_built_again(played):
    ranges = resolve(played.admin, played.plan)
    nothing = ranges.to(ranges.begins)
    job = HandOver(
        played.config,
        played.admin,
        played.plan,
        nothing,
        raw=Raw.of(played.config, played.admin, played.plan),
    )
    with pytest.raises(ConfigurationError, match="so the cuts of ingest are unknown"):
        job.check()


def test_a_hand_over_is_refused_while_services_run(played):
    played.start("sessions")
    played.await_partitions()
    with pytest.raises(ConfigurationError, match=r"group played\.sessions has members"):
        into_live(played.config, played.plan, ReplayInput(), _no_spark, 1, delete_results=True)
    played.stop()


def test_a_hand_over_is_refused_while_results_exist(played):
    with pytest.raises(ConfigurationError, match="has results: a hand-over would write them"):
        into_live(played.config, played.plan, ReplayInput(), _no_spark, 1)


@pytest.mark.long
def test_a_hand_over_that_failed_is_completed(played, sessions, monkeypatch):
    before, replay_input = published(played), ReplayInput(to_offsets=middle(played))

    def fails(*_: object) -> None:
        raise StateError("the driver was killed")

    with monkeypatch.context() as patched:
        patched.setattr(HandOver, "_commit", fails)
        with pytest.raises(StateError, match="driver was killed"):
            into_live(played.config, played.plan, replay_input, sessions, 2, delete_results=True)
    by_spark = published(played)
    played.start("windowing")
    refused = "a hand-over from Spark is under way"
    wait_until(lambda: refused in played.log("windowing"), "the refusal of windowing")
    assert played.process("windowing").wait() == 2
    played.kill("windowing")
    assert published(played) == by_spark

    outcomes = into_live(played.config, played.plan, replay_input, sessions, 1).outcomes
    assert len(outcomes) == 2 * len({outcome.log for outcome in outcomes})
    assert published(played) == by_spark
    played.start("windowing", "sessions")
    caught_up(played)
    assert set(played.stop().values()) == {0}

    assert published(played) == before
    result = diff(played.config, played.plan, sessions, 1)
    assert result.equal, "\n".join(diff_lines(result))


def _no_spark():
    raise AssertionError("Spark was started")
