"""Sources of every kind under one pipeline, each with its rules as the judge applies them.

Between them: all column types, lists and structs, every unit of event time, event time from an
expression, the record and ingest's clock, every watermark, min_time, max_future, keys and headers
of records, keys of one and of several columns, and operators that filter, raise, and multiply.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.fuzz import sources
from tests.fuzz.event_times import float_ms, text_ms
from tests.fuzz.judge import Rules
from tidemark import Pipeline, count, tumbling
from tidemark.language.stream import Stream

HOUR_MS = 3_600_000
RECEIVED_MS = 1_700_000_500_000
"""What ingest's clock shows all along, where a test holds it."""


@dataclass(frozen=True)
class Shape:
    """A raw topic: how its pipeline reads it, what its columns are, and what must come out."""

    name: str
    times: Mapping[str, str]
    stream: Callable[[Pipeline, str], Stream]
    key: tuple[str, ...]
    rules: Rules


SHAPES: tuple[Shape, ...] = (
    Shape(
        *("scalars", {"at": "ms"}, sources.scalars, ("player",)),
        Rules(
            *(sources.SCALARS, ("at",), sources.column_ms(1, 1), sources.scalar_rows),
            delay_ms=2_000,
            min_ms=946_684_800_000,
            max_future_ms=HOUR_MS,
        ),
    ),
    Shape(
        *("nested", {"seconds": "float s"}, sources.nested, ("player",)),
        Rules(
            sources.NESTED,
            ("seconds",),
            lambda values, _: float_ms(values["seconds"]),
            sources.nested_rows,
        ),
    ),
    Shape(
        *("paths", {"@at": "ms"}, sources.paths, ("who",)),
        Rules(
            *(sources.RECORDS, ("at",), sources.column_ms(1, 1), sources.path_rows),
            delay_ms=2_000,
            read=sources.path_values,
            names=sources.PATHS,
            is_lenient=True,
        ),
    ),
    Shape(
        *("iso", {"at": "iso8601"}, sources.iso, ("who",)),
        Rules(
            *(
                sources.ISO_COLUMNS,
                ("at",),
                lambda values, _: text_ms(values["at"], None),
                sources.iso_rows,
            ),
            delay_ms=60_000,
        ),
    ),
    Shape(
        *("local", {"at": "iso8601"}, sources.local, ("n", "s")),
        Rules(
            *(
                sources.LOCAL,
                ("at", "done"),
                lambda values, _: text_ms(values["at"], "Europe/Berlin"),
            ),
            *(sources.local_rows, lambda values, _, at_ms: at_ms if values["done"] else None),
            max_future_ms=HOUR_MS,
        ),
    ),
    Shape(
        *("micros", {"at": "us", "complete": "ms"}, sources.micros, ("n",)),
        Rules(
            *(sources.MICROS, ("at", "complete"), sources.column_ms(1, 1_000), sources.number_rows),
            candidate=lambda values, _raw, _at_ms: values["complete"],
            min_ms=631_152_000_000,
            max_future_ms=HOUR_MS,
        ),
    ),
    Shape(
        *("nanos", {"at": "ns", "mark": "text ms"}, sources.nanos, ("n",)),
        Rules(
            *(sources.NANOS, ("at", "mark"), sources.column_ms(1, 1_000_000), sources.number_rows),
            candidate=sources.mark,
        ),
    ),
    Shape(
        *("record", {}, sources.record, ("k",)),
        Rules(
            *(
                sources.RECORD,
                (),
                lambda _, raw: raw.timestamp_ms if raw.timestamp_ms >= 0 else None,
            ),
            sources.record_rows,
        ),
    ),
    Shape(
        *("clock", {}, sources.clock, ("n",)),
        Rules(sources.CLOCK, (), lambda _values, _raw: RECEIVED_MS, sources.clock_rows),
    ),
    Shape(
        *("sums", {"sec": "s"}, sources.sums, ("n",)),
        Rules(
            *(sources.SUMS, ("sec", "milli"), sources.sum_ms, sources.number_rows),
            delay_ms=5_000,
            max_future_ms=HOUR_MS,
        ),
    ),
    Shape(
        *("words", {"at": "s"}, sources.words, ("word",)),
        Rules(sources.WORDS, ("at",), sources.column_ms(1_000, 1), sources.word_rows),
    ),
)


def build(name: str, partitions: int = 2) -> Pipeline:
    """Return a pipeline that reads every shape, from topics ``NAME-SHAPE``."""
    pipeline = Pipeline(name, partitions=partitions)
    for shape in SHAPES:
        keyed = shape.stream(pipeline, f"{name}-{shape.name}").key_by(*shape.key)
        keyed.window(tumbling("1h")).aggregate(count=count()).to(shape.name)
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "fuzz"))
