"""A webhook: what a receiver is sent, and what its answers mean."""

from collections.abc import Iterator

import pytest

from tests.sinks.contract import opened
from tests.sinks.feeds import batch, pane
from tests.sinks.places import Place
from tests.sinks.receiver import Receiver
from tidemark.errors import ConfigurationError
from tidemark.sinks.sink import RefusedError, UnavailableError
from tidemark.sinks.webhook import WebhookSink

PANE = pane("ann", 0, 1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    started = Receiver()
    yield started
    started.close()


@pytest.fixture
def sink(receiver) -> Iterator[WebhookSink]:
    made = opened(Place(lambda: WebhookSink(receiver.url), lambda _: []))
    yield made
    made.close()


def test_a_request_holds_records_and_a_key_that_is_the_same_when_it_is_sent_again(receiver, sink):
    receiver.answers = [503]
    again = batch([PANE, pane("bob", 0, 1)], 7, number=2)
    with pytest.raises(UnavailableError, match="503"):
        sink.write([again])
    sink.write([again])
    (request,) = receiver.requests
    assert request.headers["idempotency-key"] == "game.pops/2/7-8"
    assert [(each["key"], each["offset"]) for each in request.records] == [([], 7), ([], 8)]
    assert request.records[0]["value"] == PANE


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_a_receiver_that_is_busy_is_asked_again(receiver, sink, status):
    receiver.answers = [status]
    with pytest.raises(UnavailableError, match=str(status)):
        sink.write([batch([PANE])])


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_refused_is_the_fault_of_its_rows(receiver, sink, status):
    receiver.answers = [status]
    with pytest.raises(RefusedError, match=str(status)):
        sink.write([batch([PANE])])


@pytest.mark.parametrize("status", [301, 401, 403, 404, 405])
def test_an_address_that_is_none_stops_the_service(receiver, sink, status):
    receiver.answers = [status]
    with pytest.raises(ConfigurationError, match=str(status)):
        sink.write([batch([PANE])])


def test_a_receiver_that_is_away_is_asked_again_and_passwords_are_not_shown(receiver):
    sink = WebhookSink(receiver.url.replace("http://", "http://ann:secret@"))
    receiver.close()
    with pytest.raises(UnavailableError, match="webhook http://127") as raised:
        sink.write([batch([PANE])])
    assert "secret" not in str(raised.value)
