"""Live results against a replay: message by message, in Spark, whatever their number.

Both sides are messages of the same topics, as the same encoder writes them, so equal results are
equal bytes.  Messages are gathered by (topic, partition, message key), which is operator, key and
window; per such group a count and checksums of the values say whether both sides have the same
ones, and whether the same one came last.  Only of groups that differ are messages fetched.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from tidemark.plan import Plan
from tidemark.runtime.config import Config
from tidemark.spark.cut import Cut, result_topics
from tidemark.spark.messages import Messages
from tidemark.spark.ranges import Ranges
from tidemark.spark.replay import Replay, one_line_errors
from tidemark.spark.source import kafka_records

_GROUP = ("topic", "partition", "key")
_SHOWN = 20
_MASK = (1 << 40) - 1


@dataclass(frozen=True)
class TopicDiff:
    """One topic: messages that live has, that a replay gives, and windows that differ.

    ``under_way``: those of the replay that live may have or not: it was committing them.
    """

    topic: str
    live: int
    replayed: int
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
    only_live: tuple[Message, ...]
    only_replay: tuple[Message, ...]


@dataclass(frozen=True)
class Comparison:
    """A replay to where live stood; the services' operators alone."""

    plan: Plan
    cut: Cut
    ranges: Ranges
    slices: int = 1

    def topics(self, spark: SparkSession, config: Config) -> list[TopicDiff]:
        """Compare everything; return a line for each topic, those without messages too."""
        totals = self._windows(spark, config).groupBy("topic").agg(
            f.sum("live").alias("live"),
            f.sum("all").alias("replayed"),
            f.sum(f.col("all") - f.col("sure")).alias("under_way"),
            f.count(f.lit(1)).alias("windows"),
            f.count_if("different").alias("different"),
        )  # fmt: skip
        with one_line_errors():
            found = {row.topic: TopicDiff(**row.asDict()) for row in totals.collect()}
        names = result_topics(self.plan.operators)
        return [found.get(name, TopicDiff(name, 0, 0, 0, 0, 0)) for name in names]

    def differences(
        self, spark: SparkSession, config: Config, topics: Iterable[str], limit: int = _SHOWN
    ) -> list[Difference]:
        """Return the first windows of these topics that differ, with their messages."""
        differing = frozenset(topics)
        kept = [each for each in self.plan.operators if differing & {each.results, each.late}]
        part = replace(self, plan=replace(self.plan, operators=tuple(kept)))
        with one_line_errors():
            windows = part._windows(spark, config).filter("different").orderBy(*_GROUP)
            rows = windows.select(*_GROUP).limit(limit).collect()
            if not rows:
                return []
            wanted = f.broadcast(spark.createDataFrame(rows))
            messages = part._messages(spark, config).join(wanted, list(_GROUP), "left_semi")
            found = messages.orderBy("place").collect()
        each = (_difference(row, found) for row in rows)
        return [difference for difference in each if difference is not None]

    def _windows(self, spark: SparkSession, config: Config) -> DataFrame:
        """Return a row per window: counts and checksums of each side, and whether they differ."""
        value = f.xxhash64("value")
        hashed = self._messages(spark, config).select(
            *_GROUP, "side", "sure", "place", value.alias("hash")
        )
        live, all_ = f.col("side") == "live", f.col("side") == "replay"
        sides = {"live": live, "all": all_, "sure": all_ & f.col("sure")}
        sums = [each for name, where in sides.items() for each in _sums(name, where)]
        grouped = hashed.groupBy(*_GROUP).agg(*sums)
        same = [_equal("live", name, grouped.columns) for name in ("all", "sure")]
        return grouped.withColumn("different", ~(same[0] | same[1]))

    def _messages(self, spark: SparkSession, config: Config) -> DataFrame:
        """Return the messages of both sides: ``side``, ``place`` in its order, ``sure``."""
        services = dict.fromkeys(each.service for each in self.plan.operators)
        replays = [self._replay(spark, config, name) for name in services]
        live = kafka_records(spark, config, self._results()).select(
            "topic", "partition", f.lit("live").alias("side"), f.col("offset").alias("place"),
            f.lit(True).alias("sure"), f.lit(-1).cast("long").alias("log_offset"), "key", "value",
        )  # fmt: skip
        return reduce(DataFrame.unionByName, replays, live)

    def _results(self) -> Ranges:
        wanted = set(result_topics(self.plan.operators))
        begins, ends = self.cut.results.begins, self.cut.results.ends
        kept = [at for at in ends if at.topic in wanted]
        return Ranges({at: begins[at] for at in kept}, {at: ends[at] for at in kept})

    def _replay(self, spark: SparkSession, config: Config, service: str) -> DataFrame:
        """Replay the operators of a service to the offsets that it has committed."""
        operators = self.plan.of_service(service)
        logs = {each.log for each in operators}
        after = self.cut.after[service]
        read = [at for at in self.ranges.partitions if at.topic in logs]
        ranges = Ranges(
            {at: self.ranges.begins[at] for at in read},
            {at: max(after[at], self.ranges.begins[at]) for at in read},
        )
        job = Replay(replace(self.plan, operators=operators), ranges, self.slices)
        messages = job.results(spark, config, Messages(self.cut.before[service]))
        return messages.withColumn("side", f.lit("replay"))


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
    mine = [row for row in messages if all(row[name] == window[name] for name in _GROUP)]
    live = [row for row in mine if row.side == "live"]
    replayed = [row for row in mine if row.side == "replay"]
    only_live = _without(live, replayed)
    only_replay = [row for row in _without(replayed, live) if row.sure]
    late = [row for row in replayed if not row.sure]
    if late and not only_live and not only_replay:
        return None
    return Difference(
        window.topic,
        window.partition,
        bytes(window.key),
        tuple(Message(bytes(row.value), row.place) for row in only_live),
        tuple(Message(bytes(row.value), row.log_offset) for row in only_replay),
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
