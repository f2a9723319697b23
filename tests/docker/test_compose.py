"""One stack from clean to gone, each test a chapter of its life.

The results in PostgreSQL are at the end of each what `tidemark try` makes of all events so far.
"""

import os
import time
from collections.abc import Iterator

import pytest

from tests.docker.support.compose import SERVICES, Compose, inspect, keyed, run
from tests.docker.support.game import ROUND, expected, found, round_of
from tests.kafka.support.stack import wait_until
from tests.patience import PATIENCE_S

TOPIC = "moves"


@pytest.fixture(scope="module")
def stack(image, replay_image) -> Iterator[Compose]:
    with Compose(f"tidemark-e2e-{os.getpid()}", image, replay_image) as made:
        yield made


@pytest.fixture(scope="module")
def sent() -> list[bytes]:
    """All events so far."""
    return []


def next_round(sent: list[bytes]) -> list[bytes]:
    lines = list(round_of(len(sent) // ROUND))
    sent += lines
    return lines


def await_results(stack: Compose, sent: list[bytes]) -> None:
    wanted = expected(sent)
    wait_until(lambda: sum(found(stack).values()) >= sum(wanted.values()), "all rows")
    wait_until(lambda: found(stack) == wanted, "rows equal to those of `tidemark try`")


def test_b53_services_that_start_first_wait_for_kafka_and_for_the_database(stack):
    """When Kafka or the database starts, what waits for it goes on by itself; all begins empty."""
    for first in (SERVICES, ("topics",)):  # together they would wait for each other
        stack("up", "--detach", "--no-deps", *first)
    # The pipeline has no joins and no patterns, and a service without operators needs no broker.
    waiting = ("topics", *(name for name in SERVICES if name not in ("joins", "patterns")))
    wait_until(
        lambda: all(_says(stack, name, "waiting for a broker") for name in waiting),
        "a log line about Kafka",
    )
    stack("up", "--detach", "--no-deps", "kafka")
    wait_until(
        lambda: _says(stack, "sink", "trying again until it is back"), "a log line about PostgreSQL"
    )
    keyed_services = ("windowing", "sessions", "joins", "patterns")
    wait_until(lambda: stack.is_healthy("kafka", "ingest", *keyed_services), "their health")
    stack("up", "--detach", "--no-deps", "postgres")
    wait_until(stack.is_healthy, "every container to be healthy")


def _says(stack: Compose, service: str, words: str) -> bool:
    return words in stack.log(service)


def test_up_from_clean_shows_its_ports_on_this_machine_alone(stack):
    for service in ("kafka", "postgres", *SERVICES):
        (container,) = stack.containers(service)
        shown = inspect(container)
        published = [each for each in shown["NetworkSettings"]["Ports"].values() if each]
        assert {place["HostIp"] for places in published for place in places} <= {"127.0.0.1"}
        assert shown["HostConfig"]["Memory"] > 0
        if service in SERVICES:
            assert not published
            assert run("docker", "exec", container, "id", "-u").strip() != "0"


def test_what_is_typed_comes_to_postgresql(stack, sent):
    stack.produce(TOPIC, next_round(sent))
    await_results(stack, sent)


def test_services_that_crash_are_started_again_and_count_nothing_twice(stack, sent):
    lines = next_round(sent)
    producer = stack.producer(TOPIC)
    producer.stdin.write(keyed(lines[: len(lines) // 2]))
    producer.stdin.flush()
    for service in SERVICES:
        stack.crash(service)
    producer.communicate(keyed(lines[len(lines) // 2 :]), timeout=PATIENCE_S)
    await_results(stack, sent)
    assert all(inspect(stack.containers(name)[0])["RestartCount"] == 1 for name in SERVICES)


def test_more_replicas_take_their_share(stack, sent):
    stack.up("--no-recreate", "--scale", "windowing=3")
    replicas = stack.containers("windowing")
    assert len(replicas) == 3
    wait_until(lambda: all(map(stack.partitions, replicas)), "partitions for each")
    stack.produce(TOPIC, next_round(sent))
    await_results(stack, sent)


def test_restarts_of_kafka_and_postgresql_heal(stack, sent):
    stack("restart", "kafka", "postgres")
    wait_until(lambda: stack.is_healthy("kafka", "postgres"), "both again")
    stack.produce(TOPIC, next_round(sent))
    await_results(stack, sent)
    wait_until(stack.is_healthy, "every container to be healthy")


def test_spark_takes_the_work_over_and_loses_nothing_when_its_driver_is_killed(stack, sent):
    """The restart policy brings the driver back; told to stop, it gives the work to services."""
    stack("stop", "windowing", "sessions", "joins", "patterns")
    stack("--profile", "spark", "up", "--detach", "spark")
    stack.produce(TOPIC, next_round(sent))
    await_results(stack, sent)

    lines = next_round(sent)
    producer = stack.producer(TOPIC)
    for line in lines[: len(lines) // 2]:
        producer.stdin.write(keyed([line]))
        producer.stdin.flush()
        time.sleep(0.015)  # so that batches begin and end meanwhile, and no source falls silent
    stack.crash("spark")
    producer.communicate(keyed(lines[len(lines) // 2 :]), timeout=PATIENCE_S)
    await_results(stack, sent)
    assert inspect(stack.containers("spark")[0])["RestartCount"] == 1

    stack("stop", "spark")
    assert _says(stack, "spark", "was given back to its services")


def test_down_and_up_again_goes_on_where_it_stopped(stack, sent):
    stack("down")
    assert not stack.containers("kafka")
    stack.up()
    stack.produce(TOPIC, next_round(sent))
    await_results(stack, sent)


def test_a_replay_in_a_container_gives_the_same(stack):
    shown = stack("run", "--rm", "-T", "replay")
    assert shown.splitlines()[-1].startswith("equal: ")


def test_down_with_volumes_forgets(stack):
    kept = {each.rpartition("_")[2] for each in stack.volumes()}
    assert kept == {"kafka", "postgres", "grafana", "prometheus"}
    stack("down", "--volumes")
    assert stack.volumes() == []
