"""`tidemark infer TOPIC` reads the first and last records of each partition of a topic."""

import json
import os

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests import forked
from tests.infer.shapes import lines
from tests.kafka.support.encoded import framed, record_schema
from tests.support.registry import running_registry

TOPIC = "inferred-orders"


def tidemark(broker, folder, *arguments, registry=""):
    env = {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": broker,
        "TIDEMARK_SCHEMA_REGISTRY": registry,
    }
    return forked.tidemark(*arguments, env=env, folder=folder)


def test_a_module_is_printed_for_a_topic(broker, tmp_path):
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 5})
    values = list(lines("orders", 300))
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % 2)
    producer.produce(TOPIC, None, b"a tombstone", 0)
    producer.produce(TOPIC, b"{", partition=1)
    assert producer.flush(30) == 0

    printed = tidemark(broker, tmp_path, "infer", TOPIC)
    assert printed.returncode == 0, printed.stderr
    text = printed.stdout.decode()
    assert "# 302 records = 300 that fit + 1 dead + 1 blank" in text
    assert 'event_time="event_time",\n    unit="ms",' in text

    (tmp_path / "p.py").write_text(text)
    (tmp_path / "orders.jsonl").write_bytes(b"\n".join(values))
    tried = tidemark(broker, tmp_path, "try", "p", "--input", "orders.jsonl")
    assert tried.returncode == 0, tried.stderr
    results = [json.loads(line) for line in tried.stdout.splitlines()]
    assert sum(each["value"]["n"] for each in results) == 300

    few = tidemark(broker, tmp_path, "infer", TOPIC, "--records", "10").stdout.decode()
    assert "# 20 records = " in few

    absent = tidemark(broker, tmp_path, "infer", "no-such-topic")
    assert absent.returncode == 2
    assert b"no-such-topic" in absent.stderr


FRAMED = "inferred-framed"
PROTO = """syntax = "proto3";
package shop;
message Order {
  string id = 1;
}
"""


def test_a_topic_with_ids_of_schemas_is_read_with_the_registry(broker, tmp_path):
    schema = record_schema(("sensor", "string"), ("at", "long"), ("celsius", "double"))
    with running_registry() as registry:
        number = registry.add(schema)
        registry.schemas.append(PROTO)
        admin = AdminClient({"bootstrap.servers": broker})
        topics = [FRAMED, f"{FRAMED}-proto"]
        for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
            made.result(30)
        producer = Producer({"bootstrap.servers": broker, "linger.ms": 5})
        for n in range(40):
            row = {"sensor": f"s{n % 3}", "at": 1_767_323_045_000 + 1_000 * n, "celsius": n / 2}
            producer.produce(FRAMED, framed(number, schema, row))
            producer.produce(f"{FRAMED}-proto", b"\0" + (number + 1).to_bytes(4, "big") + b"\0\x0a")
        assert producer.flush(30) == 0

        text = tidemark(broker, tmp_path, "infer", FRAMED, registry=registry.url).stdout.decode()
        proto = tidemark(broker, tmp_path, "infer", f"{FRAMED}-proto", registry=registry.url)
    assert "# 40 records = 40 that fit + 0 dead + 0 blank" in text
    assert '\n    format="avro",\n    event_time="at",\n    unit="ms",\n' in text
    assert 'key_by("sensor")' in text
    assert proto.returncode == 2
    said = " ".join(proto.stderr.decode().split())
    assert f'format=protobuf("{FRAMED}-proto.desc", "shop.Order", framed=True)' in said

    refused = tidemark(broker, tmp_path, "infer", FRAMED)
    assert refused.returncode == 2
    assert b"set TIDEMARK_SCHEMA_REGISTRY" in refused.stderr
