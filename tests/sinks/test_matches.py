"""Matches of patterns in sinks: a row for each, found by its ``_id``, with the list of its rows."""

import pytest

from tidemark import Pipeline, bounded, col, collect, count, sequence, step
from tidemark.core.operators.ports import ROWS
from tidemark.local.run import LocalRun
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.sinks.rows import decode
from tidemark.sinks.table import tables_of


@pytest.mark.parametrize("form", ["json", "avro"])
def test_a_match_is_a_row_of_a_table(form):
    pipeline = Pipeline("house")
    rows = pipeline.source(
        "readings",
        schema={"room": str, "at": int, "celsius": float},
        event_time="at",
        watermark=bounded(0),
    )
    rise = sequence(warm=step(col("celsius") > 30), hot=step(col("celsius") > 80)).within("1m")
    found = rows.key_by("room").match(rise)
    found.select(hot="hot.celsius", n=count(), ats=collect("warm.at")).to("rises", format=form)
    run = LocalRun(pipeline.plan())
    values = [b'{"room":"a","at":%d,"celsius":%d}' % (n, 30 + n * 30) for n in range(1, 9)]
    list(run.run({"readings": values}))
    results = run.published["rises"].every(ROWS)
    port = run.published["rises"].plan.results
    table = next(each for each in tables_of(run.plan) if each.topic == port.topic)

    decoded = decode(table, encoder_of(port).encode(results.drop("end_of_input"))[1])

    assert not decoded.bad
    assert table.key == ("_id",)
    assert decoded.rows["_id"].to_list() == results["_id"].to_list()
    assert decoded.rows["hot"].to_list() == [90.0, 150.0, 210.0, 270.0]
    for name in ("n", "ats", "_rows"):
        assert decoded.rows[name].to_list() == results[name].to_list()
