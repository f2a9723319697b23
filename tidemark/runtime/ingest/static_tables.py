"""Static tables on Kafka: the owner of a table's raw topic writes the versions of each load.

The topic is all the state.  A new owner fences the one before by the transactional id of the table,
which ends an open load.  It then reads the topic, compares the rows with it, and writes what has
changed in one transaction.  So each change is written once, and readers see whole loads only.

The first load is written before ingest looks for the end up to which it loads the topic
(loading.py).  A later load that fails keeps the table as it is.  See docs/semantics.md, "Static
tables".
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.errors import InfrastructureError, TidemarkError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan, SourcePlan
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.producer import send
from tidemark.runtime.client.range_reader import RangeReader
from tidemark.runtime.client.transaction import STEP_S, persist
from tidemark.runtime.config import Config
from tidemark.statics.rows import read_rows
from tidemark.statics.versions import StaticRows, StaticVersions

_log = logging.getLogger("tidemark")

_READ_S = 1.0

OnWait = Callable[[str], None]


class _Owned:
    """A static table that this process owns."""

    def __init__(
        self, config: Config, admin: AdminClient, source: SourcePlan, on_wait: OnWait
    ) -> None:
        """Fence the last owner, and read the versions that there are."""
        self._source, self._on_wait = source, on_wait
        self._at = Partition(source.name, 0)
        self._producer = clients.transactional_producer(config, source.name)
        self._persist(lambda: self._producer.init_transactions(STEP_S))
        self._versions = StaticVersions(source)
        self._read(config, admin)
        self._reading: Future[StaticRows] | None = None
        self._read_ms = 0
        self.failures = 0

    def _persist(self, call: Callable[[], object]) -> None:
        persist(call, on_wait=self._on_wait)

    def _read(self, config: Config, admin: AdminClient) -> None:
        begin = offsets(admin, [self._at], EARLIEST)[self._at]
        end = offsets(admin, [self._at], LATEST)[self._at]
        reader = RangeReader(config, {self._at: (begin, end)})
        try:
            while reader.left:
                found = reader.read(_READ_S)
                self._versions.add([message.value() or b"" for message in found])
                self._on_wait(f"reading static table {self._source.name}")
        finally:
            reader.close()

    def begin(self, now_ms: int) -> None:
        """Load the table; a table with versions stays as it is if that fails."""
        try:
            rows = read_rows(self._source)
        except (TidemarkError, InfrastructureError) as error:
            if not self._versions.is_loaded:
                raise
            self._failed(error)
        else:
            self._write(rows, now_ms)
        self._read_ms = now_ms

    def poll(self, pool: ThreadPoolExecutor, now_ms: int) -> None:
        """Read the rows again when that is due, and write what has changed once they are read."""
        assert self._source.static is not None
        every_ms = self._source.static.reload_ms
        if self._reading is None:
            if every_ms is not None and now_ms - self._read_ms >= every_ms:
                self._reading, self._read_ms = pool.submit(read_rows, self._source), now_ms
            return
        if not self._reading.done():
            return
        reading, self._reading = self._reading, None
        try:
            rows = reading.result()
        except (TidemarkError, InfrastructureError) as error:
            self._failed(error)
        else:
            self._write(rows, now_ms)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        _log.warning("%s; the table stays as it is", error)

    def _write(self, rows: StaticRows, now_ms: int) -> None:
        versions = self._versions.load(rows, now_ms)
        _log.info(
            "static table %s: %d rows, %d versions written",
            self._source.name,
            len(rows.rows),
            len(versions),
        )
        if versions:
            self._producer.begin_transaction()
            send(self._producer, *self._at, [None] * len(versions), versions)
            self._persist(lambda: self._producer.commit_transaction(STEP_S))


class StaticTables:
    """The static tables that an ingest process owns."""

    def __init__(
        self, config: Config, admin: AdminClient, plan: Plan, on_wait: OnWait = lambda _reason: None
    ) -> None:
        """Own no table yet; ``on_wait``: called while a call takes long."""
        self._config, self._admin, self._on_wait = config, admin, on_wait
        self._sources = {each.name: each for each in plan.sources if each.static is not None}
        self._owned: dict[str, _Owned] = {}
        self._pool = ThreadPoolExecutor(1, "static-tables") if self._sources else None

    def begin(self, partitions: Iterable[Partition], now_ms: int) -> None:
        """Own the tables among raw partitions, and load them.

        Raises:
            ConfigurationError: the rows of a table without versions cannot be read.
            InfrastructureError: its database does not answer.
        """
        for topic in sorted({at.topic for at in partitions} & self._sources.keys()):
            owned = _Owned(self._config, self._admin, self._sources[topic], self._on_wait)
            owned.begin(now_ms)
            self._owned[topic] = owned

    def drop(self, partitions: Collection[Partition]) -> None:
        """Own some tables no longer."""
        for at in partitions:
            self._owned.pop(at.topic, None)

    def poll(self, now_ms: int) -> None:
        """Load tables again when that is due.

        Raises:
            InfrastructureError: another process owns a table now.
        """
        if self._pool is None:
            return
        for topic, owned in list(self._owned.items()):
            try:
                owned.poll(self._pool, now_ms)
            except KafkaException as error:
                raise InfrastructureError(f"static table {topic}: {error.args[0].str()}") from error

    @property
    def failures(self) -> Counter[str]:
        """How many loads of each table have failed since this process owns it, by topic."""
        return Counter({topic: owned.failures for topic, owned in self._owned.items()})
