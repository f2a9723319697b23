"""Rows as they are, replayed on Spark: compared, written to files, and handed over to live."""

import polars as pl

from tests.kafka.rows import asis
from tests.kafka.rows.orders import (
    PARTITIONS,
    await_rows,
    await_table,
    by_partition,
    expected,
    orders,
)
from tests.kafka.support.stack import Stack
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import ReplayInput, diff, diff_folders, into_live, replay

RECORDS = 240


def test_replays_of_rows_equal_live_and_are_handed_over_to_it(broker, sessions, tmp_path):
    path = tmp_path / "rows.db"
    sink = f"sqlite:{path}"
    with Stack(broker, "asis-replayed", PARTITIONS, module=asis, TIDEMARK_SINK=sink) as stack:
        stack.start(*stack.plan.services(), "sink")
        stack.produce(orders(0, RECORDS))
        await_rows(stack, RECORDS, least=2)
        caught_up(stack)
        assert set(stack.stop(*stack.plan.services()).values()) == {0}

        result = diff(stack.config, stack.plan, sessions, 2, from_raw=True)
        assert result.equal, "\n".join(diff_lines(result))
        rows = {topic.topic: topic.left for topic in result.topics}
        assert rows["asis-replayed.large"] == sum(map(len, expected(RECORDS, 2).values()))
        assert rows["asis-replayed.by-user"] > rows["asis-replayed.large"]

        places = [f"parquet:{tmp_path / each}" for each in ("one", "three")]
        for place, slices in zip(places, (1, 3), strict=True):
            replay(stack.config, stack.plan, ReplayInput(), place, sessions, slices)
        assert diff_folders(places[0], places[1], sessions).equal
        read = pl.read_parquet(tmp_path / "three" / "large" / "rows" / "*.parquet")
        assert by_partition(read.sort("_partition", "_offset").to_dicts()) == expected(RECORDS, 2)

        into_live(stack.config, stack.plan, ReplayInput(), sessions, 3, delete_results=True)
        await_rows(stack, RECORDS, least=2)
        await_table(path, RECORDS, least=2)
        stack.start(*stack.plan.services())
        stack.produce(orders(RECORDS, 2 * RECORDS))
        await_rows(stack, 2 * RECORDS, least=2)
        await_table(path, 2 * RECORDS, least=2)
        assert set(stack.stop(*stack.plan.services(), "sink").values()) == {0}

    with Stack(broker, "asis-replayed", 0, asis, {"least": 3}) as changed:
        result = diff(changed.config, changed.plan, sessions, 1, from_raw=True)
        assert not result.equal
        (different,) = [topic for topic in result.topics if topic.different]
        assert different.topic == "asis-replayed.large"
        line = "\n".join(diff_lines(result))
        assert '["asis-replayed-orders",' in line
