"""What callbacks of a Kafka client raise, raised by the call that they came from.

An exception that is pending inside the client's code spoils whatever the client calls next, another
callback or a line of its log, whose error then takes the place of the first.  So callbacks raise
nothing: the first error waits until the client's call returns, and later callbacks do nothing.
"""

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, TopicPartition

Result = TypeVar("Result")
Callback = Callable[[Consumer, list[TopicPartition]], None]


class Callbacks:
    """The callbacks of one consumer, and the first error among them."""

    def __init__(self) -> None:
        """Begin without an error."""
        self._error: BaseException | None = None

    def safe(self, callback: Callback) -> Callback:
        """Return a callback that raises nothing; after an error it does nothing."""

        def call(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if self._error is None:
                try:
                    callback(consumer, partitions)
                except BaseException as error:  # noqa: BLE001 - raised by ``during``
                    self._error = error

        return call

    def during(self, call: Callable[[], Result]) -> Result:
        """Make a call that may call back; whatever comes of it, raise what a callback raised."""
        before = self._error
        try:
            return call()
        finally:
            if self._error is not None and self._error is not before:
                raise self._error from None
