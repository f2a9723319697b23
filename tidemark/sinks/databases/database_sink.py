"""The base of SQL sinks: preparing, writing and reloading tables in transactions.

A sink adds its transaction, the classes of its client's errors, and the statements of ``Database``.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks.databases import database, sql
from tidemark.sinks.databases.conversion import Conversion
from tidemark.sinks.databases.database import Database
from tidemark.sinks.databases.prepare import prepare
from tidemark.sinks.sink import Batch, Position, RefusedError, Reload
from tidemark.sinks.table import Table


class DatabaseSink(Database, ABC):
    """A sink that keeps tables and positions in one database."""

    every_ms = 0

    def __init__(self) -> None:
        """Start without conversions, which ``prepare`` finds."""
        self.putting: Batch | None = None
        self.conversions: dict[str, Mapping[str, Conversion]] = {}

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Return a transaction; an exception rolls it back."""

    @abstractmethod
    def classified(self, error: Exception) -> Exception:
        """Return the error of a sink for an ``error`` of the client."""

    @abstractmethod
    def refused_rows(self, batch: Batch) -> dict[Partition, dict[int, str]]:
        """Return index and reason of the rows that are refused; none if it cannot tell."""

    def keep_others_out(self) -> None:
        """Let no other process prepare or reload until the transaction ends, if it could."""

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create tables, add new columns; raise TablesStoppedError for tables that do not fit."""
        prepare(self, tables)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Return a transaction in which no other process prepares or reloads.

        Raises:
            UnavailableError, ConfigurationError: for errors of the client.
        """
        try:
            with self.transaction():
                self.keep_others_out()
                yield
        except self.error as error:
            known = self.classified(error)
            if isinstance(known, RefusedError):
                known = ConfigurationError(str(known))
            raise known from error

    def positions(self, partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return the positions of partitions, without those that have none."""
        try:
            return database.positions(self, partitions)
        except self.error as error:
            raise self.classified(error) from error

    def reload(self, reloads: Sequence[Reload]) -> None:
        """Empty tables and set their positions, each table in one transaction."""
        database.reload(self, reloads)

    def empty(self, table: Table) -> None:
        """Delete all rows of a table."""
        self.run(f"DELETE FROM {sql.qualified(table)}")

    def write(self, batches: Sequence[Batch]) -> None:
        """Write all batches in one transaction.

        Raises:
            OvertakenError: a partition's position is not the begin of its batch.
            RefusedError: the database cannot hold some row.
            TablesStoppedError: a person must act for the sake of a table.
            UnavailableError, ConfigurationError: for other errors of the client.
        """
        database.require_fit(self, batches)
        self.putting = None
        try:
            with self.transaction():
                database.write(self, batches)
        except self.error as error:
            known = self.classified(error)
            if isinstance(known, RefusedError) and self.putting is not None:
                known = RefusedError(str(known), self.refused_rows(self.putting))
            raise database.failed(self, known) from error
