"""What callbacks raise while a Kafka client is at work, with a client that goes on regardless."""

import pytest

from tidemark.runtime.client.callbacks import Callbacks


class Client:
    """Calls back one after the other, like the real one, which looks at no error in between."""

    def __init__(self, *callbacks):
        self.callbacks = callbacks
        self.partitions = []

    def consume(self):
        for callback in self.callbacks:
            callback(self, self.partitions)
        return ["message"]

    def fail(self):
        self.consume()
        raise SystemError("returned a result with an exception set")


def refuse(_consumer, _partitions):
    raise ValueError("refused")


def test_the_first_error_is_raised_once_and_later_callbacks_do_nothing():
    callbacks, told = Callbacks(), []
    client = Client(callbacks.safe(refuse), callbacks.safe(lambda *_: told.append("revoked")))
    with pytest.raises(ValueError, match="refused"):
        callbacks.during(client.consume)
    assert callbacks.during(client.consume) == ["message"]
    assert told == []


def test_what_the_client_makes_of_an_error_does_not_take_its_place():
    callbacks = Callbacks()
    with pytest.raises(ValueError, match="refused"):
        callbacks.during(Client(callbacks.safe(refuse)).fail)


def test_an_error_of_the_call_itself_is_its_own():
    callbacks = Callbacks()
    with pytest.raises(SystemError):
        callbacks.during(Client().fail)


def test_without_an_error_every_callback_is_called():
    callbacks, told = Callbacks(), []
    client = Client(callbacks.safe(lambda *_: told.append("given")))
    assert callbacks.during(client.consume) == callbacks.during(client.consume) == ["message"]
    assert told == ["given", "given"]
