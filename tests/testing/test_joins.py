"""Joins of streams that are known to go wrong in public, from the list of trials."""

import json

import polars as pl
import polars.selectors as cs
import pytest

from tests.trials.listed import TRIALS
from tidemark import Pipeline, bounded, col
from tidemark.testing import InProcess, Message


def refuses_13(value):
    if value == 13:
        raise ValueError("13 is unlucky")
    return value


def joined(then=lambda rows: rows, **options):
    """Return a pipeline that joins two streams of one schema, without bounds of disorder.

    ``then``: further operators on the results.
    """
    pipeline = Pipeline("two")
    left, right = (
        pipeline.source(
            side,
            schema={"id": int, "ts": int, "n": int},
            event_time="ts",
            watermark=bounded("0s"),
        ).key_by("id")
        for side in ("left", "right")
    )
    then(left.join(right, **options)).to("joined")
    return pipeline


def test_a_pair_on_which_the_condition_fails_is_no_pair_and_stops_nothing():
    """Probe rows cannot show that a function fails on one value alone."""
    fine = col("n").map_elements(refuses_13, return_dtype=pl.Int64) > 0
    with InProcess(joined(within="5s", how="left", on=fine)) as run:
        run.send("left", *({"id": 1, "ts": n, "n": n} for n in (12, 13, 14)))
        run.send("right", {"id": 1, "ts": 20, "n": 1})
        run.advance("left", 9_000)
        run.advance("right", 9_000)

        run.expect_published(
            "joined", *({"n": n, "n_right": None if n == 13 else 1} for n in (12, 13, 14))
        )


@pytest.mark.parametrize(
    "then",
    [
        lambda rows: rows.select(pl.all().exclude("ts")),
        lambda rows: rows.select(pl.col("^n.*$")),
        lambda rows: rows.filter(pl.any_horizontal(cs.integer() == 7)).select("n"),
        lambda rows: rows.filter(pl.nth(4) == 7).select("n"),
    ],
)
def test_operators_on_results_may_choose_columns_without_their_names(then):
    """All columns are then there, although only some are read by name."""
    with InProcess(joined(then, within="5s")) as run:
        run.send("left", {"id": 1, "ts": 0, "n": 6})
        run.send("right", {"id": 1, "ts": 1, "n": 7})

        run.expect_published("joined", {"n": 6})


def test_a_row_on_which_its_bound_fails_is_a_dead_letter():
    bound = col("n").map_elements(refuses_13, return_dtype=pl.Int64)
    with InProcess(joined(within=("0s", bound), max_within="1s", how="anti")) as run:
        run.send("left", *({"id": 1, "ts": n, "n": n} for n in (12, 13, 14)))
        run.advance("left", 9_000)
        run.advance("right", 9_000)

        run.expect_published("joined", {"n": 12}, {"n": 14})
        (letter,) = run.dead_letters()
        assert letter["offset"] == 1
        assert letter["reason"] == "the upper bound of the join fails: 13 is unlucky"


def test_b57_an_outer_join_gives_each_left_row_once_and_never_null_beside_its_pair():
    trial = TRIALS["B57"]
    pipeline = Pipeline("trial")
    sides = {
        side: pipeline.source(
            side,
            schema={"id": int, "ts": int},
            event_time="ts",
            watermark=bounded(f"{trial['spec']['ooo_ms']}ms"),
        ).key_by("id")
        for side in ("left", "right")
    }
    joined = sides["left"].join(sides["right"], within=("0s", "5s"), how="left")
    joined.to("joined")

    with InProcess(pipeline) as run:
        for step in trial["input"]:
            if step["do"] == "produce":
                run.send(step["topic"], json.loads(step["value"]))
        rows = run.published("joined")

    found = [{"id": row["id"], "right_ts": row["ts_right"]} for row in rows if row["id"] != 99]
    expected = trial["expected"]
    assert len(found) == expected["results_without_99"]
    assert sorted(found, key=str) == sorted(expected["joined"], key=str)


def test_b35_a_table_is_restored_with_the_keys_that_were_deleted():
    """A Kafka Streams table came back with deleted keys, and failed on those it never had."""
    trial, produced_ms, end_ms = TRIALS["B35"], 1_767_225_600_000, 1_767_225_700_000
    pipeline = Pipeline("trial")
    table = pipeline.source(
        "table", schema={"price": int}, event_time=col("_timestamp"), watermark=bounded("0s")
    ).with_columns(k=col("_key"))
    stream = pipeline.source(
        "in", schema={"k": str, "ts": int, "v": int}, event_time="ts", watermark=bounded("0s")
    )
    stream.key_by("k").join(table.key_by("k").table(keep="1d"), how="left").to("joined")
    run = InProcess(pipeline)
    for step in trial["input"]:
        match step:
            case {"do": "produce"}:
                value = step["value"] and step["value"].encode()
                run.send("table", Message(value, key=step["key"], timestamp_ms=produced_ms))
            case {"do": "stop"}:
                run.crash("joins")
            case {"do": "start"}:
                run.restart("joins")
            case str():
                run.send("in", json.loads(step))
    run.send("table", Message(b'{"price":0}', key="end", timestamp_ms=end_ms))
    run.send("in", {"k": "end", "ts": end_ms})

    found = [{"k": row["k"], "price": row["price"]} for row in run.published("joined")]
    assert [each for each in found if each["k"] != "end"] == trial["expected"]["joined"]
    assert run.dead_letters() == []
