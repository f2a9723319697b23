"""Nine shapes of data are read by the services, without a workaround."""

from tests.kafka.support.shapes import read_shapes
from tests.kafka.support.stack import Stack
from tests.support.registry import running_registry
from tests.support.shapes import pipeline
from tests.support.shapes.outcomes import wrong_letters
from tests.support.shapes.records import shapes


def test_every_shape_gives_its_panes_and_its_dead_letters(broker):
    with running_registry() as registry:
        expected, url = shapes(registry), registry.url
        with Stack(broker, "shapes", module=pipeline, TIDEMARK_SCHEMA_REGISTRY=url) as stack:
            read_shapes(stack, expected)
            letters = stack.results("dead-letters")
            assert set(stack.stop().values()) == {0}
            for name, shape in expected.items():
                assert wrong_letters(shape, letters, f"shapes-{name}") == [], name
                assert stack.results(f"{name}.late") == [], name
