"""Tables of panes that hold only what is new: each pane stays a row of its own."""

import json

import pytest

from tidemark import (
    Pipeline,
    bounded,
    col,
    count,
    count_window,
    delta,
    every,
    on_close,
    session,
    tumbling,
)
from tidemark.local.run import LocalRun
from tidemark.sinks.table import tables_of


@pytest.mark.parametrize(
    "window", [tumbling("10s"), session("5s"), count_window(4), delta("score", 3)]
)
def test_a_table_keeps_every_pane_of_a_window_whose_last_one_is_of_no_rows(window):
    #   rows 0 1 2 3 | 60     early panes show all of the first window before it closes
    pipeline = Pipeline("game")
    moves = pipeline.source(
        "moves",
        schema={"player": str, "at": int, "score": int},
        event_time="at",
        unit="s",
        watermark=bounded("0s"),
        idle_after="5s",
    )
    windows = moves.key_by("player").window(
        window, trigger=on_close(every(rows=2)), accumulation="discarding"
    )
    windows.aggregate(n=count()).to("sums")
    plan = pipeline.plan()
    run = LocalRun(plan)
    records = [{"player": "a", "at": at, "score": at} for at in (0, 1, 2, 3, 60)]
    for _ in run.run({"moves": [json.dumps(record).encode() for record in records]}):
        pass
    panes = run.published["sums"].every("panes")
    (table,) = (each for each in tables_of(plan) if each.topic == "game.sums")
    kept = panes.unique([table.member(name) for name in table.key], keep="last")
    first = kept.filter(col("end") < 60_000)
    assert first["n"].sum() == 4
    assert first["timing"].sort().to_list()[-1] == "on_time"
