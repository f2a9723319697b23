"""A pipeline that changes from one deployment to the next: its options declare its outputs."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tidemark as td
from tidemark import Pipeline, bounded, count, session, tumbling
from tidemark.language.keyed import KeyedStream

TYPES = {"int": int, "float": float, "str": str}
OUTPUTS: Mapping[str, Mapping[str, Any]] = {"a": {}}


def build(
    name: str,
    outputs: Mapping[str, Mapping[str, Any]] = OUTPUTS,
    columns: Mapping[str, str] | None = None,
) -> Pipeline:
    """Return the pipeline.

    ``outputs``: by name, the options of ``_add``, the ``key``, and ``least``, the lowest score that
    passes the filter.  Outputs with the same two share a stream.  ``columns``: types of further
    columns.
    """
    pipeline = Pipeline(name, partitions=2)
    moves = pipeline.source(
        f"{name}-moves",
        schema={
            "player": str,
            "at": int,
            "score": int,
            **{column: TYPES[kind] for column, kind in (columns or {}).items()},
        },
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    )
    keyed: dict[tuple[Any, ...], KeyedStream] = {}
    for output, options in outputs.items():
        least, *key = stream = (options.get("least"), *options.get("key", ["player"]))
        if stream not in keyed:
            rows = moves if least is None else moves.filter(td.col("score") >= least)
            keyed[stream] = rows.key_by(*key)
        _add(keyed[stream], output, **{k: v for k, v in options.items() if k in _WINDOW})
    return pipeline


_WINDOW = ("size", "sums", "gap")


def _add(
    stream: KeyedStream,
    output: str,
    size: str = "10s",
    sums: Sequence[str] = (),
    gap: str | None = None,
) -> None:
    window = tumbling(size) if gap is None else session(gap)
    sums_ = {f"sum_{column}": td.sum(column) for column in sums}
    stream.window(window).aggregate(n=count(), **sums_).to(output)


pipeline = build(
    os.environ.get("TEST_PIPELINE", "changing"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
