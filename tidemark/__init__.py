"""Event-time stream processing on Kafka.

A pipeline is built of what is exported here; services, Spark and tests load it by its module.
"""

from polars import col, lit, when

from tidemark.arrival_windows import count_window, delta, global_window, punctuation
from tidemark.core.aggregates import (
    collect,
    count,
    count_distinct,
    first,
    last,
    max,  # noqa: A004
    max_by,
    mean,
    min,  # noqa: A004
    min_by,
    stddev,
    sum,  # noqa: A004
    variance,
)
from tidemark.core.time_assigner import INGEST_TIME, RECORD_TIME
from tidemark.core.trigger import every, on_close, on_final, on_update
from tidemark.core.watermark import bounded, from_expression, monotonic, punctuated
from tidemark.errors import ConfigurationError, PipelineError, StateError, TidemarkError
from tidemark.load import load_pipeline
from tidemark.pipeline import Pipeline
from tidemark.windows import calendar, hopping, processing_time, session, sliding, tumbling

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
    "collect",
    "count",
    "count_distinct",
    "count_window",
    "delta",
    "every",
    "first",
    "from_expression",
    "global_window",
    "hopping",
    "last",
    "lit",
    "load_pipeline",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "monotonic",
    "on_close",
    "on_final",
    "on_update",
    "processing_time",
    "punctuated",
    "punctuation",
    "session",
    "sliding",
    "stddev",
    "sum",
    "tumbling",
    "variance",
    "when",
]
