"""The toy operator and the pipeline that its results feed, live and replayed on Spark."""

import polars as pl

from tests.kafka.pipelines import toy
from tests.kafka.support.stack import Stack, wait_until
from tests.kafka.support.toys import finals, in_process, records
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import ReplayInput, diff, replay


def test_a_replay_of_the_toy_and_of_what_it_feeds_equals_live(broker, sessions, tmp_path):
    wanted = finals(in_process("toy").published["accounts"].every("balances").to_dicts())
    with (
        Stack(broker, "toy", module=toy) as first,
        Stack(broker, "toy", 0, toy, {"stage": 2}) as second,
    ):
        second.name = "toy-second"
        first.start()
        for side, values in records().items():
            first.produce(((0, None, value) for value in values), f"toy-{side}")
        wait_until(lambda: finals(first.results("balances")) == wanted, "final balances")
        second.start()
        caught_up(first)
        caught_up(second)
        for stack in (first, second):
            assert set(stack.stop().values()) == {0}
        for stack, slices in ((first, 3), (second, None)):
            result = diff(stack.config, stack.plan, sessions, slices)
            assert result.equal, "\n".join(diff_lines(result))
            assert sum(topic.left for topic in result.topics) > 20
        folder = tmp_path / "results"
        replay(first.config, first.plan, ReplayInput(), f"parquet:{folder}", sessions, 2)
    read = pl.read_parquet(folder / "accounts" / "balances" / "*.parquet")
    assert finals(read.to_dicts()) == wanted
    assert {path.name for path in (folder / "accounts").iterdir()} == {
        "balances",
        "late-orders",
        "late-payments",
    }
