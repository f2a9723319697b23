"""Chains of operators on Kafka: the topics hold what one process publishes, whatever happens."""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kafka.pipelines.chains import chained
from tests.kafka.support.chains import (
    await_equal,
    ends_of,
    in_parts,
    in_process,
    moves,
    produced,
)
from tests.kafka.support.stack import Stack, wait_until
from tidemark.errors import ConfigurationError
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset
from tidemark.runtime.service.stats import Stats, decode


def stack_of(broker: str, name: str, options: Mapping[str, Any], **env: Any) -> Stack:
    return Stack(broker, name, module=chained, options=options, **env)


@pytest.mark.parametrize(("partitions", "stages"), [(1, 2), (3, 3)])
def test_chains_publish_what_one_process_does(broker, partitions, stages):
    options = {"partitions": partitions, "stages": stages}
    values = moves()
    with stack_of(broker, f"chains-{partitions}", options) as stack:
        stack.start()
        for part in in_parts(values, 4):
            produced(stack, part)
        await_equal(stack, in_process(options, values))


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_chains_survive_kills_and_restarts(broker, guarantee):
    """Each service is killed in the middle of its work, some time after new rows came."""
    values = moves(seed=2)
    name = f"chains-killed-{guarantee}"
    with stack_of(broker, name, {}, TIDEMARK_GUARANTEE=guarantee) as stack:
        stack.start()
        services = ["windowing", "sessions", "ingest", "windowing", "sessions", "windowing"]
        for number, part in enumerate(in_parts(values, len(services) + 1)):
            produced(stack, part)
            if number < len(services):
                victim = services[number]
                wait_until(lambda: bool(stack.results("counts")), "first results")
                stack.kill(victim)
                stack.start(victim)
        await_equal(stack, in_process({}, values), once=guarantee == "exactly-once")


def test_chains_go_on_when_processes_come_and_go(broker):
    values = moves(seed=3)
    with stack_of(broker, "chains-scaled", {}) as stack:
        stack.start()
        parts = iter(in_parts(values, 5))
        produced(stack, next(parts))
        stack.await_partitions()
        stack.start("windowing", "sessions", slot="1")
        produced(stack, next(parts))
        stack.await_partitions()
        produced(stack, next(parts))
        stack.kill("windowing", slot="0")
        produced(stack, next(parts))
        stack.stop("sessions", slot="0")
        stack.start("windowing", slot="2")
        produced(stack, next(parts))
        await_equal(stack, in_process({}, values))


@pytest.mark.long
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_chains_are_scaled_from_one_to_three_and_back_under_load(broker, partitions):
    """Rows come all the time, and the processes that were there at first are those that go."""
    options = {"partitions": partitions}
    values = moves(seed=9)
    with stack_of(broker, f"chains-rescaled-{partitions}", options) as stack:
        stack.start()
        parts = in_parts(values, 6)
        produced(stack, next(parts))
        for slot in ("1", "2"):
            stack.start("windowing", "sessions", slot=slot)
            produced(stack, next(parts))
        # With one partition, the third process of sessions stands by.
        wait_until(lambda: "was given" in stack.log("windowing", "2"), "partitions of the third")
        for slot in ("0", "1"):
            produced(stack, next(parts))
            statuses = stack.stop("windowing", "sessions", slot=slot)
            assert set(statuses.values()) == {0}
        produced(stack, next(parts))
        await_equal(stack, in_process(options, values))


def test_an_idle_chain_closes_its_windows_and_then_writes_nothing(broker):
    """The last windows close by silence; after that no log and no progress topic grows."""
    options = {"idle_after": "500ms", "delay": "0s"}
    values = moves(seed=4, count=100)[:-14]
    with stack_of(broker, "chains-idle", options) as stack:
        stack.start()
        produced(stack, values)
        wait_until(lambda: stack.results("totals") != [], "the totals, by silence")
        quiet_s, before = time.monotonic(), ends_of(stack)
        deadline_s = quiet_s + 120  # silence is written until it is longer than 85 s
        while time.monotonic() - quiet_s < 5:
            assert time.monotonic() < deadline_s, "logs and progress topics go on growing"
            time.sleep(0.2)
            if (now := ends_of(stack)) != before:
                quiet_s, before = time.monotonic(), now


def test_a_reset_begins_the_whole_chain_again_or_is_refused(broker):
    values = moves(seed=5, count=200)
    with stack_of(broker, "chains-reset", {"partitions": 2}) as stack:
        stack.start()
        produced(stack, values)
        expected = in_process({"partitions": 2}, values)
        await_equal(stack, expected)
        assert set(stack.stop().values()) == {0}
        stage = stack.plan.derived[0].operator
        for scope in ({"only": (stage,)}, {"service": "windowing"}, {"service": "sessions"}):
            with pytest.raises(ConfigurationError, match="reset PIPELINE --delete-results"):
                reset(stack, **scope)
        reset(stack, only=("sums",), delete_results=True)
        assert stack.results("sums") == []
        stack.start()
        await_equal(stack, expected)
        assert set(stack.stop().values()) == {0}
        reset(stack, delete_results=True)
        assert stack.results("totals") == []
        stack.start()
        await_equal(stack, expected)


def reset(stack: Stack, **scope: Any) -> None:
    Reset(stack.config, stack.admin, Scope(stack.plan, **scope)).run()


def test_stats_name_the_operator_that_a_clock_waits_for(broker):
    """Before the last moves come, the clocks of later stages wait for the stage before."""
    with stack_of(broker, "chains-stats", {"partitions": 1}) as stack:
        stack.start()
        produced(stack, moves(seed=6, count=50)[:-14])
        first, second = (each.operator for each in stack.plan.derived)
        holders = {"counts": f"{stack.raw}/0", "sums": f"op:{first}", "totals": f"op:{second}"}
        latest: dict[str, Stats] = {}
        topic = f"{stack.name}.stats"
        wait_until(lambda: topic in partition_counts(stack.admin), f"the topic {topic}")

        def all_known() -> bool:
            for key, value in stack.committed(topic):
                latest[(key or b"").decode()] = decode(value)
            found = {
                operator.operator: clock.held_by
                for stats in latest.values()
                for operator in stats.operators
                for clock in operator.clocks
            }
            lags = [stats.lag for stats in latest.values()]
            return holders.items() <= found.items() and lags == [0, 0, 0]

        wait_until(all_known, f"the holders of the clocks and no lag in {stack.name}")
