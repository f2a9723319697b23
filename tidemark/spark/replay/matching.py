"""Messages of two sides, matched: which windows differ, however many there are.

Messages are gathered by (topic, partition, message key), which is operator, key and window; per
such group a count and checksums of the values say whether both sides have the same ones, and
whether the same one came last.  Only of groups that differ are messages fetched.

Columns of messages: topic, partition, key, value; ``side``, LEFT or RIGHT; ``place``, its order
within the side; ``at``, the offset to show; ``sure``, whether it must be there on the other side.
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
    """One topic: messages of the left and of the right side, and windows that differ.

    ``under_way``: those of the right that the left may have or not: it was committing them.
    """

    topic: str
    left: int
    right: int
    under_way: int
    windows: int
    different: int


@dataclass(frozen=True)
class Message:
    """One message that only one side has; ``offset`` is that of the topic, or of the log."""

    value: bytes
    offset: int


@dataclass(frozen=True)
class Difference:
    """A window whose messages differ: what each side has that the other has not.

    Where neither has more, their order differs.
    """

    topic: str
    partition: int
    key: bytes
    only_left: tuple[Message, ...]
    only_right: tuple[Message, ...]


def windows(messages: DataFrame) -> DataFrame:
    """Return a row per window: counts and checksums of each side, and whether they differ."""
    hashed = messages.select(*GROUP, "side", "sure", "place", f.xxhash64("value").alias("hash"))
    left, right = f.col("side") == LEFT, f.col("side") == RIGHT
    sides = {LEFT: left, "all": right, "sure": right & f.col("sure")}
    sums = [each for name, where in sides.items() for each in _sums(name, where)]
    grouped = hashed.groupBy(*GROUP).agg(*sums)
    same = [_equal(LEFT, name, grouped.columns) for name in ("all", "sure")]
    return grouped.withColumn("different", ~(same[0] | same[1]))


def totals(of: DataFrame) -> dict[str, TopicDiff]:
    """Sum windows up by topic; a topic without messages is left out."""
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
    """Return the first windows that differ, with their messages, which are asked for twice."""
    differing = windows(messages()).filter("different").orderBy(*GROUP)
    rows = differing.select(*GROUP).limit(limit).collect()
    if not rows:
        return []
    wanted = f.broadcast(spark.createDataFrame(rows))
    found = messages().join(wanted, list(GROUP), "left_semi").orderBy("place").collect()
    each = (_difference(row, found) for row in rows)
    return [difference for difference in each if difference is not None]


def _sums(name: str, where: Column) -> list[Column]:
    """Return count and checksums of one side's values in any order, and which came last."""
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
    """Compare the messages of one window; None where they agree but for those under way."""
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
    """Return the rows whose values the others have not, or not so often."""
    left = Counter(bytes(row.value) for row in others)
    kept = []
    for row in rows:
        if left[bytes(row.value)]:
            left[bytes(row.value)] -= 1
        else:
            kept.append(row)
    return kept
