"""Event-time stream processing on Kafka.

A pipeline is built of what is exported here; services, Spark and tests load it by its module.
"""

from polars import col, lit, when

from tidemark.core.aggregates import count, first, last, max, mean, min, sum  # noqa: A004
from tidemark.core.time_assigner import INGEST_TIME, RECORD_TIME
from tidemark.core.trigger import on_close, on_final
from tidemark.core.watermark import bounded, from_expression, monotonic, punctuated
from tidemark.errors import ConfigurationError, PipelineError, StateError, TidemarkError
from tidemark.load import load_pipeline
from tidemark.pipeline import Pipeline
from tidemark.windows import calendar, hopping, session, tumbling

__all__ = [
    "INGEST_TIME",
    "RECORD_TIME",
    "ConfigurationError",
    "Pipeline",
    "PipelineError",
    "StateError",
    "TidemarkError",
    "bounded",
    "calendar",
    "col",
    "count",
    "first",
    "from_expression",
    "hopping",
    "last",
    "lit",
    "load_pipeline",
    "max",
    "mean",
    "min",
    "monotonic",
    "on_close",
    "on_final",
    "punctuated",
    "session",
    "sum",
    "tumbling",
    "when",
]
