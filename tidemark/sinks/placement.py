"""Where partitions begin: at the sink's positions, after it has loaded tables that are not of now.

Tables that the sink cannot deliver stop (``StoppedTables``), and their partitions stay where they
are.
"""

import logging
import time
from collections.abc import Mapping, Sequence

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import Start
from tidemark.sinks.contents import Contents, is_older, require_same, resumed
from tidemark.sinks.partition_state import PartitionState
from tidemark.sinks.sink import Position, Reload, Reloads, Sink, TablesStoppedError
from tidemark.sinks.stopped import StoppedTables
from tidemark.sinks.table import Table

_log = logging.getLogger("tidemark")


class Placement:
    """Prepares the tables of a sink, and places its partitions."""

    def __init__(
        self, sink: Sink, tables: Sequence[Table], contents: Contents, stopped: StoppedTables
    ) -> None:
        """``stopped``: gets the tables that stop."""
        self._sink, self._tables = sink, tables
        self._contents, self._stopped = contents, stopped
        self._table = {table.topic: table for table in tables}

    def prepare(self) -> None:
        """Let the sink create or check all tables; those that it cannot deliver stop.

        Raises:
            UnavailableError: the sink is away.
            ConfigurationError: no table is left.
        """
        reasons: dict[str, str] = {}
        for table in self._tables:
            if difference := self._contents.foreign(table.topic):
                reasons[table.name] = (
                    f"the present results of {table.topic} {difference}. 'tidemark reset PIPELINE "
                    f"--operator {table.operator}' replaces them, and the table follows; if they "
                    "are of a newer pipeline, start the sink with that one"
                )
        try:
            self._sink.prepare([each for each in self._tables if each.name not in reasons])
        except TablesStoppedError as error:
            reasons |= error.reasons
        self._stopped.replace(reasons, time.monotonic())
        self._stopped.require_others()

    def states(self, starts: Sequence[Start]) -> dict[Partition, PartitionState]:
        """Return partitions at the sink's positions; loads tables again whose topics have moved on.

        Raises:
            StateError: the sink holds other records than the topic, and cannot load them again.
        """
        begins = self._contents.begins({start.partition.topic for start in starts})
        if any(map(self._contents.foreign, {*begins} - {*self._stopped.topics})):
            self.prepare()  # a generation has begun since
        read = {topic: begins[topic] for topic in {*begins} - {*self._stopped.topics}}
        positions = self._positions(read)
        stopped = self._stopped.topics
        placed = {}
        for start in starts:
            at, begin = start.partition, begins[start.partition.topic][start.partition]
            position = positions.get(at)
            if at.topic in stopped:
                offset = start.offset
            elif position is None:
                offset = resumed(start, begin)
            else:
                offset = position.next_offset
                if not isinstance(self._sink, Reloads):
                    require_same(start, position, begin)
            known = None if position is None else offset
            placed[at] = PartitionState(begin, offset, known)
        return placed

    def _positions(
        self, begins: Mapping[str, Mapping[Partition, Position]]
    ) -> Mapping[Partition, Position]:
        """Return the sink's positions, after it has loaded tables again that are not of now."""
        sink = self._sink
        partitions = [at for each in begins.values() for at in each]
        positions = sink.positions(partitions)
        if not isinstance(sink, Reloads):
            return positions
        reloads = [
            Reload(self._table[topic], begin, empties=any(at in positions for at in begin))
            for topic, begin in begins.items()
            if any(at not in positions or is_older(positions[at], to) for at, to in begin.items())
        ]
        if not reloads:
            return positions
        for each in reloads:
            try:
                sink.reload([each])
            except TablesStoppedError as error:
                self._stopped.add(error.reasons)
                self._stopped.require_others()
                continue
            _log.info(
                "table %s: loads %s from the begin of its results",
                each.table.name,
                each.table.topic,
            )
        return sink.positions(partitions)
