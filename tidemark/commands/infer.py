"""``tidemark infer``: prints a pipeline module for the records of a file or topic."""

import sys
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from tidemark.commands.options import Bootstrap, broker_config
from tidemark.errors import ConfigurationError
from tidemark.infer.fit import fit_comments, plan_of
from tidemark.infer.module import Sample, infer, module_text
from tidemark.partition import Partition
from tidemark.plan.names import topic_part
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config

_STDIN = "records"


def infer_(
    source: Annotated[
        str, typer.Argument(metavar="FILE|TOPIC", help="JSON lines, - for stdin; or a raw topic.")
    ],
    records: Annotated[
        int,
        typer.Option(min=1, help="Look at this many records at the beginning and at the end."),
    ] = 10_000,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Print a pipeline module for the records of a file or topic: it runs as it is.

    The schema, the event time with its unit, the watermark and the key are guesses from the first
    and last records.  Comments say what else there is, and which records do not fit.
    """
    is_file = source == "-" or Path(source).exists() or source.endswith((".jsonl", ".json"))
    if is_file:
        topic = _STDIN if source == "-" else topic_part(Path(source).stem)
        sample = _of_file(source, records)
    else:
        topic = source
        sample = _of_topic(source, records, broker_config(bootstrap_server))
    if not sample.values:
        raise ConfigurationError(f"infer {source}: there are no records")
    inferred = infer(sample, has_timestamps=not is_file)
    origin = f"{topic}, from {len(sample.values):,} records"
    plan = plan_of(module_text(inferred, topic, origin, ()))
    text = module_text(inferred, topic, origin, tuple(fit_comments(plan, sample)))
    typer.echo(text, nl=False)


def _of_file(path: str, count: int) -> Sample:
    """Return the first and last records of a file or of stdin."""
    if path == "-":
        return _ends(sys.stdin.buffer, count)
    try:
        with open(path, "rb") as file:
            return _ends(file, count)
    except OSError as error:
        raise ConfigurationError(f"infer {path}: {error.strerror}") from None


def _ends(lines: Iterable[bytes] | BinaryIO, count: int) -> Sample:
    sample, rest = Sample(), iter(lines)
    for line in islice(rest, count):
        sample.add(line.removesuffix(b"\n"))
    for line in deque(rest, count):
        sample.add(line.removesuffix(b"\n"))
    return sample


def _of_topic(topic: str, count: int, config: Config) -> Sample:
    """Return the first and last records of a topic, the same number of each partition."""
    admin = require_broker(config)
    partitions = [Partition(topic, number) for number in range(require(admin, [topic])[topic])]
    begins = offsets(admin, partitions, EARLIEST)
    ends = offsets(admin, partitions, LATEST)
    each = max(1, count // len(partitions))
    sample = Sample()
    firsts = {at: (begins[at], min(begins[at] + each, ends[at])) for at in partitions}
    lasts = {at: (max(firsts[at][1], ends[at] - each), ends[at]) for at in partitions}
    for ranges in (firsts, lasts):
        for message in read(config, ranges):
            sample.add(message.value(), message.partition() or 0)
    return sample
