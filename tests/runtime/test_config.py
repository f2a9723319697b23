import pytest
from confluent_kafka import KafkaException

from tidemark.errors import ConfigurationError, without_password
from tidemark.runtime.archive.archive import Archive
from tidemark.runtime.client import clients
from tidemark.runtime.config import Config
from tidemark.runtime.faults import explained
from tidemark.sinks.open import open_sink


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
        ("KAFKA_BOOTSTRAP_SERVERS", "user@broker:9092"),
        ("TIDEMARK_SCHEMA_REGISTRY", "registry:8081"),
        ("KAFKA_ISOLATION_LEVEL", "read_uncommitted"),
        ("KAFKA_TRANSACTIONAL_ID", "mine"),
    ],
)
def test_a_bad_value_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"^{name}[:=]"):
        Config.from_env()


@pytest.mark.parametrize("place", ["secret#@h:1", "secret/1@h:1", "secret?@h:1", "secret@[::1"])
def test_an_address_that_cannot_be_read_is_refused_without_its_password(monkeypatch, place):  # D4
    monkeypatch.setenv("TIDEMARK_SCHEMA_REGISTRY", f"http://u:{place}")
    with pytest.raises(ConfigurationError, match="the address cannot be read") as caught:
        Config.from_env()
    assert "secret" not in str(caught.value)


SECRET = "hunter2"
VARIABLES = sorted(
    {str(field.validation_alias) for field in Config.model_fields.values()} - {"None"}
    | {f"KAFKA_{name}" for name in ("SASL_PASSWORD", "GROUP_ID", "SECURITY_PROTOCOL", "DEBUG")}
    | {f"KAFKA_{name}" for name in ("SSL_KEY_PEM", "SSL_KEY_PASSWORD", "NO_SUCH_PROPERTY")}
)
FORMS = (
    SECRET,
    f"user:{SECRET}@host",
    f"http://user:{SECRET}@[host",
    f"https://host/?token={SECRET}",
    f"postgresql://user:{SECRET}@host:port/db",
    f"postgresql://user:{SECRET}/x@host",
    f"postgresql://user:x@{SECRET}@host/db",
    f"kafka://user:{SECRET}@host/PREFIX with blanks",
    f"kafka://host/prefix?sasl.password={SECRET}&security.protocol={SECRET}",
    f"sqlite:?{SECRET}",
    f"user:{SECRET}",
    f"s3://key:{SECRET}@bucket/x?region={SECRET}&endpoint_override=",
    f"12 {SECRET}",
)


def error_of(name):
    """Return what a service says about the environment, "" if it takes the variable."""
    try:
        config = Config.from_env()
        if name == "TIDEMARK_SINK":
            open_sink(config.sink.get_secret_value()).close()
        if name == "TIDEMARK_ARCHIVE":
            Archive(config.archive)
        if name.startswith("KAFKA_"):
            clients.admin(config)
    except ConfigurationError as error:
        return str(error)
    except KafkaException as error:
        return explained(error)[0]
    return ""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VARIABLES)
def test_no_error_about_settings_repeats_a_secret(monkeypatch, tmp_path, name, form):  # D4
    monkeypatch.chdir(tmp_path)  # some forms are paths
    monkeypatch.setenv(name, form)
    assert SECRET not in error_of(name)


@pytest.mark.parametrize("name", VARIABLES)
def test_an_empty_variable_is_unset(monkeypatch, name):  # D7
    unset = Config.from_env()
    monkeypatch.setenv(name, "")
    assert Config.from_env() == unset


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


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://host:8081/x", "http://host:8081/x"),
        ("http://user:pass@host/x", "http://user:***@host/x"),
        ("user:pass@host", "user:***@host"),
        ("token@host", "***@host"),
        ("https://host/x?sig=abc&t=%41%42", "https://host/x?sig=***&t=***"),
        ("s3://k:a@b@bucket?x", "s3://k:***@bucket?***"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_its_secrets(address, shown):
    assert without_password(address) == shown


def test_a_text_about_an_address_is_shown_without_its_secrets():
    address = "s3://key:a%2Fb@bucket?token=t0"
    text = "cannot open a/b, a%2Fb or t0"
    assert without_password(address, text) == "cannot open ***, *** or ***"
