import pytest

from tidemark.errors import ConfigurationError
from tidemark.runtime.config import Config


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    import os

    for name in list(os.environ):
        if name.startswith(("KAFKA_", "TIDEMARK_")) or name == "PIPELINE":
            monkeypatch.delenv(name)


def test_defaults_need_no_environment():
    config = Config.from_env()
    assert config.bootstrap_servers == "localhost:9092"
    assert (config.commit_interval_ms, config.commit_interval_max_ms) == (50, 500)
    assert config.transaction_timeout_ms == 30_000
    assert config.slot


def test_the_environment_decides(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    monkeypatch.setenv("PIPELINE", "examples.game")
    monkeypatch.setenv("TIDEMARK_SLOT", "2")
    monkeypatch.setenv("TIDEMARK_COMMIT_INTERVAL_MS", "70")

    config = Config.from_env()
    assert config.bootstrap_servers == "broker:9092"
    assert (config.pipeline, config.slot, config.commit_interval_ms) == ("examples.game", "2", 70)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIDEMARK_COMMIT_INTERVAL_MS", "soon"),
        ("TIDEMARK_COMMIT_INTERVAL_MS", "0"),
        ("TIDEMARK_COMMIT_INTERVAL_MAX_MS", "10"),
        ("TIDEMARK_TRANSACTION_TIMEOUT_MS", "900001"),
        ("TIDEMARK_GROUP_PROTOCOL", "modern"),
        ("TIDEMARK_SLOT", "a b"),
        ("KAFKA_BOOTSTRAP_SERVERS", ""),
        ("KAFKA_ISOLATION_LEVEL", "read_uncommitted"),
        ("KAFKA_TRANSACTIONAL_ID", "mine"),
    ],
)
def test_a_bad_value_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"^{name}={value}: "):
        Config.from_env()


def test_other_kafka_variables_go_to_the_clients(monkeypatch):
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1g")
    monkeypatch.setenv("KAFKA_LOG4J_OPTS", "-Dx")

    assert Config.from_env().client_properties == {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    "name",
    [
        "KAFKA_PORT",
        "KAFKA_IMAGE",
        "KAFKA_PORT_9092_TCP_ADDR",
        "KAFKA_SERVICE_HOST",
        "KAFKA_SERVICE_PORT",
        "KAFKA_SERVICE_PORT_CLIENTS",
        "KAFKA_HEADLESS_SERVICE_HOST",
        "KAFKA_HEADLESS_PORT_9092_TCP",
    ],
)
def test_what_containers_are_told_of_a_service_named_kafka_is_no_setting(monkeypatch, name):
    monkeypatch.setenv(name, "tcp://10.0.0.7:9092")
    monkeypatch.setenv("KAFKA_SASL_KERBEROS_SERVICE_NAME", "kafka")

    assert Config.from_env().client_properties == {"sasl.kerberos.service.name": "kafka"}
