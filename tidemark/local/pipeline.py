"""The pipeline that users write: the language, and runs in this process."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
import polars as pl

from tidemark.core.time.raw_topics import covers, is_pattern
from tidemark.errors import ConfigurationError, PipelineError
from tidemark.language import pipeline as language
from tidemark.language.keyed import KeyedStream
from tidemark.language.stream import Stream
from tidemark.plan.compile import compile_plan
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.outputs import RowsOutput
from tidemark.plan.physical import Plan
from tidemark.serde.formats.source_format import SourceFormat, needs_registry

if TYPE_CHECKING:
    from tidemark.local.results import Results

Record = Mapping[str, Any] | bytes
Records = str | os.PathLike[str] | Iterable[Record]
"""The path of a file, or records: mappings, which become JSON, and bytes."""

Inputs = Records | Mapping[str, Records]
"""Records of the only raw topic, or of each raw topic by its name."""

_PEEK = "peek"
_REMEDIES: dict[type, str] = {
    pl.Series: ": give the rows of the frame, frame.to_dicts()",
    str: ": give the path of a file, or open it with 'rb'",
}
"""What to give instead, by the type of what a frame or a file of text yields."""


class Pipeline(language.Pipeline):
    """A dataflow from raw topics to result topics; its name is the prefix of all its topics."""

    def run(self, inputs: Inputs, *, every_pane: bool = False) -> "Results":
        """Run the pipeline over ``inputs`` in this process; return what it publishes as frames.

        ``inputs``: a file in the format of the source, or records; or a mapping of raw topics to
        these.  Records are mappings, which become JSON, or bytes.  ``every_pane``: every published
        pane, not only the last one of each window.

        The results are those of ``tidemark try``: what a sink holds at the end of the input.  A bar
        shows the progress in a terminal or notebook.

        Raises:
            PipelineError: the pipeline has no outputs.
            ConfigurationError: a file cannot be read, no source reads a topic, or a record is
                neither a mapping nor bytes.
        """
        return _results(self.plan(), inputs, every_pane=every_pane)

    def peek(self, stream: Stream | KeyedStream, inputs: Inputs, rows: int = 10) -> pl.DataFrame:
        """Return the first rows of a stream, as its next operator gets them, over ``inputs``.

        ``stream``: of this pipeline, before or after any operator; of windows, final results.
        ``inputs``: as of ``run``; it is read to its end.

        Raises:
            PipelineError: the stream is of another pipeline.
            ConfigurationError: an input cannot be read, or no source reads a topic.
        """
        dataflow = self._dataflow
        if stream.dataflow is not dataflow:
            raise PipelineError(
                f"peek: the stream belongs to pipeline {stream.dataflow.name!r}, not to "
                f"{dataflow.name!r}"
            )
        output = RowsOutput(_PEEK, "json", stream.node, ())
        alone = Dataflow(dataflow.name, dataflow.partitions, dataflow.sources, [output])
        columns = list(stream.node.columns)
        results = _results(compile_plan(alone), inputs, every_pane=True)
        return results[_PEEK].select(columns).head(rows)


def _results(plan: Plan, inputs: Inputs, *, every_pane: bool = False) -> "Results":
    # Services load pipelines, too, and do not need these modules.
    from rich.console import Console

    from tidemark.local.progress import shown_progress
    from tidemark.local.results import Results
    from tidemark.local.run import LocalRun
    from tidemark.runtime.wall_clock import now_ms

    with _opened(plan, inputs) as records, shown_progress(Console(stderr=True)) as add:
        run = LocalRun(plan, now_ms=now_ms())
        for count in run.run(records):
            add(count)
    return Results(run, every_pane=every_pane)


@contextmanager
def _opened(plan: Plan, inputs: Inputs) -> Iterator[dict[str, Iterable[bytes]]]:
    """Return a context with the records of the inputs, by raw topic."""
    from tidemark.local.view import open_inputs, source_formats

    formats = source_formats(plan)
    given = _by_topic(formats, inputs)
    paths = {
        topic: os.fspath(each)
        for topic, each in given.items()
        if isinstance(each, str | os.PathLike)
    }
    with open_inputs(paths, formats, "run:") as records:
        yield {
            topic: records[topic] if topic in records else map(_encoded, cast(Any, each))
            for topic, each in given.items()
        }


def _by_topic(formats: Mapping[str, SourceFormat], inputs: Inputs) -> Mapping[str, Records]:
    """Return the inputs by raw topic.

    Raises:
        ConfigurationError: a topic must be named, no source reads it, or a format needs a schema
            registry.
    """
    topics = ", ".join(formats)
    framed = [topic for topic, each in formats.items() if needs_registry(each)]
    if framed:
        raise ConfigurationError(
            f"run: records of {framed[0]} need a schema registry; run the pipeline with "
            "tidemark.testing (docs/testing.md), or on a broker"
        )
    if not isinstance(inputs, Mapping):
        if len(formats) > 1 or any(map(is_pattern, formats)):
            raise ConfigurationError(
                f"run: name the topic of each input, {{'TOPIC': ...}}; topics are {topics}"
            )
        inputs = {next(iter(formats)): inputs}
    for topic in inputs:
        if not covers(list(formats), topic):
            raise ConfigurationError(f"run: no source reads topic {topic!r}; topics are {topics}")
    return inputs


def _encoded(record: object) -> bytes:
    """Return a record as bytes.

    Raises:
        ConfigurationError: it is neither a mapping nor bytes.
    """
    if isinstance(record, bytes):
        return record
    if isinstance(record, Mapping):
        return msgspec.json.encode(record)
    remedy = _REMEDIES.get(type(record), "")
    raise ConfigurationError(
        f"run: a record is a mapping or bytes, not {type(record).__name__}{remedy}"
    )
