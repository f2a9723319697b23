"""The settings of a service, read once from the environment at its start.

All other ``KAFKA_*`` variables go to the Kafka clients: ``KAFKA_SECURITY_PROTOCOL`` becomes
``security.protocol``.  Properties that exactly-once processing depends on cannot be set.
"""

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidemark.errors import ConfigurationError
from tidemark.runtime.memory import LEAST_BYTES, bytes_of

# Variables of Kafka's own scripts and images, which are not client properties.
_SCRIPTS = {"HOME", "OPTS", "HEAP_OPTS", "JMX_OPTS", "GC_LOG_OPTS", "JVM_PERFORMANCE_OPTS", "DEBUG"}
_SCRIPT_PREFIXES = ("LOG4J", "SCALA", "VERSION")
# Variables of .env, and those that Kubernetes adds to pods if a service is named kafka or kafka-x:
# KAFKA_SERVICE_HOST, KAFKA_PORT, KAFKA_PORT_9092_TCP_ADDR.  No client property has such a name.
_SURROUNDINGS = re.compile(r"IMAGE$|(.+_)?(SERVICE_HOST|PORT)(_.+)?$")

_DECIDED = {
    "bootstrap.servers",
    "group.id",
    "group.protocol",
    "group.instance.id",
    "client.id",
    "transactional.id",
    "transaction.timeout.ms",
    "metadata.recovery.strategy",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "isolation.level",
    "auto.offset.reset",
    "allow.auto.create.topics",
    "partition.assignment.strategy",
    "partitioner",
    "enable.idempotence",
    "acks",
}

# Under the protocol of KIP-848, the brokers decide these.
_BROKERS = {"session.timeout.ms", "heartbeat.interval.ms"}

Millis = Annotated[int, Field(ge=1)]


def _brokers(addresses: str) -> str:
    if "@" in addresses:
        raise ValueError(
            "addresses of brokers have no user; set KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD"
        )
    return addresses


def _http_address(address: str) -> str:
    if address and not re.match(r"https?://.", address):
        raise ValueError(
            "the address does not begin with http:// or https://; write http://HOST:PORT"
        )
    try:
        for each in address.split(","):
            urlsplit(each).port  # noqa: B018  # raises
    except ValueError:  # its text may have a part of a password
        raise ValueError(
            "the address cannot be read; write http://HOST:PORT, and '/', '?' and '#' in a "
            "password as %2F, %3F and %23"
        ) from None
    return address


def _client_properties() -> dict[str, str]:
    names = {name[6:]: value for name, value in os.environ.items() if name.startswith("KAFKA_")}
    return {
        name.lower().replace("_", "."): value
        for name, value in sorted(names.items())
        if value
        and name not in _SCRIPTS | {"BOOTSTRAP_SERVERS"}
        and not name.startswith(_SCRIPT_PREFIXES)
        and not _SURROUNDINGS.match(name)
    }


