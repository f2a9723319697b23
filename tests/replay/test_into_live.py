"""Hand-over: Spark up to a cut, live services from there on, and no result differs."""

import json
from collections import defaultdict

import pytest
from live import RECORDS, Example, caught_up
from stack import Stack, wait_until

from tidemark.embedded.broker import Broker
from tidemark.errors import ConfigurationError, StateError
from tidemark.replayview import diff_lines
from tidemark.spark.cut import result_topics
from tidemark.spark.handover import HandOver
from tidemark.spark.ranges import as_json, resolve
from tidemark.spark.run import Span, diff, into_live

Published = dict[tuple[str, str], list[bytes | None]]


def published(stack: Stack) -> Published:
    """Return all results and late rows by topic and key of the operator, in order."""
    found: Published = defaultdict(list)
    for topic, messages in stack.all_committed(result_topics(stack.plan.operators)).items():
        for key, value in messages:
            found[topic, json.dumps(json.loads(key or b"[]")[0])].append(value)
    return found


def middle(stack: Stack) -> str:
    """Return the offsets in the middle of each log partition."""
    ends = resolve(stack.admin, stack.plan).ends
    return as_json({at: end // 2 for at, end in ends.items()})


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """The game on a broker of its own, since results are deleted here."""
    folder = tmp_path_factory.mktemp("handed-over")
    with Broker(folder) as running, Example(running.address, "game") as stack:
        stack.play(RECORDS)
        yield stack


def test_results_of_every_window_kind_are_those_of_live_from_the_start(kinds, sessions):
    before, span = published(kinds), Span(to_offsets=kinds.first_third)
    done = into_live(kinds.config, kinds.plan, span, sessions, 3, delete_results=True)
    by_spark = sum(map(len, published(kinds).values()))

    kinds.start("windowing", "sessions")
    caught_up(kinds)
    kinds.stop()

    after = published(kinds)
    assert after.keys() == before.keys()
    assert [name for name in before if after[name] != before[name]] == []
    assert len(done.outcomes) == 6
    assert 100 < by_spark < sum(map(len, before.values())) - 100


def test_services_that_run_are_in_the_way(game):
    game.start("sessions")
    game.await_partitions()
    with pytest.raises(ConfigurationError, match=r"group game\.sessions has members"):
        into_live(game.config, game.plan, Span(), _no_spark, 1, delete_results=True)
    game.stop()


def test_results_that_are_there_are_not_written_again(game):
    with pytest.raises(ConfigurationError, match="has results: a hand-over would write them"):
        into_live(game.config, game.plan, Span(), _no_spark, 1)


def test_a_hand_over_that_failed_is_completed(game, sessions, monkeypatch):
    before, span = published(game), Span(to_offsets=middle(game))

    def fails(*_: object) -> None:
        raise StateError("the driver was killed")

    with monkeypatch.context() as patched:
        patched.setattr(HandOver, "_commit", fails)
        with pytest.raises(StateError, match="driver was killed"):
            into_live(game.config, game.plan, span, sessions, 2, delete_results=True)
    by_spark = published(game)
    game.start("windowing")
    refused = "a hand-over from Spark is under way"
    wait_until(lambda: refused in game.log("windowing"), "the refusal of windowing")
    assert game.process("windowing").wait(60) == 2
    game.kill("windowing")
    assert published(game) == by_spark

    done = into_live(game.config, game.plan, span, sessions, 1)
    assert len(done.outcomes) == 2 * len({at.log for at in done.outcomes})
    assert published(game) == by_spark
    game.start("windowing", "sessions")
    caught_up(game)
    assert set(game.stop().values()) == {0}

    assert published(game) == before
    compared = diff(game.config, game.plan, sessions, 1)
    assert compared.equal, "\n".join(diff_lines(compared))


def _no_spark():
    raise AssertionError("Spark was started")
