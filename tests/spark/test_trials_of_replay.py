"""Public bug trials about replays: live gives what is expected, and a replay the same."""

from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from tests.kafka.support.stack import Stack
from tests.spark.pipelines import trials as pipeline
from tests.spark.pipelines.trials import NAMES, TRIALS
from tests.spark.support.live import caught_up
from tests.trials.differences import differences
from tests.trials.trial import Seen
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import diff


def produce(stack: Stack, trial: str) -> None:
    """Write the records of a trial, with the timestamps of Kafka that it gives them."""
    producer = Producer({"bootstrap.servers": stack.config.bootstrap_servers})
    for step in TRIALS[trial]["input"]:
        topic = f"{stack.name}-{trial}"
        if isinstance(step, str):
            producer.produce(topic, step, partition=0)
        elif step["do"] == "produce":
            producer.produce(topic, step["value"], partition=0, timestamp=step["kafka_time_ms"])
    assert producer.flush(60) == 0


def seen(stack: Stack, trial: str) -> Seen:
    """Return what the services gave for a trial."""
    panes = [{**pane, "key": pane["k"]} for pane in stack.results(trial.lower())]
    late = [{"ts": row["event_time_ms"]} for row in stack.results(f"{trial.lower()}.late")]
    dead = [row for row in stack.results("dead-letters") if row["topic"].endswith(trial)]
    rejected = [SimpleNamespace(reason=row["reason"]) for row in dead]
    wanted = [pane for pane in panes if not pane["key"].startswith("_")]
    return Seen(panes=wanted, late=late, rejected=rejected)


@pytest.fixture(scope="module")
def trials(broker):
    with Stack(broker, "trials", module=pipeline) as stack:
        for trial in NAMES:
            produce(stack, trial)
        stack.start()
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        yield stack


def test_the_trials_of_replays_are_here():
    assert set(NAMES) >= {"B09", "B20", "B40", "B44"}


@pytest.mark.parametrize("trial", NAMES)
def test_live_gives_what_a_trial_expects(trials, trial):
    expected = {k: v for k, v in TRIALS[trial]["expected"].items() if k != "open_at_end"}
    wrong = list(differences(expected, seen(trials, trial), TRIALS[trial]["spec"]))
    assert not wrong, "\n".join(wrong)


def test_a_replay_of_the_trials_from_their_raw_topics_equals_live(trials, sessions):
    result = diff(trials.config, trials.plan, sessions, 1, from_raw=True)
    assert result.equal, "\n".join(diff_lines(result))
    assert {t.topic.rpartition(".")[2] for t in result.topics if t.left} > {
        trial.lower() for trial in NAMES
    }
