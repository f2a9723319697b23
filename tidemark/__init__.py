"""Event-time stream processing on Kafka.

A pipeline is built of what is exported here; services, Spark and tests load it by its module.
"""

from polars import col, lit, when

from tidemark.core.aggregates.constructors import (
    collect,
    count,
    count_distinct,
    first,
    last,
    latest,
    max,  # noqa: A004
    max_by,
    mean,
    median,
    min,  # noqa: A004
    min_by,
    quantile,
    stddev,
    sum,  # noqa: A004
    top_k,
    value_counts,
    variance,
)
from tidemark.core.aggregates.custom import Aggregate
from tidemark.core.operators.ordered.values import cum_sum, diff, prev
from tidemark.core.time.assigners import INGEST_TIME, RECORD_TIME
from tidemark.core.time.watermark import bounded, from_expression, monotonic, punctuated
from tidemark.core.windows.trigger import every, on_close, on_final, on_update
from tidemark.errors import ConfigurationError, PipelineError, StateError, TidemarkError
from tidemark.language.arrival_windows import count_window, delta, global_window, punctuation
from tidemark.language.custom import apply_frame, custom
from tidemark.language.field import RAW, field
from tidemark.language.formats import avro, csv, protobuf
from tidemark.language.load import load_pipeline
from tidemark.language.patterns.sequence import absence, sequence
from tidemark.language.patterns.step import never, step, to_first, to_last
from tidemark.language.windows import (
    calendar,
    hopping,
    processing_time,
    same,
    session,
    sliding,
    tumbling,
)
from tidemark.local.pipeline import Pipeline

__all__ = [
    "INGEST_TIME",
    "RAW",
    "RECORD_TIME",
    "Aggregate",
    "ConfigurationError",
    "Pipeline",
    "PipelineError",
    "StateError",
    "TidemarkError",
    "absence",
    "apply_frame",
    "avro",
    "bounded",
    "calendar",
    "col",
    "collect",
    "count",
    "count_distinct",
    "count_window",
    "csv",
    "cum_sum",
    "custom",
    "delta",
    "diff",
    "every",
    "field",
    "first",
    "from_expression",
    "global_window",
    "hopping",
    "last",
    "latest",
    "lit",
    "load_pipeline",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "monotonic",
    "never",
    "on_close",
    "on_final",
    "on_update",
    "prev",
    "processing_time",
    "protobuf",
    "punctuated",
    "punctuation",
    "quantile",
    "same",
    "sequence",
    "session",
    "sliding",
    "stddev",
    "step",
    "sum",
    "to_first",
    "to_last",
    "top_k",
    "tumbling",
    "value_counts",
    "variance",
    "when",
]
