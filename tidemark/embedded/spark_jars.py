"""Spark's Kafka source: jars that pyspark does not ship."""

from pathlib import Path

from tidemark.embedded.jars import fetched_jars

_LOCK = Path(__file__).with_name("spark_jars.lock")


def kafka_source_jars() -> list[Path]:
    """Return the jars, fetching them when they are not there yet."""
    return sorted(fetched_jars("spark-kafka", _LOCK).glob("*.jar"))
