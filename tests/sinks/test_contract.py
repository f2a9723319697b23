"""The suites of sinks for those that need nothing but a folder."""

import pytest

from tests.sinks.contract import PositionContract, ReloadContract, SinkContract
from tests.sinks.databases.contract import DatabaseContract
from tests.sinks.databases.existing import ExistingContract
from tests.sinks.databases.remaking import RemakeContract


class TestSink(SinkContract):
    pass


@pytest.mark.parametrize("places", ["sqlite", "duckdb", "parquet", "jsonl"], indirect=True)
class TestPositions(PositionContract):
    pass


@pytest.mark.parametrize("places", ["sqlite", "duckdb", "parquet", "jsonl"], indirect=True)
class TestReload(ReloadContract):
    pass


@pytest.mark.parametrize("places", ["sqlite", "duckdb"], indirect=True)
class TestDatabase(DatabaseContract):
    pass


@pytest.mark.parametrize("places", ["sqlite", "duckdb"], indirect=True)
class TestRemake(RemakeContract):
    pass


@pytest.mark.parametrize("places", ["sqlite", "duckdb"], indirect=True)
class TestExisting(ExistingContract):
    pass
