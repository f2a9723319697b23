"""Joins of streams that are known to go wrong in public, from the list of trials."""

import json

from tests.trials.listed import TRIALS
from tidemark import Pipeline, bounded
from tidemark.testing import InProcess


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
