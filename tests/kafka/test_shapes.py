"""Eight shapes of data are read by the services, without a workaround."""

from collections import defaultdict
from functools import partial
from typing import Any

from tests.kafka.support.stack import Stack
from tests.support.registry import running_registry
from tests.support.shapes import pipeline
from tests.support.shapes.records import published, shapes, wrong_letters


def test_every_shape_gives_its_panes_and_its_dead_letters(broker):
    with running_registry() as registry:
        expected, url = shapes(registry), registry.url
        with Stack(broker, "shapes", module=pipeline, TIDEMARK_SCHEMA_REGISTRY=url) as stack:
            for name, shape in expected.items():
                stack.produce([(0, None, value) for value in shape.values], f"shapes-{name}")
            stack.start()
            for name, shape in expected.items():
                stack.await_results(name, partial(published, shape.panes))
            letters = defaultdict[str, list[dict[str, Any]]](list)
            for letter in stack.results("dead-letters"):
                letters[letter["topic"]].append(letter)
            assert set(stack.stop().values()) == {0}
            for name, shape in expected.items():
                assert wrong_letters(shape, letters[f"shapes-{name}"]) == [], name
                assert stack.results(f"{name}.late") == [], name
