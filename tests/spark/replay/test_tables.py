"""Tables on Spark: drivers and services answer rows together, and a replay equals them."""

import time
from pathlib import Path

import pytest

from tests.kafka.ingest import users
from tests.kafka.pipelines.chains import named, tabled
from tests.kafka.support.joins.market import (
    ENDS,
    answers,
    deleted,
    in_process,
    produced,
    quote,
    quoted,
    trade,
    traded,
)
from tests.kafka.support.stack import Stack, wait_until
from tests.spark.support.live import caught_up
from tests.spark.support.replayed import assert_replay_equals, claimed, released, work_until
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.spark.replay.jobs import ReplayInput, into_live


def passed(stack: Stack, at_ms: int) -> None:
    """Let services answer the trades before a time: a quote after the loading moves the clock."""
    caught_up(stack)
    produced(stack, "quotes", [quote("end", at_ms, 1)])
    wait_until(lambda: bool(answers(stack.results("priced"))), "answers of services")
    caught_up(stack)
    assert set(stack.stop().values()) == {0}


@pytest.mark.long
def test_services_and_spark_answer_by_a_table_and_its_tombstones(broker, sessions, spark):
    """Services load the table and answer a part; a key is deleted while a driver works."""
    quotes, trades = quoted(seed=3), traded(seed=4)
    trade_end, quote_end = ENDS
    with Stack(broker, "tabled-on-spark", module=tabled, options={"arrival": True}) as stack:
        produced(stack, "quotes", quotes)
        stack.start()
        stack.await_partitions()
        produced(stack, "trades", trades)
        passed(stack, 60_000)
        by_services = answers(stack.results("priced"))
        driver = claimed(stack)
        produced(stack, "quotes", [quote("s0", 121_000, 7), quote("s1", 121_000, 8)])
        deleted(stack, b"s0", 125_000)
        asked = [trade("s0", 124_000), trade("s0", 126_000), trade("s1", 126_000)]
        produced(stack, "trades", [*asked, trade_end])
        produced(stack, "quotes", [quote_end])
        late = [("s0", 124_000, 7), ("s0", 126_000, None), ("s1", 126_000, 8)]
        expected = sorted([*in_process(quotes, [*trades, trade_end]), *late])
        work_until(
            driver, spark, lambda: answers(stack.results("priced")) == expected, "Spark's answers"
        )
        assert 0 < len(by_services) < len(trades)
        assert any(price is None for *_, price in expected)
        assert len(stack.results("at-once")) == len(trades) + 4
        released(driver, spark, stack)
        assert_replay_equals(stack, sessions, from_raw=False)


@pytest.mark.long
def test_a_changed_join_with_a_table_takes_over(broker, sessions):
    """The table keeps versions for less time; Spark answers all trades so far, services go on."""
    quotes, trades = quoted(seed=5), traded(seed=6)
    half = len(trades) // 2
    with Stack(broker, "table-taken-over", module=tabled) as old:
        produced(old, "quotes", quotes)
        old.start()
        old.await_partitions()
        produced(old, "trades", trades[:half])
        passed(old, 130_000)
    keep = "2s"
    with Stack(broker, "table-taken-over", 0, tabled, {"keep": keep}) as new:
        plan = replayed_plan(new.config, new.admin, new.compiled, from_raw=False)
        into_live(new.config, plan, ReplayInput(), sessions, 2, delete_results=True)
        by_spark = answers(new.results("priced"))
        new.start()
        trade_end, quote_end = ENDS
        produced(new, "trades", [*trades[half:], trade_end])
        produced(new, "quotes", [quote_end])
        expected = in_process([*quotes, quote_end], [*trades, trade_end], keep)
        assert expected != in_process([*quotes, quote_end], [*trades, trade_end])
        assert 0 < len(by_spark) < half
        assert {*by_spark} < {*expected}
        wait_until(lambda: answers(new.results("priced")) == expected, "all answers")
        caught_up(new)
        assert set(new.stop().values()) == {0}
        assert_replay_equals(new, sessions)


@pytest.mark.long
def test_spark_loads_a_static_table_and_replays_take_its_recorded_versions(
    broker, sessions, spark, tmp_path: Path
):
    """Services load the file, a driver loads it again; no replay reads it."""
    path = tmp_path / "users.csv"
    users.write(path, {1: "Ann", 2: "Bob"})
    options = {"address": str(path), "reload": "1s"}
    with Stack(broker, "named-on-spark", module=named, options=options) as stack:
        stack.start()
        users.click(stack, (1, 1_000), (2, 2_000), (3, 3_000))
        known: list[tuple[int, str | None]] = [(1, "Ann"), (2, "Bob")]
        wait_until(lambda: users.answers(stack) == known, "answers of services")
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        users.write(path, {1: "Anna", 3: "Cy"})
        driver = claimed(stack)
        work_until(driver, spark, lambda: len(users.versions(stack)) == 5, "the load of Spark")
        at_ms = int(time.time() * 1_000) + users.HOUR_MS
        users.click(stack, *((user, at_ms + user) for user in (1, 2, 3)), (0, at_ms + 4))
        known += [(3, None), (1, "Anna"), (2, None), (3, "Cy")]
        work_until(driver, spark, lambda: users.answers(stack) == known, "Spark's answers")
        released(driver, spark, stack)
        path.unlink()
        assert_replay_equals(stack, sessions)
