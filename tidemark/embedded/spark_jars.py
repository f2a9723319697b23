"""The jars of Spark's Kafka source, which pyspark does not contain."""

from pathlib import Path

from tidemark.embedded.jars import fetched_jars

_LOCK = Path(__file__).with_name("spark_jars.lock")


def kafka_source_jars() -> list[Path]:
    """Return the paths of the jars; fetch them at the first call."""
    return sorted(fetched_jars("spark-kafka", _LOCK).glob("*.jar"))
