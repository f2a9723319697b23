"""Queries of Nexmark as services on Kafka, exactly once: every row is the row of SQL."""

import pytest

from bench.nexmark import on_kafka
from bench.nexmark.arrival import all_arrivals
from bench.nexmark.generator import Settings
from bench.nexmark.queries import QUERIES
from bench.nexmark.reference import Reference

pytestmark = pytest.mark.long

PARTITIONS = 3


@pytest.fixture(scope="module")
def events():
    """Events of which some are late, and a partition of each topic that stays empty."""
    return all_arrivals(30_000, Settings(partitions=PARTITIONS, silent=1))


@pytest.fixture(scope="module")
def source(broker, events):
    return on_kafka.Input(broker, events, PARTITIONS)


@pytest.fixture(scope="module")
def reference(events, tmp_path_factory):
    return Reference(events, tmp_path_factory.mktemp("nexmark"))


@pytest.mark.parametrize(
    ("name", "has_late_rows"),
    [("q5", True), ("q6", True), ("q14", False), ("q16", False), ("cep0", True)],
)
def test_every_row_is_the_row_of_sql(name, has_late_rows, source, reference):
    declared_in = "bench.nexmark.queries:QUERIES"
    made = on_kafka.run(name, QUERIES[name], source, reference, declared_in)
    assert made.comparison.rows > 30
    assert made.comparison.is_equal, made.comparison.examples
    assert (made.late > 50) == has_late_rows, made.late
