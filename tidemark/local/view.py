"""Reads input files and prints results for ``tidemark try``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

import polars as pl

from tidemark.core.time.assigners import RecordTime
from tidemark.core.time.raw_topics import covers, is_pattern
from tidemark.core.windows.pane import END_OF_INPUT
from tidemark.errors import ConfigurationError
from tidemark.files.content import open_content
from tidemark.files.records import file_records
from tidemark.local.run import LocalRun
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.dead_letters import DeadLetterEncoder, encode_dead_letters
from tidemark.serde.formats.source_format import SourceFormat
from tidemark.serde.json_results import JsonEncoder


@contextmanager
def open_inputs(
    inputs: Sequence[str], formats: Mapping[str, SourceFormat]
) -> Iterator[dict[str, Iterable[bytes]]]:
    """Return a context with the records of input files, by raw topic.

    Args:
        inputs: ``FILE``, ``-`` for stdin, or ``TOPIC=FILE``.
        formats: by raw topic of the pipeline, as its sources name it.

    Raises:
        ConfigurationError: a file cannot be read, or its topic is unclear or has an input already.
    """
    with ExitStack() as files:
        records: dict[str, Iterable[bytes]] = {}
        for argument in inputs:
            topic, path = _named(argument, list(formats))
            if topic in records:
                raise ConfigurationError(
                    f"--input {argument}: {topic} has an input already; give one file per topic"
                )
            what = f"--input {path}"
            format_ = next(each for name, each in formats.items() if covers([name], topic))
            content = files.enter_context(open_content(path, what))
            records[topic] = file_records(content, format_, what)
        yield records


def _named(argument: str, topics: Sequence[str]) -> tuple[str, str]:
    topic, equals, path = argument.partition("=")
    if equals and covers(topics, topic):
        return topic, path
    if len(topics) > 1 or any(map(is_pattern, topics)):
        raise ConfigurationError(
            f"--input {argument}: name its topic as TOPIC=FILE; topics are {', '.join(topics)}"
        )
    return topics[0], argument


def write_results(run: LocalRun, out: BinaryIO, *, every_pane: bool) -> None:
    """Write results and late rows of every operator, then dead letters, as JSON lines."""
    for published in run.published.values():
        for each in published.plan.published:
            name = each.port.name
            rows = published.every(name) if every_pane else published.last(name)
            if rows.height:
                _write(out, each.topic, _encoded(rows, JsonEncoder(each.port)))
    # Which topic's records die first depends on the cuts.
    raw = sorted(run.dead_letters, key=lambda letter: (letter.topic, letter.offset))
    _write(out, run.plan.dead_letters, encode_dead_letters(raw)[1])
    _write(out, run.plan.dead_letters, run.handover.letters)
    for published in run.published.values():
        for each in published.plan.ports:
            if each.port.is_dead_letters:
                name = each.port.name
                rows = published.every(name) if every_pane else published.last(name)
                if rows.height:
                    letters = DeadLetterEncoder(each.port, each.topic).encode(rows)[1]
                    _write(out, run.plan.dead_letters, letters)
    out.flush()


def _encoded(rows: pl.DataFrame, encoder: JsonEncoder) -> BinaryColumn[bytes]:
    """Encode rows; only those that the end of input published show END_OF_INPUT."""
    if END_OF_INPUT not in rows.columns:
        return encoder.encode(rows)[1]
    marked = rows[END_OF_INPUT]
    _, plain = encoder.encode(rows.filter(~marked).drop(END_OF_INPUT))
    _, others = encoder.encode(rows.filter(marked))
    return plain.merged(others, marked.to_numpy())


def _write(out: BinaryIO, topic: str, values: Iterable[bytes]) -> None:
    out.writelines(b'{"topic":"%s","value":%s}\n' % (topic.encode(), value) for value in values)


def summary(run: LocalRun) -> Iterator[str]:
    """Yield one line per raw topic and operator: counts of records and rows, and their fates.

    Warnings about the inputs come first.
    """
    yield from (f"warning: {warning}" for warning in run.warnings)
    for topic, counts in run.counts.items():
        if counts.dead and _has_record_time(run, topic):
            yield (
                f"warning: records of {topic} are dead: event_time=RECORD_TIME is the Kafka "
                "timestamp, which a record of a file does not have; name a column or INGEST_TIME"
            )
        elif counts.records > 1 and counts.dead == counts.records:
            yield f"warning: all records of {topic} are dead; is the source of another format?"
    for topic, counts in run.counts.items():
        converted = f"; {counts.converted} values converted" if counts.converted else ""
        yield (
            f"{topic}: {counts.records} records = {counts.passed} passed + {counts.filtered} "
            f"filtered + {counts.dead} dead + {counts.blank} blank{converted}"
        )
    for name, published in run.published.items():
        tally = published.tally
        dead = f" + {tally.dead} dead" * bool(tally.dead)
        failed = f"; {tally.failed} panes failed" * bool(tally.failed)
        rows = f"{tally.rows} rows = {tally.accepted} accepted + {tally.late} late{dead}"
        duplicates = f"; duplicates: {tally.duplicates}" * bool(tally.duplicates)
        yield f"{name}: {rows}{duplicates}{failed}"


def _has_record_time(run: LocalRun, topic: str) -> bool:
    return any(
        isinstance(source.event_time, RecordTime) and covers(source.topics, topic)
        for source in run.plan.sources
    )
