"""The embedded broker: it starts, serves, stops, and says in one line what is wrong."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.support.stack import wait_until
from tests.patience import PATIENCE_S
from tidemark.embedded.broker import Broker, is_free
from tidemark.errors import ConfigurationError
from tidemark.runtime.client import clients
from tidemark.runtime.client.offline_group import require_empty
from tidemark.runtime.config import Config

ROOT = Path(__file__).parents[3]


def test_the_broker_answers_and_creates_no_topic_unasked(broker):
    admin = AdminClient({"bootstrap.servers": broker})

    cluster = admin.list_topics("nobody-made-this", timeout=PATIENCE_S)

    assert [str(node) for node in cluster.brokers.values()] == [f"{broker}/1"]
    assert cluster.topics["nobody-made-this"].error is not None


def test_a_stopped_broker_leaves_no_process_and_no_port_and_its_data_starts_again(tmp_path):
    with Broker(tmp_path) as broker:
        pid, port = broker.pid, int(broker.address.split(":")[1])
        create(broker.address, "moves")

    assert not exists(pid)
    assert is_free(port)

    with Broker(tmp_path) as broker:
        topics = (
            AdminClient({"bootstrap.servers": broker.address})
            .list_topics(timeout=PATIENCE_S)
            .topics
        )
        assert "moves" in topics


def test_a_broker_that_never_had_a_group_is_asked_until_it_knows_of_none(tmp_path):
    """It makes the topic of offsets at the first question, and has no coordinator until then."""
    with Broker(tmp_path) as broker:
        admin = clients.admin(Config(bootstrap_servers=broker.address))
        require_empty(admin, ["nobody", "nobody-else"])


def test_a_broker_does_not_outlive_a_killed_owner(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with owner:
        assert owner.stdout
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    if sys.platform == "linux":
        wait_until(lambda: not exists(pid), "the end of the broker")
    else:
        os.kill(pid, signal.SIGTERM)


OWNER = """
import sys, time
from pathlib import Path
from tidemark.embedded.broker import Broker
with Broker(Path(sys.argv[1])) as broker:
    print(broker.pid, flush=True)
    time.sleep(60)
"""


def test_a_taken_port_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(
            ConfigurationError, match=f"^port {port} is taken by another process: choose"
        ):
            Broker(tmp_path, port).start()


def test_a_data_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigurationError, match=r"^broker data folder .*file/data.*directory$"):
        Broker(tmp_path / "file" / "data").start()


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("tidemark.embedded.broker.shutil.disk_usage", lambda _: usage)

    with pytest.raises(ConfigurationError, match=r"only 1,000 bytes free on disk$"):
        Broker(tmp_path).start()


def test_a_broker_that_dies_is_reported_with_its_last_error(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=other\n")

    with pytest.raises(
        ConfigurationError, match=r"^the broker stopped: .*node id 7 .*broker\.log\)$"
    ):
        Broker(tmp_path).start()


def test_records_given_to_the_console_producer_come_out_again(broker):
    create(broker, "by-hand")
    run("kafka-console-producer", broker, "--topic", "by-hand", text='{"a": 1}\n{"a": 2}\n')

    consumer = Consumer(
        {"bootstrap.servers": broker, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["by-hand"])
    values: list[bytes] = []

    def are_there() -> bool:
        values.extend(each.value() or b"" for each in consumer.consume(2, 0.1))
        return len(values) == 2

    wait_until(are_there, "both records")
    consumer.close()
    assert sorted(values) == [b'{"a": 1}', b'{"a": 2}']
    assert "by-hand" in run("kafka-topics", broker, "--list")


def test_a_tool_without_an_address_needs_a_running_stack(tmp_path):
    done = subprocess.run(
        [f"{ROOT}/bin/kafka-topics", "--list"],
        capture_output=True,
        text=True,
        env={**os.environ, "TIDEMARK_STATE": str(tmp_path)},
    )

    assert done.returncode == 2
    assert done.stderr == (
        "kafka-topics: no stack of this folder is running: start one (tidemark dev or make up), "
        "or give --bootstrap-server\n"
    )


def create(address, topic):
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)


def run(tool, address, *arguments, text=""):
    done = subprocess.run(
        [f"{ROOT}/bin/{tool}", "--bootstrap-server", address, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
