"""One stack from clean to gone, each test a chapter of its life.

The results in PostgreSQL are at the end of each what `tidemark try` makes of all events so far.
"""

import os
import sys
import time
from collections.abc import Iterator

import pytest

from tests.e2e.compose import ROOT, SERVICES, Compose, inspect, keyed, run, wait_until
from tests.e2e.game import ROUND, expected, found, round_of

TOPIC = "moves"


@pytest.fixture(scope="module")
def stack(image) -> Iterator[Compose]:
    with Compose(f"tidemark-e2e-{os.getpid()}", image) as made:
        made.up()
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
    wait_until(lambda: found(stack) == wanted, "rows equal to those of `tidemark try`", 60)


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
    producer.communicate(keyed(lines[len(lines) // 2 :]), timeout=120)
    await_results(stack, sent)
    assert all(inspect(stack.containers(name)[0])["RestartCount"] == 1 for name in SERVICES)


def test_a_second_replica_takes_its_share(stack, sent):
    stack.up("--no-recreate", "--scale", "windowing=2")
    replicas = stack.containers("windowing")
    wait_until(lambda: all(map(stack.partitions, replicas)), "partitions for both")
    stack.produce(TOPIC, next_round(sent))
    await_results(stack, sent)


def test_kafka_and_postgresql_may_restart(stack, sent):
    stack("restart", "kafka", "postgres")
    wait_until(stack.is_healthy, "every container to be healthy")
    begun_s = time.monotonic()
    stack.produce(TOPIC, next_round(sent))
    await_results(stack, sent)
    print(f"results {time.monotonic() - begun_s:.0f} s after all were back")  # noqa: T201


def test_down_and_up_again_goes_on_where_it_stopped(stack, sent):
    stack("down")
    assert not stack.containers("kafka")
    stack.up()
    stack.produce(TOPIC, next_round(sent))
    await_results(stack, sent)


def test_a_replay_gives_the_same(stack):
    shown = run(
        *(sys.executable, "-m", "tidemark", "diff", "examples.game", "--master", "local[2]"),
        *("--memory", "1g", "--bootstrap-server", f"localhost:{stack.kafka_port}"),
        cwd=ROOT,
    )
    assert shown.splitlines()[-1].startswith("equal: ")


def test_down_with_volumes_forgets(stack):
    assert len(stack.volumes()) == 2
    stack("down", "--volumes")
    assert stack.volumes() == []
