"""The services read every shape of data on a broker."""

from collections.abc import Mapping
from functools import partial

from tests.kafka.support.stack import Stack
from tests.support.shapes.outcomes import published
from tests.support.shapes.records import Shape


def read_shapes(stack: Stack, expected: Mapping[str, Shape]) -> None:
    """Produce the records of all shapes, start the services, and wait for the panes."""
    for name, shape in expected.items():
        stack.produce([(0, None, value) for value in shape.values], f"{stack.name}-{name}")
    stack.start()
    for name, shape in expected.items():
        stack.await_results(name, partial(published, shape.panes))
