"""Nexmark in this process: every result row is the row of SQL, with late events and any cuts."""

from itertools import pairwise

import polars as pl
import pytest

from bench.nexmark.arrival import all_arrivals, arrivals, values
from bench.nexmark.generator import KINDS, Settings, events
from bench.nexmark.in_process import run
from bench.nexmark.queries import QUERIES
from bench.nexmark.reference import Reference

EVENTS = 8_000


@pytest.fixture(scope="module")
def arrived():
    return all_arrivals(EVENTS, Settings())


@pytest.fixture(scope="module")
def records(arrived):
    return {kind: values(frame) for kind, frame in arrived.items()}


@pytest.fixture(scope="module")
def reference(arrived, tmp_path_factory):
    return Reference(arrived, tmp_path_factory.mktemp("nexmark"))


def compared(reference, name, results):
    return reference.compare(QUERIES[name].sql, QUERIES[name].results, results)


@pytest.mark.parametrize("name", QUERIES)
def test_every_row_is_the_row_of_sql(name, records, reference):
    made = run(name, QUERIES[name], records, seed=1)
    found = compared(reference, name, made.results)
    assert found.rows > 0
    assert found.is_equal, found.examples


def test_a_wrong_row_is_found(records, reference):
    """The comparison is no formality: it finds one row too few, and one that differs."""
    results = run("q11", QUERIES["q11"], records).results
    one_more = pl.when(pl.int_range(pl.len()) == 0).then(1).otherwise(0)
    assert compared(reference, "q11", results[1:]).missing == 1
    changed = compared(reference, "q11", results.with_columns(pl.col("bids") + one_more))
    assert (changed.missing, changed.unexpected) == (1, 1)


def test_some_events_are_late(records):
    """Without late events the queries would not show that lateness is right."""
    assert run("q11", QUERIES["q11"], records).late > 50


def test_any_slice_of_events_can_be_made_alone():
    settings = Settings(seed=7)
    whole = events(0, 5_000, settings)
    for first, count in ((0, 50), (1_000, 1), (1_234, 777)):
        part = events(first, count, settings)
        for kind in KINDS:
            of_part = pl.col("n").is_between(first, first + count - 1)
            assert part[kind].equals(whole[kind].filter(of_part)), kind


def test_any_slice_of_arrivals_can_be_made_alone():
    settings = Settings(seed=3, partitions=4, silent=1, late_share=0.2, late_by_ms=3_000)
    whole = all_arrivals(5_000, settings)
    bounds = [0, 1, 900, 4_999, 5_000]
    parts = [arrivals(first, until - first, 5_000, settings) for first, until in pairwise(bounds)]
    for kind in KINDS:
        assert pl.concat([part[kind] for part in parts]).equals(whole[kind].drop("pos")), kind
        assert set(whole[kind]["part"]) <= {0, 1, 2}


def test_events_have_the_shares_that_nexmark_has():
    made = events(0, 50_000, Settings())
    assert [made[kind].height for kind in KINDS] == [1_000, 3_000, 46_000]
    bids = made["bids"]
    found = bids.select(
        cheap=pl.col("price") < 10_000,
        named=pl.col("channel").str.starts_with("channel-"),
        hot=(pl.col("auction") - 1_000) % 100 == 0,
        known=pl.col("bidder").is_in(made["persons"]["id"].implode()),
    ).mean()
    assert found.row(0) == pytest.approx((1 / 3, 1 / 2, 0.51, 1.0), abs=0.02)
    assert bids["at"].diff().abs().drop_nulls().is_between(0, 100).all()
