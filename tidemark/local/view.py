"""Reads input files and prints results for ``tidemark try``."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

import polars as pl

from tidemark.core.windows.pane import END_OF_INPUT
from tidemark.errors import ConfigurationError
from tidemark.local.run import LocalRun
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.json_results import JsonResults


@contextmanager
def open_inputs(
    inputs: Sequence[str], topics: Sequence[str]
) -> Iterator[dict[str, Iterable[bytes]]]:
    """Return a context with the lines of input files, by raw topic.

    Args:
        inputs: ``FILE``, ``-`` for stdin, or ``TOPIC=FILE``.
        topics: raw topics of the pipeline.

    Raises:
        ConfigurationError: a file cannot be read, or its topic is unclear or has an input already.
    """
    with ExitStack() as files:
        lines: dict[str, Iterable[bytes]] = {}
        for argument in inputs:
            topic, path = _named(argument, topics)
            if topic in lines:
                raise ConfigurationError(
                    f"--input {argument}: {topic} has an input already; give one file per topic"
                )
            lines[topic] = map(_without_line_end, _opened(path, files))
        yield lines


def _named(argument: str, topics: Sequence[str]) -> tuple[str, str]:
    topic, equals, path = argument.partition("=")
    if equals and topic in topics:
        return topic, path
    if len(topics) > 1:
        raise ConfigurationError(
            f"--input {argument}: name its topic as TOPIC=FILE; topics are {', '.join(topics)}"
        )
    return topics[0], argument


def _opened(path: str, files: ExitStack) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return files.enter_context(open(path, "rb"))
    except OSError as error:
        raise ConfigurationError(f"--input {path}: {error.strerror}") from None


def _without_line_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n")


def write_results(run: LocalRun, out: BinaryIO, *, every_pane: bool) -> None:
    """Write panes and late rows of every operator, then dead letters, as JSON lines."""
    for published in run.published.values():
        plan = published.plan
        encoder = JsonResults(plan.operator.key, list(plan.values), list(plan.operator.columns))
        panes = published.all_panes() if every_pane else published.last_panes()
        if panes.height:
            _write(out, plan.results, _panes(panes, encoder))
        late = published.late_rows()
        if late.height:
            _write(out, plan.late, encoder.late(late)[1])
    # The order of dead letters across topics depends on the cuts, so they are sorted.
    letters = sorted(run.dead_letters, key=lambda letter: (letter.topic, letter.offset))
    _write(out, run.plan.dead_letters, encode_dead_letters(letters)[1])
    out.flush()


def _panes(panes: pl.DataFrame, encoder: JsonResults) -> list[bytes]:
    """Return encoded panes; only panes that the end of input published have END_OF_INPUT."""
    marked = panes[END_OF_INPUT]
    plain = iter(encoder.panes(panes.filter(~marked).drop(END_OF_INPUT))[1])
    others = iter(encoder.panes(panes.filter(marked))[1])
    return [next(others if each else plain) for each in marked]


def _write(out: BinaryIO, topic: str, values: Iterable[bytes]) -> None:
    out.writelines(b'{"topic":"%s","value":%s}\n' % (topic.encode(), value) for value in values)


def summary(run: LocalRun) -> Iterator[str]:
    """Yield one line per raw topic and operator: counts of records and rows, and their fates."""
    for topic, counts in run.counts.items():
        yield (
            f"{topic}: {counts.records} records = {counts.passed} passed + {counts.filtered} "
            f"filtered + {counts.dead} dead + {counts.blank} blank"
        )
    for name, published in run.published.items():
        late = published.late_rows().height
        yield f"{name}: {published.rows} rows = {published.rows - late} accepted + {late} late"
