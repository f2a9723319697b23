"""Every format, framed Avro of several writers too, made from raw topics on Spark."""

import pytest

from tests.kafka.support import formats
from tests.kafka.support.encoded import FORMATS, PANES, ROWS, Encoded
from tests.kafka.support.stack import Stack
from tests.spark.support.live import caught_up
from tests.support.registry import running_registry
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import diff


@pytest.mark.long
def test_results_of_every_format_made_from_raw_topics_equal_live(broker, sessions):
    with (
        running_registry() as registry,
        Stack(
            broker, "formats-raw", 1, module=formats, TIDEMARK_SCHEMA_REGISTRY=registry.url
        ) as stack,
    ):
        encoded = Encoded(registry)
        for form in FORMATS:
            values = [encoded.bad(form), *(encoded.good(form, row) for row in ROWS)]
            stack.produce([(0, None, value) for value in values], f"formats-raw-{form}")
        evolved = [(0, None, value) for value, _ in encoded.evolved()]
        stack.produce(
            [*evolved, (0, None, encoded.good("avro", ("z", 90_000, 9.0)))], "formats-raw-avro"
        )
        stack.start()
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        assert len(stack.results("csv")) == len(PANES)

        registry.asked.clear()
        config = stack.config.model_copy(update={"schema_registry": registry.url})
        result = diff(config, stack.plan, sessions, 1, from_raw=True)
        assert result.equal, "\n".join(diff_lines(result))
        assert registry.asked  # by tasks of Spark
