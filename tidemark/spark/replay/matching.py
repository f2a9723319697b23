"""Matches the messages of two sides and finds the windows that differ, for any number of messages.

Messages are grouped by (topic, partition, message key): by operator, key and window.  The count and
checksums of a group show whether both sides have the same values, and the same value last.  Only
the messages of groups that differ are fetched.

Columns of messages:

    topic      string
    partition  int
    side       string; LEFT or RIGHT
    place      long or struct; the order within the side
    sure       boolean; whether the other side must have it
    at         long; the offset to show
    key        binary
    value      binary
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

LEFT, RIGHT = "left", "right"
GROUP = ("topic", "partition", "key")
_MASK = (1 << 40) - 1


@dataclass(frozen=True)
class TopicDiff:
    """The counts of a topic: messages of each side, windows, and windows that differ.

    ``under_way``: messages of the right that the left may lack, because it was committing them.
    """

    topic: str
    left: int
    right: int
    under_way: int
    windows: int
    different: int


@dataclass(frozen=True)
class Message:
    """A message that only one side has; ``offset``: its offset in the topic, or in the log."""

    value: bytes
    offset: int


@dataclass(frozen=True)
class Difference:
    """A window whose messages differ: the messages that only one side has.

    Without such messages, the order of the messages differs.
    """

    topic: str
    partition: int
    key: bytes
    only_left: tuple[Message, ...]
    only_right: tuple[Message, ...]


def windows(messages: DataFrame) -> DataFrame:
    """Return a row per window: counts and checksums of each side, and whether they differ.

    Returns:
        A DataFrame: ``GROUP``; for each of left, all (right) and sure (right): a count (long) of
        that name, NAME_xor (long), NAME_sum (long) and NAME_last (long); different (boolean).
    """
    hashed = messages.select(*GROUP, "side", "sure", "place", f.xxhash64("value").alias("hash"))
    left, right = f.col("side") == LEFT, f.col("side") == RIGHT
    sides = {LEFT: left, "all": right, "sure": right & f.col("sure")}
    sums = [each for name, where in sides.items() for each in _sums(name, where)]
    grouped = hashed.groupBy(*GROUP).agg(*sums)
    same = [_equal(LEFT, name, grouped.columns) for name in ("all", "sure")]
    return grouped.withColumn("different", ~(same[0] | same[1]))


def totals(of: DataFrame) -> dict[str, TopicDiff]:
    """Return the counts of each topic that has messages, from the rows of ``windows``."""
    summed = of.groupBy("topic").agg(
        f.sum(LEFT).alias("left"),
        f.sum("all").alias("right"),
        f.sum(f.col("all") - f.col("sure")).alias("under_way"),
        f.count(f.lit(1)).alias("windows"),
        f.count_if("different").alias("different"),
    )  # fmt: skip
    return {row.topic: TopicDiff(**row.asDict()) for row in summed.collect()}


def first_differences(
    spark: SparkSession, messages: Callable[[], DataFrame], limit: int
) -> list[Difference]:
    """Return the first windows that differ, with their messages; calls ``messages`` twice."""
    differing = windows(messages()).filter("different").orderBy(*GROUP)
    rows = differing.select(*GROUP).limit(limit).collect()
    if not rows:
        return []
    wanted = f.broadcast(spark.createDataFrame(rows))
    found = messages().join(wanted, list(GROUP), "left_semi").orderBy("place").collect()
    each = (_difference(row, found) for row in rows)
    return [difference for difference in each if difference is not None]


def _sums(name: str, where: Column) -> list[Column]:
    """Return the count of one side's values, checksums in any order, and the last value."""
    value = f.when(where, f.col("hash"))
    return [
        f.count(value).alias(name),
        f.bit_xor(value).alias(f"{name}_xor"),
        f.sum(value.bitwiseAND(_MASK)).alias(f"{name}_sum"),
        f.max_by(value, f.when(where, f.col("place"))).alias(f"{name}_last"),
    ]


def _equal(side: str, other: str, columns: Sequence[str]) -> Column:
    parts = [name.removeprefix(side) for name in columns if name.startswith(side)]
    same = (f.col(f"{side}{part}").eqNullSafe(f.col(f"{other}{part}")) for part in parts)
    return reduce(Column.__and__, same)


def _difference(window: Row, messages: Sequence[Row]) -> Difference | None:
    """Compare the messages of a window; None if only messages under way differ."""
    mine = [row for row in messages if all(row[name] == window[name] for name in GROUP)]
    left = [row for row in mine if row.side == LEFT]
    right = [row for row in mine if row.side == RIGHT]
    only_left = _without(left, right)
    only_right = [row for row in _without(right, left) if row.sure]
    late = [row for row in right if not row.sure]
    if late and not only_left and not only_right:
        return None
    return Difference(
        window.topic,
        window.partition,
        bytes(window.key),
        tuple(Message(bytes(row.value), row["at"]) for row in only_left),
        tuple(Message(bytes(row.value), row["at"]) for row in only_right),
    )


def _without(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Return the rows whose values the others lack, or have fewer times."""
    left = Counter(bytes(row.value) for row in others)
    kept = []
    for row in rows:
        if left[bytes(row.value)]:
            left[bytes(row.value)] -= 1
        else:
            kept.append(row)
    return kept