class Config(BaseSettings):
    """The settings of a service; docs/operations.md, "Settings", explains each."""

    # A variable that is empty is unset.
    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    bootstrap_servers: Annotated[str, AfterValidator(_brokers)] = Field(
        default="localhost:9092", validation_alias="KAFKA_BOOTSTRAP_SERVERS", min_length=1
    )
    pipeline: str = Field(default="", validation_alias="PIPELINE")
    # A stable name, unique among running processes: part of the transactional id.
    slot: str = Field(
        default_factory=socket.gethostname,
        validation_alias="TIDEMARK_SLOT",
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        validate_default=True,
    )
    # Time between commits when caught up, and the longest under lag.
    commit_interval_ms: Millis = Field(default=50, validation_alias="TIDEMARK_COMMIT_INTERVAL_MS")
    commit_interval_max_ms: Millis = Field(
        default=500, validation_alias="TIDEMARK_COMMIT_INTERVAL_MAX_MS"
    )
    # The broker refuses more than 900 s (transaction.max.timeout.ms).
    transaction_timeout_ms: int = Field(
        default=30_000, validation_alias="TIDEMARK_TRANSACTION_TIMEOUT_MS", ge=1_000, le=900_000
    )
    # Time between two looks for new topics of a source that reads them by a pattern.
    topics_interval_ms: Millis = Field(
        default=5_000, validation_alias="TIDEMARK_TOPICS_INTERVAL_MS"
    )
    # The memory that a service plans with; see runtime/memory.py.
    memory_bytes: Annotated[int, BeforeValidator(bytes_of)] = Field(
        default="512MiB", validation_alias="TIDEMARK_MEMORY", ge=LEAST_BYTES, validate_default=True
    )
    # Whether loops over records run in the native library, where it is built (tidemark/native).
    native: Literal["auto", "off"] = Field(default="auto", validation_alias="TIDEMARK_NATIVE")
    guarantee: Literal["exactly-once", "at-least-once", "at-most-once"] = Field(
        default="exactly-once", validation_alias="TIDEMARK_GUARANTEE"
    )
    group_protocol: Literal["classic", "consumer"] = Field(
        default="classic", validation_alias="TIDEMARK_GROUP_PROTOCOL"
    )
    # A process that restarts within the session timeout keeps its partitions.
    static_membership: bool = Field(default=False, validation_alias="TIDEMARK_STATIC_MEMBERSHIP")
    # Address of health and metrics; without a port they are not served.
    http_host: str = Field(default="127.0.0.1", validation_alias="TIDEMARK_HTTP_HOST")
    http_port: int | None = Field(
        default=None, validation_alias="TIDEMARK_HTTP_PORT", ge=1, le=65_535
    )
    # The loop counts as stuck if one turn takes longer.
    stuck_after_ms: Millis = Field(default=60_000, validation_alias="TIDEMARK_STUCK_AFTER_MS")
    # See SnapshotRule.  Two files of a changelog have twice as many bytes: more is seldom live.
    snapshot_commits: int = Field(default=1_000, validation_alias="TIDEMARK_SNAPSHOT_COMMITS", ge=1)
    snapshot_bytes: int = Field(
        default=16 * 2**20, validation_alias="TIDEMARK_SNAPSHOT_BYTES", ge=1
    )
    # The address of the sink, see tidemark/sinks/open.py; it may hold a password.
    sink: SecretStr = Field(default=SecretStr(""), validation_alias="TIDEMARK_SINK")
    sink_name: str = Field(
        default="sink", validation_alias="TIDEMARK_SINK_NAME", pattern=r"^[A-Za-z0-9._-]{1,100}$"
    )
    # The tables to deliver, separated by commas; all by default.
    sink_tables: str = Field(default="", validation_alias="TIDEMARK_SINK_TABLES")
    # The file that maps tables to existing tables, see tidemark/sinks/mapping.py.
    sink_mapping: str = Field(default="", validation_alias="TIDEMARK_SINK_MAPPING")
    # The place of the archive: a folder, or a URI such as s3://bucket/logs.
    archive: str = Field(default="", validation_alias="TIDEMARK_ARCHIVE")
    # The archive writes one file per log partition and interval.
    archive_interval_ms: Millis = Field(
        default=60_000, validation_alias="TIDEMARK_ARCHIVE_INTERVAL_MS"
    )
    # For `tidemark run --on spark`.
    spark_master: str = Field(default="local[*]", validation_alias="TIDEMARK_SPARK_MASTER")
    spark_memory: str = Field(default="2g", validation_alias="TIDEMARK_SPARK_MEMORY")
    spark_from: Literal["log", "raw"] = Field(default="log", validation_alias="TIDEMARK_SPARK_FROM")
    # Where keyed state is kept locally; rocksdb for state larger than memory.
    state_backend: Literal["memory", "rocksdb"] = Field(
        default="memory", validation_alias="TIDEMARK_STATE_BACKEND"
    )
    state_dir: Path = Field(default=Path("var/state"), validation_alias="TIDEMARK_STATE_DIR")
    state_memory_mb: int = Field(default=256, validation_alias="TIDEMARK_STATE_MEMORY_MB", ge=0)
    # -1 means the broker's default.
    replication_factor: int = Field(
        default=-1, validation_alias="TIDEMARK_REPLICATION_FACTOR", ge=-1
    )
    # Time between two stats records; 0 writes none.
    stats_interval_ms: int = Field(
        default=1_000, validation_alias="TIDEMARK_STATS_INTERVAL_MS", ge=0, le=60_000
    )
    # With a registry, Avro results have Confluent's wire format.
    schema_registry: Annotated[str, AfterValidator(_http_address)] = Field(
        default="", validation_alias="TIDEMARK_SCHEMA_REGISTRY"
    )
    schema_registry_user: SecretStr = Field(
        default=SecretStr(""), validation_alias="TIDEMARK_SCHEMA_REGISTRY_USER"
    )
    # Thresholds of the monitor's alerts: growth of lag, and a clock that does not move.
    alert_lag_records: int = Field(
        default=1_000, validation_alias="TIDEMARK_ALERT_LAG_RECORDS", ge=1
    )
    alert_clock_stuck_ms: Millis = Field(
        default=60_000, validation_alias="TIDEMARK_ALERT_CLOCK_STUCK_MS"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", validation_alias="TIDEMARK_LOG_LEVEL"
    )
    # May hold passwords, so it has no repr.
    client_properties: Mapping[str, str] = Field(default_factory=_client_properties, repr=False)

    @property
    def user(self) -> str:
        """The user that the brokers know, for messages."""
        name = self.client_properties.get("sasl.username")
        return f"user {name}" if name else "this client"

    @classmethod
    def from_env(cls) -> "Config":
        """Return the settings of the environment.

        Raises:
            ConfigurationError: a value is invalid; names the variable, and no value: it may be a
                secret.
        """
        try:
            config = cls()
        except ValidationError as error:
            raise ConfigurationError(_explained(error)) from None
        for name in config.client_properties:
            variable = "KAFKA_" + name.upper().replace(".", "_")
            if name in _DECIDED:
                raise ConfigurationError(f"{variable}: Tidemark decides {name}; unset the variable")
            if name in _BROKERS and config.group_protocol == "consumer":
                raise ConfigurationError(
                    f"{variable}: under TIDEMARK_GROUP_PROTOCOL=consumer the brokers "
                    f"decide {name}; unset the variable"
                )
        if config.commit_interval_max_ms < config.commit_interval_ms:
            raise ConfigurationError(
                f"TIDEMARK_COMMIT_INTERVAL_MAX_MS={config.commit_interval_max_ms}: "
                f"less than TIDEMARK_COMMIT_INTERVAL_MS={config.commit_interval_ms}"
            )
        if config.static_membership and config.group_protocol == "consumer":
            raise ConfigurationError(
                "TIDEMARK_STATIC_MEMBERSHIP=true: not possible with "
                "TIDEMARK_GROUP_PROTOCOL=consumer, where a restarted process could not join again "
                "before its session ends; choose one of the two"
            )
        return config


def _explained(error: ValidationError) -> str:
    return "; ".join(_fault(str(fault["loc"][0]), fault["msg"]) for fault in error.errors())


def _fault(variable: str, message: str) -> str:
    text = message.removeprefix("Value error, ")
    return f"{variable}: {text[0].lower()}{text[1:]}"
