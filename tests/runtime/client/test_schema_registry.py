"""Results in Confluent's wire format, by a fake registry and the client that people read with."""

import json

import polars as pl
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import SecretStr

from tests.support.registry import running_registry
from tidemark.embedded.broker import free_port
from tidemark.errors import ConfigurationError, InfrastructureError, StateError
from tidemark.runtime.client.schema_registry import with_registry
from tidemark.runtime.config import Config
from tidemark.serde.avro_results import AvroResults

KEY = {"player": pl.String()}
TOPIC = "game.pops"


@pytest.fixture
def registry():
    with running_registry() as running:
        yield running


def results() -> AvroResults:
    return AvroResults(TOPIC, KEY, {"pops": pl.Int64()}, KEY)


def panes() -> pl.DataFrame:
    row = {"player": "a", "start": 0, "end": 10, "revision": 2, "timing": "on_time"}
    return pl.DataFrame([{**row, "final": True, "retracted": False, "pops": 2}])


def config(url: str) -> Config:
    return Config(schema_registry=url)


def test_a_record_begins_with_its_schemas_number_and_confluents_client_reads_it(registry):
    encoder = results()
    with_registry(config(registry.url), {TOPIC: encoder.pane_type})
    _, (value,) = encoder.panes(panes())

    assert value[:5] == b"\x00\x00\x00\x00\x07"
    assert registry.subjects == ["game.pops-value"]
    assert json.loads(registry.schemas[0]) == encoder.pane_type.schema
    read = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    record = read(value, SerializationContext(TOPIC, MessageField.VALUE))
    assert (record["player"], record["pops"], record["final"]) == ("a", 2, True)


def test_a_reader_with_a_registry_still_reads_what_was_written_without_one(registry):
    before = results()
    _, (single,) = before.panes(panes())
    after = results()
    with_registry(config(registry.url), {TOPIC: after.pane_type})
    _, (numbered,) = after.panes(panes())

    assert single[:2] == b"\xc3\x01"
    assert after.pane_type.decode(single) == after.pane_type.decode(numbered)
    with pytest.raises(StateError, match="are no game_pops of this version"):
        before.pane_type.decode(numbered)


def test_without_a_registry_nothing_changes():
    encoder = results()
    with_registry(Config(), {TOPIC: encoder.pane_type})
    assert encoder.pane_type.header[:2] == b"\xc3\x01"


def test_who_we_are_is_told_to_the_registry_alone(registry):
    given = Config(schema_registry=registry.url, schema_registry_user=SecretStr("me:secret"))
    with_registry(given, {TOPIC: results().pane_type})
    assert registry.users == {"Basic bWU6c2VjcmV0"}
    assert "secret" not in repr(given)


def test_a_schema_that_the_registry_refuses_stops_the_service_with_its_words(registry):
    registry.refuses = 409, "Schema being registered is incompatible with an earlier schema"
    with pytest.raises(ConfigurationError, match=r"game\.pops-value: Schema being registered is"):
        with_registry(config(registry.url), {TOPIC: results().pane_type})


def test_a_registry_that_is_away_ends_the_process_which_starts_again():
    away = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(InfrastructureError, match=f"schema registry {away}"):
        with_registry(config(away), {TOPIC: results().pane_type})
