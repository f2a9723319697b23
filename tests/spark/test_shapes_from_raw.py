"""Nine shapes of data, made from raw topics on Spark, give what the services gave."""

import pytest

from tests.kafka.support.shapes import read_shapes
from tests.kafka.support.stack import Stack
from tests.spark.support.live import caught_up
from tests.support.registry import running_registry
from tests.support.shapes import pipeline
from tests.support.shapes.records import shapes
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import diff


@pytest.mark.long
def test_results_of_every_shape_made_from_raw_topics_equal_live(broker, sessions):
    with running_registry() as registry:
        expected, url = shapes(registry), registry.url
        with Stack(broker, "shapes-raw", module=pipeline, TIDEMARK_SCHEMA_REGISTRY=url) as stack:
            read_shapes(stack, expected)
            caught_up(stack)
            assert set(stack.stop().values()) == {0}

            config = stack.config.model_copy(update={"schema_registry": registry.url})
            result = diff(config, stack.plan, sessions, 1, from_raw=True)
            assert result.equal, "\n".join(diff_lines(result))
            compared = {topic.topic: topic.left for topic in result.topics}
            for name, shape in expected.items():
                assert compared[f"shapes-raw.{name}"] >= len(shape.panes)
