"""Schemas of results and of raw records, by a fake registry and the client that people use."""

import json

import polars as pl
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import SecretStr

from tests.support.registry import running_registry
from tidemark import RECORD_TIME, Pipeline, count, monotonic, tumbling
from tidemark.core.operators.ports import pane_port
from tidemark.embedded.broker import free_port
from tidemark.errors import ConfigurationError, InfrastructureError, StateError
from tidemark.runtime.client import schema_registry
from tidemark.runtime.client.schema_registry import RegistrySchemas, with_registry, writer_schemas
from tidemark.runtime.config import Config
from tidemark.serde.avro_results import AvroEncoder

KEY = {"player": pl.String()}
TOPIC = "game.pops"


@pytest.fixture
def registry():
    with running_registry() as running:
        yield running


def results() -> AvroEncoder:
    return AvroEncoder(TOPIC, pane_port(tuple(KEY), KEY, {"pops": pl.Int64()}))


def panes() -> pl.DataFrame:
    row = {"player": "a", "start": 0, "end": 10, "revision": 2, "timing": "on_time"}
    return pl.DataFrame([{**row, "final": True, "retracted": False, "pops": 2}])


def config(url: str) -> Config:
    return Config(schema_registry=url)


def test_a_record_begins_with_its_schemas_number_and_confluents_client_reads_it(registry):
    encoder = results()
    with_registry(config(registry.url), {TOPIC: encoder.avro})
    _, (value,) = encoder.encode(panes())

    assert value[:5] == b"\x00\x00\x00\x00\x07"
    assert registry.subjects == ["game.pops-value"]
    assert json.loads(registry.schemas[0]) == encoder.avro.schema
    read = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    record = read(value, SerializationContext(TOPIC, MessageField.VALUE))
    assert (record["player"], record["pops"], record["final"]) == ("a", 2, True)


def test_a_reader_with_a_registry_still_reads_what_was_written_without_one(registry):
    before = results()
    _, (single,) = before.encode(panes())
    after = results()
    with_registry(config(registry.url), {TOPIC: after.avro})
    _, (numbered,) = after.encode(panes())

    assert single[:2] == b"\xc3\x01"
    assert after.avro.decode(single) == after.avro.decode(numbered)
    with pytest.raises(StateError, match="are no game_pops of this version"):
        before.avro.decode(numbered)


def test_without_a_registry_nothing_changes():
    encoder = results()
    with_registry(Config(), {TOPIC: encoder.avro})
    assert encoder.avro.header[:2] == b"\xc3\x01"


def test_who_we_are_is_told_to_the_registry_alone(registry):
    given = Config(schema_registry=registry.url, schema_registry_user=SecretStr("me:secret"))
    with_registry(given, {TOPIC: results().avro})
    assert registry.users == {"Basic bWU6c2VjcmV0"}
    assert "secret" not in repr(given)


def test_a_schema_that_the_registry_refuses_stops_the_service_with_its_words(registry):
    registry.refuses = 409, "Schema being registered is incompatible with an earlier schema"
    with pytest.raises(ConfigurationError, match=r"game\.pops-value: Schema being registered is"):
        with_registry(config(registry.url), {TOPIC: results().avro})


def test_a_registry_that_is_away_ends_the_process_which_starts_again():
    away = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(InfrastructureError, match=f"schema registry {away}"):
        with_registry(config(away), {TOPIC: results().avro})


POINT = {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "double"}]}
LINE = {"type": "record", "name": "geo.Line", "fields": [{"name": "a", "type": "geo.Point"}]}


def of_records(form="avro"):
    pipeline = Pipeline("p")
    source = pipeline.source(
        "t", schema={"id": str}, format=form, event_time=RECORD_TIME, watermark=monotonic()
    )
    source.key_by("id").window(tumbling("1s")).aggregate(n=count()).to("o")
    return pipeline.plan()


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(schema_registry, "_PAUSE_S", 0.01)


def reader(registry, on_wait=lambda _reason: None):
    found = writer_schemas(config(registry.url), of_records(), on_wait)
    assert found is not None
    return found


def test_the_schema_of_a_record_is_fetched_once_by_its_id(registry):
    number = registry.add(POINT)
    schemas = reader(registry)
    assert [json.loads(text) for text in schemas.texts(number)] == [POINT]
    assert [json.loads(text) for text in schemas.texts(number)] == [POINT]
    assert registry.asked == [number]


def test_schemas_that_a_schema_refers_to_come_first(registry):
    point = registry.add(POINT)
    line = registry.add(LINE, point)
    both = registry.add({"type": "record", "name": "Both", "fields": []}, line, point)
    texts = [json.loads(text)["name"] for text in reader(registry).texts(both)]
    assert texts == ["geo.Point", "geo.Line", "Both"]


def test_an_unknown_id_is_asked_for_again_later(registry, monkeypatch):
    schemas = reader(registry)
    assert schemas.texts(7) is None
    assert schemas.texts(7) is None
    assert registry.asked == [7]
    number = registry.add(POINT)
    monkeypatch.setattr(schema_registry, "_UNKNOWN_S", 0.0)
    assert schemas.texts(number) is not None


def test_a_registry_that_does_not_answer_is_waited_for(registry, fast):
    number = registry.add(POINT)
    registry.fails = [503, 500, 429]
    reasons: list[str] = []
    assert reader(registry, reasons.append).texts(number) is not None
    assert reasons == [
        f"schema registry {registry.url}: asked for schema {number}",
        *(f"schema registry {registry.url}: fails with {n}" for n in (503, 500, 429)),
    ]


def test_a_registry_that_stays_away_ends_the_process_which_starts_again_with_its_records(
    fast, monkeypatch
):
    monkeypatch.setattr(schema_registry, "_AWAY_S", 0.05)
    away = f"127.0.0.1:{free_port()}"
    schemas = RegistrySchemas(config(f"http://me:secret@{away}"), lambda _reason: None)
    with pytest.raises(InfrastructureError, match=f"schema registry .*{away}") as caught:
        schemas.texts(7)
    assert "secret" not in str(caught.value)


def test_a_wait_may_be_ended(registry, fast):
    registry.fails = [503] * 100

    def stop(reason):
        if "fails" in reason:
            raise InterruptedError(reason)

    with pytest.raises(InterruptedError, match="fails with 503"):
        reader(registry, stop).texts(7)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_registry_that_refuses_stops_the_service(registry, status):
    registry.fails = [status]
    with pytest.raises(ConfigurationError, match=f"fails with {status}"):
        reader(registry).texts(7)


def test_a_source_that_needs_a_registry_says_so_if_none_is_set():
    for form in ("avro", "debezium-avro"):
        with pytest.raises(ConfigurationError, match=r"source t: .*set TIDEMARK_SCHEMA_REGISTRY"):
            writer_schemas(Config(), of_records(form))
    assert writer_schemas(Config(), of_records("json")) is None
    assert writer_schemas(Config(), of_records("debezium-json")) is None
