"""A pipeline over TLS and SASL, with no more rights than it needs; and what it says without."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.kafka.support.secure import MECHANISMS, PASSWORD, SecureBroker
from tests.kafka.support.stack import Stack, wait_until
from tidemark.plan.topics import topic_of_stats
from tidemark.runtime.client import topics
from tidemark.runtime.config import Config

T = 1_772_438_400_000
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE

# docs/operations.md, "Security"
RIGHTS = [
    (ResourceType.TOPIC, "{0}-moves", LITERAL, (READ, AclOperation.DESCRIBE_CONFIGS)),
    (ResourceType.TOPIC, "{0}.", PREFIXED, (READ, WRITE, AclOperation.CREATE)),
    (ResourceType.TOPIC, "{0}.", PREFIXED, (AclOperation.DESCRIBE_CONFIGS,)),
    (ResourceType.GROUP, "{0}.", PREFIXED, (READ, DESCRIBE)),
    (ResourceType.TRANSACTIONAL_ID, "{0}.", PREFIXED, (WRITE, DESCRIBE)),
]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with SecureBroker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker


def grant(
    stack: Stack, without: ResourceType | None = None, but: AclOperation | None = None
) -> None:
    bindings = [
        AclBinding(
            kind, name.format(stack.name), pattern, "User:app", "*", operation,
            AclPermissionType.ALLOW,
        )
        for kind, name, pattern, operations in RIGHTS
        for operation in operations
        if kind != without and operation != but
    ]  # fmt: skip
    for future in stack.admin.create_acls(bindings).values():
        future.result()
    # The broker takes them from its controller later.
    every = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]  # any name
        ResourcePatternType.ANY,
        "User:app",
        "*",
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    wait_until(lambda: {*bindings} <= {*stack.admin.describe_acls(every).result()}, "rights")


def error_line(stack: Stack, service: str, status: int = 2) -> str:
    assert stack.process(service).wait() == status
    (line,) = [line for line in stack.log(service).splitlines() if f" ERROR   {service}" in line]
    return line


def test_a_pipeline_runs_over_tls_and_sasl_and_tells_no_secret(secure):
    """Each service logs in by another mechanism."""
    with Stack(secure.plain, "safe", TIDEMARK_LOG_LEVEL="DEBUG") as stack:
        grant(stack)
        for service, mechanism in zip(stack.plan.services(), MECHANISMS, strict=True):
            stack.start(service, **secure.client(mechanism=mechanism))
        for at in (1_000, 30_000, 60_000):
            stack.move("a", T + at)
        for name in ("pops", "sessions"):
            stack.await_results(name, lambda panes: len(panes) == 2)
        assert set(stack.stop().values()) == {0}
        assert all(PASSWORD not in text for _, text in stack.logs())


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_a_wrong_password_stops_with_one_line_that_does_not_tell_it(secure, mechanism):
    env = secure.client(password="wr0ng", mechanism=mechanism)
    with Stack(secure.plain, f"wrong-{mechanism}", **env) as stack:
        stack.start("ingest")
        line = error_line(stack, "ingest")
        assert f"the broker at {secure.address} refuses: " in line
        assert "Authentication failed" in line
        assert "check KAFKA_SECURITY_PROTOCOL" in line
        assert all("wr0ng" not in text for _, text in stack.logs())


@pytest.mark.long
def test_an_unknown_authority_stops_with_one_line(secure):
    env = {**secure.client(), "KAFKA_SSL_CA_LOCATION": ""}
    with Stack(secure.plain, "unknown", **env) as stack:
        stack.start("ingest")
        line = error_line(stack, "ingest")
        assert "certificate verify failed" in line
        assert "KAFKA_SSL_CA_LOCATION" in line


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_client_without_tls_stops_with_one_line(secure, protocol):  # D10
    env = {**secure.client(), "KAFKA_SECURITY_PROTOCOL": protocol}
    with Stack(secure.plain, f"bare-{protocol.lower()}", **env) as stack:
        stack.start("ingest")
        line = error_line(stack, "ingest")
        assert f"the broker at {secure.address} speaks TLS and this client does not: set" in line


@pytest.mark.parametrize(
    ("without", "words"),
    [
        (ResourceType.GROUP, "Group authorization failed"),
        (ResourceType.TRANSACTIONAL_ID, "Transactional Id authorization failed"),
    ],
)
def test_a_missing_right_is_named(secure, without, words):
    with Stack(secure.plain, f"no-{without.name.lower()}", **secure.client()) as stack:
        grant(stack, without)
        stack.start("ingest")
        line = error_line(stack, "ingest")
        assert "Kafka denies user app: " in line
        assert words in line


def test_no_right_to_create_is_needed_where_the_topics_are_there(secure):
    with Stack(secure.plain, "made", **secure.client()) as stack:
        topics.ensure(stack.admin, [topic_of_stats(stack.plan.stats)], -1)
        grant(stack, but=AclOperation.CREATE)
        stack.start("ingest")
        wait_until(lambda: bool(stack.committed(stack.plan.stats)), "stats")
        assert "stats are not written" not in stack.log("ingest")
        assert stack.stop("ingest") == {"ingest": 0}


def test_a_raw_topic_that_may_not_be_seen_counts_as_missing(secure):
    with Stack(secure.plain, "unseen", **secure.client()) as stack:
        grant(stack, ResourceType.TOPIC)
        stack.start("ingest")
        line = error_line(stack, "ingest")
        assert "topic unseen-moves does not exist, or user app may not see it" in line


def test_settings_never_show_a_password(monkeypatch):
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", PASSWORD)
    assert PASSWORD not in repr(Config.from_env())
