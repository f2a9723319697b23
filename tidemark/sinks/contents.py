"""Which records each topic holds now: of which topic id and generation, and from which offsets on.

A topic that is deleted and created again has another id.  An operator that starts afresh has a new
generation (docs/operations.md, "Generations"): its results before the generation's begin are void.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.client.consumer import EARLIEST, LATEST, Start, offsets
from tidemark.runtime.client.generations import (
    Generation,
    GenerationReader,
    Key,
    newest_generations,
    result_columns,
)
from tidemark.runtime.client.topics import topic_ids
from tidemark.runtime.config import Config
from tidemark.sinks.sink import Position
from tidemark.sinks.table import Table

_log = logging.getLogger("tidemark")

_ASK_EVERY_MS = 1_000


class Contents:
    """The ids and generations of the topics of tables; ``poll`` notices changes."""

    def __init__(
        self, config: Config, admin: AdminClient, plan: Plan, tables: Sequence[Table]
    ) -> None:
        """``plan``: its topic of generations must exist."""
        self._config, self._admin, self._generations = config, admin, plan.generations
        self._operators = {operator.name: operator for operator in plan.operators}
        self._tables = {table.topic: table for table in tables}
        self._topics = TopicCollection(list(self._tables))
        self._reader = GenerationReader(config, admin, plan.generations)
        self._numbers = self._newest_numbers()
        self._asked: dict[str, Future[Any]] = {}
        self._asked_ms = 0

    def begins(self, topics: Collection[str]) -> dict[str, dict[Partition, Position]]:
        """Ask for the first position of the present records, of all partitions, by topic."""
        ids = topic_ids(self._admin, topics)
        newest = self._refreshed()
        partitions = {topic: self._partitions(topic) for topic in topics}
        wanted = [at for each in partitions.values() for at in each]
        low, high = (offsets(self._admin, wanted, which) for which in (EARLIEST, LATEST))
        found: dict[str, dict[Partition, Position]] = {}
        for topic in topics:
            table = self._tables[topic]
            of = {n: each for (name, n), each in newest.items() if name == table.operator}
            number = max((each.number for each in of.values()), default=0)
            found[topic] = {}
            for at in partitions[topic]:
                begin = low[at]
                generation = of.get(at.number)
                if generation is not None:
                    same = generation.topic_ids.get(topic, ids[topic]) == ids[topic]
                    begin = max(begin, generation.begins.get(topic, 0)) if same else begin
                # Behind the end: the topic has lost records since the generation began.
                begin = begin if begin <= high[at] else low[at]
                found[topic][at] = Position(begin, ids[topic], number)
        return found

    def _refreshed(self) -> Mapping[Key, Generation]:
        self._reader.newest |= newest_generations(self._config, self._admin, self._generations)
        self._numbers = self._newest_numbers()
        return self._reader.newest

    def has_begun_anew(self, topic: str, begin: Position) -> bool:
        """Ask whether a topic has a newer generation than that of ``begin``."""
        self._refreshed()
        return self._numbers.get(self._tables[topic].operator, 0) > begin.generation

    def foreign(self, topic: str) -> str:
        """Return how the present results of a topic differ from this pipeline's; empty if not."""
        operator = self._operators.get(self._tables[topic].operator)
        if operator is None:
            return ""
        found = self._reader.of_operator(operator.name).values()
        return next(filter(None, (difference(each, operator) for each in found)), "")

    def _partitions(self, topic: str) -> list[Partition]:
        return [Partition(topic, number) for number in range(self._tables[topic].partitions)]

    def poll(self, known: Iterable[tuple[str, Position]], now_ms: int) -> set[str]:
        """Return the topics that have other records than those of ``known``; asks once a second."""
        if self._reader.poll():
            self._numbers = self._newest_numbers()
        ids = self._ids(now_ms)
        return {
            topic
            for topic, was in known
            if self._numbers.get(self._tables[topic].operator, 0) > was.generation
            or ids.get(topic, was.topic_id) != was.topic_id
        }

    def _ids(self, now_ms: int) -> dict[str, str]:
        """Return the ids of topics if an answer has come, without those that are gone just now."""
        if not self._asked:
            if now_ms - self._asked_ms >= _ASK_EVERY_MS:
                self._asked, self._asked_ms = self._admin.describe_topics(self._topics), now_ms
            return {}
        if not all(future.done() for future in self._asked.values()):
            return {}
        asked, self._asked = self._asked, {}
        return {
            topic: str(future.result().topic_id)
            for topic, future in asked.items()
            if future.exception() is None
        }

    def _newest_numbers(self) -> dict[str, int]:
        """Return the highest number of a generation by operator."""
        numbers: dict[str, int] = {}
        for (operator, _), generation in self._reader.newest.items():
            numbers[operator] = max(numbers.get(operator, 0), generation.number)
        return numbers

    def close(self) -> None:
        """Close the reader of generations."""
        self._reader.close()


def difference(generation: Generation, operator: OperatorPlan) -> str:
    """Return what rows of a generation cannot be read as; other columns may come and go."""
    declared = result_columns(operator)
    key, identity = operator.results.port.key, operator.results.port.identity
    if not generation.columns:
        return ""
    if set(generation.key) != set(key):
        return f"have the key ({', '.join(generation.key)}), not ({', '.join(key)})"
    for name in identity:
        if name not in generation.columns:
            return f"lack column {name}: they are of windows of another kind"
    for name, dtype in generation.columns.items():
        if declared.get(name, dtype) != dtype:
            return f"have column {name} of type {dtype}, not {declared[name]}"
    return ""


def is_older(position: Position, begin: Position) -> bool:
    """Return whether a position is in records that are not those of now."""
    return position.topic_id != begin.topic_id or position.generation < begin.generation


def noted(begin: Position) -> str:
    """Return the metadata of a committed offset: which records the offset is in."""
    return msgspec.json.encode(begin).decode()


def _note(metadata: str | None) -> Position | None:
    """Return what ``noted`` has written; None for an offset of an earlier version."""
    try:
        return msgspec.json.decode(metadata or "", type=Position)
    except msgspec.DecodeError:
        return None


def resumed(start: Start, begin: Position) -> int:
    """Return the offset at which a sink without positions goes on; it never reads void records."""
    was = _note(start.metadata)
    if was is None or not is_older(was, begin):
        return max(start.offset, begin.next_offset)
    again = was.topic_id != begin.topic_id
    offset = begin.next_offset if again else max(start.offset, begin.next_offset)
    _log.warning(
        "%s: %s; the sink goes on at offset %d. It cannot take back what it has delivered: that is "
        "void",
        start.partition,
        "the topic was created again" if again else f"generation {begin.generation} begins",
        offset,
    )
    return offset


def require_same(start: Start, position: Position, begin: Position) -> None:
    """Raise if a sink that cannot load tables again holds records that are not those of now.

    Raises:
        StateError: names the topic and the remedy.
    """
    was = _note(start.metadata)
    if position.topic_id != begin.topic_id:
        what = "was created again"
    elif was is not None and is_older(was, begin):
        what = f"has generation {begin.generation}"
    else:
        return
    raise StateError(
        f"{start.partition}: the topic {what}, and the sink has no method 'reload' to replace its "
        "rows: empty it together with its positions, and start it with another TIDEMARK_SINK_NAME"
    )
