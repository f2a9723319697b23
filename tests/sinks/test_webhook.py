"""A webhook: what a receiver is sent, and what its answers mean."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from examples.game import game
from tests.sinks.contract import opened
from tests.sinks.feeds import TOPIC_ID, batch, pane
from tests.sinks.places import Place
from tests.sinks.receiver import Receiver
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.service.logs import set_up
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.records import DeadLetter
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import Batch, Move, RefusedError, UnavailableError
from tidemark.sinks.table import tables_of
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


def test_a_request_says_of_which_topic_and_generation_its_records_are(receiver, sink):  # A1
    sink.write([replace(batch([PANE]), generation=5)])
    headers = receiver.requests[0].headers
    assert (headers["tidemark-topic-id"], headers["tidemark-generation"]) == (TOPIC_ID, "5")


def test_a_certificate_that_is_not_trusted_stops_the_service(receiver, sink, monkeypatch):  # B5
    def post(*_: object, **__: object) -> None:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired")

    monkeypatch.setattr(sink._client, "post", post)
    with pytest.raises(ConfigurationError, match="certificate has expired"):
        sink.write([batch([PANE])])


def test_the_log_is_not_told_of_requests_whose_address_has_a_password(receiver, caplog):
    set_up("INFO")
    caplog.set_level("INFO")
    address = receiver.url.replace("//", "//ann:secret@")
    sink = opened(Place(lambda: WebhookSink(address), lambda _: []))
    sink.write([batch([PANE])])
    sink.close()
    assert len(receiver.requests) == 1
    assert caplog.messages == []


def test_requests_are_small_and_what_was_taken_is_not_posted_again(receiver, sink):
    many = batch([pane(f"player{n}", 0, 1) for n in range(1_200)])
    receiver.answers = [204, 503]
    with pytest.raises(UnavailableError):
        sink.write([many])
    receiver.answers = [204, 422]
    with pytest.raises(RefusedError):
        sink.write([many])
    for half in many.halves():
        sink.write([half])
    keys = [request.headers["idempotency-key"] for request in receiver.requests]
    assert keys == [f"game.pops/0/{part}" for part in ("0-499", "500-999", "1000-1199")]


def test_a_dead_letter_has_its_key_in_its_value(receiver):
    table, *_ = tables_of(game.plan())
    letter = DeadLetter("not JSON", "parse", "moves", 0, 7, 0, b"\xffann", b"pop!")
    (key,), (value,) = encode_dead_letters([letter])
    rows = decode(table, [value]).rows
    move = Move(None, 1, TOPIC_ID)
    sink = opened(Place(lambda: WebhookSink(receiver.url), lambda _: []), table)
    sink.write([Batch(table, Partition(table.topic, 0), move, rows, [0], [key], [value])])
    (record,) = receiver.requests[0].records
    assert record["key"] is None
    assert (record["value"]["key"], record["value"]["key_encoding"]) == ("/2Fubg==", "base64")


def test_a_topic_made_anew_is_posted_from_its_start(receiver, sink):
    first = batch([PANE])
    sink.write([first])
    sink.write([replace(first, move=first.move._replace(topic_id="another"))])
    assert len(receiver.requests) == 2


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
def test_a_wrong_address_or_login_stops_the_service(receiver, sink, status):
    receiver.answers = [status]
    with pytest.raises(ConfigurationError, match=str(status)):
        sink.write([batch([PANE])])


def test_a_receiver_that_is_away_is_asked_again_and_passwords_are_not_shown(receiver):
    sink = WebhookSink(receiver.url.replace("http://", "http://ann:secret@"))
    receiver.close()
    with pytest.raises(UnavailableError, match="webhook http://127") as raised:
        sink.write([batch([PANE])])
    assert "secret" not in str(raised.value)
