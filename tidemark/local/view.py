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
from tidemark.local.run import LocalRun, OperatorResults
from tidemark.plan.physical import Plan, PortPlan
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.dead_letters import DeadLetterEncoder, encode_dead_letters
from tidemark.serde.formats.source_format import SourceFormat
from tidemark.serde.json_results import JsonEncoder


def source_formats(plan: Plan) -> dict[str, SourceFormat]:
    """Return the formats of the raw topics of a plan, as its sources name them."""
    read = [source for source in plan.sources if source.static is None]
    return {topic: source.format for source in read for topic in source.topics}


def named_inputs(inputs: Sequence[str], topics: Sequence[str]) -> dict[str, str]:
    """Return the paths of input files, by raw topic.

    Args:
        inputs: ``FILE``, ``-`` for stdin, or ``TOPIC=FILE``.
        topics: raw topics of the pipeline, as its sources name them.

    Raises:
        ConfigurationError: the topic of a file is unclear, or has an input already.
    """
    paths: dict[str, str] = {}
    for argument in inputs:
        topic, path = _named(argument, topics)
        if topic in paths:
            raise ConfigurationError(
                f"--input {argument}: {topic} has an input already; give one file per topic"
            )
        paths[topic] = path
    return paths


@contextmanager
def open_inputs(
    paths: Mapping[str, str], formats: Mapping[str, SourceFormat], what: str = "--input"
) -> Iterator[dict[str, Iterable[bytes]]]:
    """Return a context with the records of files, by raw topic.

    Args:
        paths: by raw topic.
        formats: by raw topic of the pipeline, as its sources name it.
        what: names the argument in errors.

    Raises:
        ConfigurationError: a file cannot be read, or its records cannot be in a file.
    """
    with ExitStack() as files:
        records: dict[str, Iterable[bytes]] = {}
        for topic, path in paths.items():
            named = f"{what} {path}"
            format_ = next(each for name, each in formats.items() if covers([name], topic))
            content = files.enter_context(open_content(path, named))
            records[topic] = file_records(content, format_, named)
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
    for each, rows in published_rows(run, every_pane=every_pane):
        if rows.height:
            _write(out, each.topic, _encoded(rows, JsonEncoder(each.port)))
    _write(out, run.plan.dead_letters, dead_letters(run, every_pane=every_pane))
    out.flush()


def published_rows(run: LocalRun, *, every_pane: bool) -> Iterator[tuple[PortPlan, pl.DataFrame]]:
    """Yield the results and late rows of every operator; a frame without rows has no columns.

    ``every_pane``: every published pane, not only the last one of each window.
    """
    for published in run.published.values():
        for each in published.plan.published:
            yield each, _rows(published, each, every_pane=every_pane)


def dead_letters(run: LocalRun, *, every_pane: bool) -> list[bytes]:
    """Return the dead letters as JSON: of raw records, of chains, and of operators."""
    # Which topic's records die first depends on the cuts.
    raw = sorted(run.dead_letters, key=lambda letter: (letter.topic, letter.offset))
    letters = [*encode_dead_letters(raw)[1], *run.handover.letters]
    for published in run.published.values():
        for each in published.plan.ports:
            if each.port.is_dead_letters:
                rows = _rows(published, each, every_pane=every_pane)
                if rows.height:
                    letters += DeadLetterEncoder(each.port, each.topic).encode(rows)[1]
    return letters


def _rows(published: OperatorResults, each: PortPlan, *, every_pane: bool) -> pl.DataFrame:
    name = each.port.name
    return published.every(name) if every_pane else published.last(name)


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
