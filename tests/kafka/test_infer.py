"""`tidemark infer TOPIC` reads the first and last records of each partition of a topic."""

import json
import os
import subprocess
import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.infer.shapes import lines
from tests.kafka.support.stack import ROOT

TOPIC = "inferred-orders"


def tidemark(broker, folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "tidemark", *arguments],
        cwd=folder,
        capture_output=True,
        check=False,
        env={**os.environ, "KAFKA_BOOTSTRAP_SERVERS": broker, "PYTHONPATH": str(ROOT)},
    )


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
