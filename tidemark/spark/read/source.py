"""Committed records of Kafka as a DataFrame: a row per record, in order within a partition.

By default Spark also reads aborted records, so the isolation level is set.  ``minPartitions`` is
not set: Spark then runs one task per partition, which reads its records in the order of their
offsets.
"""

import json
from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.config import Config
from tidemark.serde.records import Headers, RecordBatch
from tidemark.spark.read.ranges import Ranges, as_json

_FETCH_BYTES = 16 * 2**20

# After each poll Spark asks for the begin and the end of the partition.  The broker answers only
# after the running fetch of the same connection.  At the end of a log, a fetch takes half a second
# by default.
_FETCH_WAIT_MS = 10

# Properties of librdkafka that have another name, or another value, in Java clients.
_RENAMED = {"sasl.mechanisms": "sasl.mechanism", "ssl.ca.location": "ssl.truststore.location"}
_LOGIN = ("sasl.username", "sasl.password")
_SAME = (
    "security.protocol",
    "sasl.mechanism",
    "client.id",
    "ssl.endpoint.identification.algorithm",
)
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def kafka_records(spark: SparkSession, config: Config, ranges: Ranges) -> DataFrame:
    """Return the records of ranges.

    Returns:
        A DataFrame: topic (string), partition (int), offset (long), key and value (binary).
    """
    return _source(spark, config, ranges).select("topic", "partition", "offset", "key", "value")


RAW = ("offset", "timestamp_ms", "key", "value", "headers")
"""The columns of a raw record without topic and partition."""


def raw_records(spark: SparkSession, config: Config, ranges: Ranges) -> DataFrame:
    """Return the records of ranges with every field that ingest may read.

    Returns:
        A DataFrame: topic (string), partition (int), offset and timestamp_ms (long), key and value
        (binary), headers (array of key: string and value: binary).
    """
    return _source(spark, config, ranges).select(
        "topic", "partition", "offset", f.unix_millis("timestamp").alias("timestamp_ms"),
        "key", "value", "headers",
    )  # fmt: skip


def record_batch(at: Partition, records: pa.Table, received_at_ms: int) -> RecordBatch:
    """Return records of a raw partition as a batch for ingest.

    Args:
        at: the raw partition.
        records: at least one record, with the columns of ``RAW``.
        received_at_ms: when the records were read (wall clock).
    """
    offsets = records.column("offset").to_numpy()
    return RecordBatch(
        topic=at.topic,
        partition=at.number,
        offsets=offsets,
        timestamps=records.column("timestamp_ms").to_pylist(),
        keys=records.column("key").to_pylist(),
        headers=_headers(records.column("headers")),
        values=records.column("value").to_pylist(),
        next_offset=int(offsets[-1]) + 1,
        received_at_ms=received_at_ms,
    )


def _headers(column: pa.ChunkedArray) -> list[Headers]:
    if column.null_count == len(column):
        return [None] * len(column)
    return [
        None if each is None else [(header["key"], header["value"]) for header in each]
        for each in column.to_pylist()
    ]


def _source(spark: SparkSession, config: Config, ranges: Ranges) -> DataFrame:
    source = spark.read.format("kafka").options(
        **{
            "kafka.bootstrap.servers": config.bootstrap_servers,
            "assign": _assigned(ranges),
            "startingOffsets": as_json(ranges.begins),
            "endingOffsets": as_json(ranges.ends),
            "failOnDataLoss": "true",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
            "kafka.max.partition.fetch.bytes": str(_FETCH_BYTES),
            "kafka.fetch.max.wait.ms": str(_FETCH_WAIT_MS),
            **{f"kafka.{name}": v for name, v in java_properties(config.client_properties).items()},
        }
    )
    return source.load()


def _assigned(ranges: Ranges) -> str:
    topics: dict[str, list[int]] = {}
    for at in ranges.partitions:
        topics.setdefault(at.topic, []).append(at.number)
    return json.dumps(topics)


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate connection properties from librdkafka to Java clients.

    Other properties, which only tune librdkafka, are left out.

    Raises:
        ConfigurationError: the SASL mechanism is not one that a replay supports.
    """
    known = {_RENAMED.get(name, name): value for name, value in properties.items()}
    java = {name: known[name] for name in _SAME if name in known}
    if "ssl.truststore.location" in known:
        java |= {"ssl.truststore.type": "PEM"}
        java["ssl.truststore.location"] = known["ssl.truststore.location"]
    if "sasl.mechanism" in known:
        java["sasl.jaas.config"] = _login(known["sasl.mechanism"], _values(known, _LOGIN))
    return java


def _values(known: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [known.get(name, "") for name in names]


def _login(mechanism: str, login: list[str]) -> str:
    if mechanism not in _MODULES:
        raise ConfigurationError(
            f"KAFKA_SASL_MECHANISM: a replay supports only {', '.join(_MODULES)}"
        )
    user, password = (word.replace("\\", "\\\\").replace('"', '\\"') for word in login)
    return f'{_MODULES[mechanism]} required username="{user}" password="{password}";'
