"""The metadata of committed offsets: one line of JSON per partition.

The broker takes up to 4,095 bytes and keeps them as long as the offset.  They are part of the same
transaction as the output, so offset, watermark and state always agree.
"""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.serde.versioned import decode_versioned

VERSION = 1
MAX_BYTES = 4000
ANY = "*"
"""In ``LogProgress.behind``: any operator whose own next offset is below the committed one."""


class Backfilled(msgspec.Struct, frozen=True, array_like=True):
    """How far a source has come in a log that still lacks records that ingest read before.

    ``new_at``: the offset that ingest had reached when the log was new.
    """

    next_offset: int
    watermark_ms: int
    new_at: int


class SourceProgress(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """How far ingest has come in one raw partition.

    ``next_offset``: the end of the source's last mark in the log.  The committed offset may be
    higher, behind records that only the broker sees.  ``silence_ms``: the silence last written to
    the log, 0 if the source is awake.  ``handing_over`` and ``on_spark``: see LogProgress.
    ``logs``: short ids of the logs that have all rows of the source below ``next_offset``; None in
    a commit of an older version.  ``backfills``: by short id, the progress in the logs that do not.
    ``shift``: the offset in the log of the raw record at offset 0; above 0 if the raw topic was
    created again.
    ``load_until``: the offset in the log up to which a source of a table is loaded; None if this is
    not known yet, or no table reads the source.
    ``unflushed_ms``: the watermark without flush records; None if these have not moved it, or if it
    is unknown, as in a commit of an older version.
    """

    version: int
    topic_id: str
    next_offset: int = 0
    watermark_ms: int = NEVER_MS
    silent_since_ms: int = 0
    silence_ms: int = 0
    handing_over: str = ""
    on_spark: bool = False
    logs: list[str] | None = None
    backfills: dict[str, Backfilled] = msgspec.field(default_factory=dict)
    shift: int = 0
    load_until: int | None = None
    unflushed_ms: int | None = None


class LogProgress(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """How far a keyed task has come in one log partition.

    ``sequence``, ``writer`` and ``previous`` name the commit of its changelogs.
    ``begun``: the offset at which its state begins; above 0 if the log begins there, or after a
    reset.
    ``ahead``: the offset was committed before the changelogs, so these may still be at the commit
    before.
    ``snapshots``: by operator, the sequence number of the newest complete snapshot, if everything
    since was written in transactions.  It saves a restore memory; it is left out if the metadata
    would be too long.
    ``handing_over``: the hand-over from Spark in progress; no process may continue until it ends.
    ``on_spark``: Spark works on the partition instead of the service.
    ``apart``: sequence number and writer of the last commit of each operator whose state is not at
    this commit.  Such an operator is new, has stopped, was reset, or is not in the pipeline now.
    The first of them are left out if the metadata would be too long.
    ``behind``: the operators that have not processed all segments below the offset; ``ANY`` alone
    if the metadata would be too long.
    """

    version: int
    topic_id: str
    sequence: int = 0
    writer: str = ""
    previous: str = ""
    begun: int = 0
    ahead: bool = False
    snapshots: dict[str, int] = msgspec.field(default_factory=dict)
    handing_over: str = ""
    on_spark: bool = False
    apart: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict)
    behind: list[str] = msgspec.field(default_factory=list)


class MarkProgress(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """How far the announcer of an operator has come in the operator's progress topic.

    ``number``, ``watermark_ms`` and ``idle``: of the last mark (core/time/announcer.py); number 0
    before the first mark.  ``on_spark``: see LogProgress.
    """

    version: int
    topic_id: str
    number: int = 0
    watermark_ms: int = NEVER_MS
    idle: bool = False
    on_spark: bool = False


Progress = SourceProgress | LogProgress | MarkProgress
AnyProgress = TypeVar("AnyProgress", SourceProgress, LogProgress, MarkProgress)


def encode(progress: Progress) -> str:
    """Return the metadata text of an offset, at most MAX_BYTES long.

    If it would be longer, ``snapshots`` is left out, then the names in ``behind``, then the first
    entries of ``apart``.  A restore finds out which operators lag.  It also finds out which are
    apart: those that are new begin, the others need a reset.
    """
    text = msgspec.json.encode(progress).decode()
    if isinstance(progress, LogProgress):
        shorter = _shorter(progress)
        while len(text) > MAX_BYTES and (short := next(shorter, None)) is not None:
            text = msgspec.json.encode(short).decode()
    assert len(text) <= MAX_BYTES, f"offset metadata of {len(text)} bytes: {text}"
    return text


def _shorter(progress: LogProgress) -> Iterator[LogProgress]:
    """Yield shorter and shorter forms of a progress; each leaves out more."""
    yield (short := msgspec.structs.replace(progress, snapshots={}))
    yield (short := msgspec.structs.replace(short, behind=[ANY] if short.behind else []))
    apart = list(short.apart.items())
    for first in range(1, len(apart) + 1):
        yield msgspec.structs.replace(short, apart=dict(apart[first:]))


def decode(text: str, kind: type[AnyProgress], where: str) -> AnyProgress:
    """Return the progress in the metadata of an offset; ``where``: topic/partition, for errors.

    Raises:
        StateError: the metadata is not Tidemark's, or of a newer version.
    """
    return decode_versioned(text, kind, VERSION, f"{where}: the metadata of the offset")


def check_topic(
    progress: Progress,
    topic_id: str,
    where: str,
    remedy: str = "start the pipeline afresh with 'tidemark reset PIPELINE'",
) -> None:
    """Check that the topic is still the one that the offset was committed for.

    ``where``: topic/partition, and ``remedy``: what to do, for the error.

    Raises:
        StateError: the topic was deleted and created again under the same name.
    """
    if progress.topic_id != topic_id:
        raise StateError(
            f"{where}: the topic was deleted and created again (its id was {progress.topic_id} and "
            f"is now {topic_id}), so the committed offset means other records; {remedy}"
        )


def on_spark_error(at: Partition | str) -> StateError:
    """Return why a service cannot take a partition: Spark works on it."""
    return StateError(
        f"{at}: Spark works on it; end 'tidemark run --on spark PIPELINE', or if that was "
        "killed, give the partition back with --release"
    )
