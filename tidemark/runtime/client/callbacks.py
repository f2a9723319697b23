"""Carries exceptions of Kafka callbacks to the client call that ran the callbacks.

If a callback raises, the exception is pending while the client's C code goes on.  The next callback
or log line then fails too, and its error replaces the first.  So callbacks here raise nothing: the
first error is kept until the client's call returns, and later callbacks do nothing.
"""

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, TopicPartition

Result = TypeVar("Result")
Callback = Callable[[Consumer, list[TopicPartition]], None]


class Callbacks:
    """The callbacks of one consumer, and the first error that one of them raised."""

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
        """Return what ``call`` returns; raise the error of a callback that ran in it, if any."""
        before = self._error
        try:
            return call()
        finally:
            if self._error is not None and self._error is not before:
                raise self._error from None
