"""Services, a driver on Spark and replays, which must make the same of one log."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from pyspark.sql import SparkSession

from tests.kafka.support.stack import Stack, wait_until
from tidemark.commands.replay_view import diff_lines
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.spark.replay.jobs import Sessions, diff
from tidemark.spark.services.driver import MicroBatchDriver, release

Values = TypeVar("Values")


def claimed(stack: Stack) -> MicroBatchDriver:
    """Return a driver, of ingest too, that the pipeline's offsets are given to."""
    driver = MicroBatchDriver(stack.config, stack.admin, stack.plan, with_ingest=True)
    driver.claim()
    return driver


def work_until(
    driver: MicroBatchDriver, spark: SparkSession, happened: Callable[[], bool], what: str
) -> None:
    """Let a driver make micro-batches until something has happened."""

    def there() -> bool:
        driver.batch(spark)
        return happened()

    wait_until(there, what)


def released(driver: MicroBatchDriver, spark: SparkSession, stack: Stack) -> None:
    """Let a driver work until nothing is left, and give the pipeline's offsets back."""
    wait_until(lambda: not driver.batch(spark), "all marks")
    release(stack.config, stack.plan)


def taken_over_by_spark(
    stack: Stack,
    spark: SparkSession,
    parts: Iterator[Values],
    produce: Callable[[Stack, Values], None],
    output: str,
    is_equal: Callable[[], bool],
) -> None:
    """Let services process the first part, and two drivers on Spark the second one.

    The first driver leaves off before it writes the marks of its micro-batch.  ``output``: has
    results of the first part.  ``is_equal``: whether the results of both are there.
    """
    stack.start()
    stack.await_partitions()  # a table is loaded from an empty topic
    produce(stack, next(parts))
    wait_until(lambda: bool(stack.results(output)), "results of services")
    assert set(stack.stop().values()) == {0}
    first = claimed(stack)
    produce(stack, next(parts))
    first._ingest.batch(spark)
    first._segments(spark)
    driver = claimed(stack)
    work_until(driver, spark, is_equal, "the results of Spark")
    released(driver, spark, stack)


def assert_replay_equals(stack: Stack, sessions: Sessions, *, from_raw: bool = True) -> None:
    """Assert that a replay in slices, from raw topics or from logs, gives the results there are."""
    plan = replayed_plan(stack.config, stack.admin, stack.compiled, from_raw=from_raw)
    result = diff(stack.config, plan, sessions, 2, from_raw=from_raw)
    assert result.equal, "\n".join(diff_lines(result))
