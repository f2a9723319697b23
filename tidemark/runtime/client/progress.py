"""What travels in the metadata of a committed offset: a line of JSON per partition.

The broker takes 4,095 bytes and keeps them as long as the offset.  They are committed in the same
transaction as everything else, so offset, watermark and state can never tell different stories.
"""

from typing import TypeVar

import msgspec

from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import StateError

VERSION = 1
MAX_BYTES = 2048


class SourceProgress(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """How far ingest got in one raw partition.

    ``next_offset`` ends the last mark in the log; the committed offset may be beyond it, past
    records that only the broker sees.  ``silence_ms``: what the log was last told, 0 when awake.
    ``handing_over`` and ``on_spark``: as of LogProgress.
    """

    version: int
    topic_id: str
    next_offset: int = 0
    watermark_ms: int = NEVER_MS
    silent_since_ms: int = 0
    silence_ms: int = 0
    handing_over: str = ""
    on_spark: bool = False


class LogProgress(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """How far a keyed task got in one log partition.

    ``sequence``, ``writer`` and ``previous`` name the commit of its changelogs.  ``begun``: the
    offset that its state began at, above 0 where the log did or after a reset.  ``ahead``: the
    offset was committed before them, so that they may have got no further than the commit before.
    ``snapshots``: by operator the sequence number of the newest whole snapshot, where all since was
    written in transactions; it saves a restore memory, and is left out where it has no room.
    ``handing_over``: which hand-over from Spark is under way; until it is done nobody may go on.
    ``on_spark``: Spark works on it in place of the service.
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


AnyProgress = TypeVar("AnyProgress", SourceProgress, LogProgress)


def encode(progress: SourceProgress | LogProgress) -> str:
    """Return the metadata text of an offset."""
    text = msgspec.json.encode(progress).decode()
    if len(text) > MAX_BYTES and isinstance(progress, LogProgress):
        text = msgspec.json.encode(msgspec.structs.replace(progress, snapshots={})).decode()
    assert len(text) <= MAX_BYTES, f"offset metadata of {len(text)} bytes: {text}"
    return text


def decode(text: str, kind: type[AnyProgress], where: str) -> AnyProgress:
    """Read the metadata of the offset of ``where`` (topic/partition)."""
    try:
        progress = msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise StateError(f"{where}: offset metadata {text!r} is not Tidemark's: {error}") from None
    if progress.version > VERSION:
        raise StateError(f"{where}: offset metadata has version {progress.version}: newer Tidemark")
    return progress


def check_topic(progress: SourceProgress | LogProgress, topic_id: str, where: str) -> None:
    """Stop where the topic was deleted and made again under the same name since the commit."""
    if progress.topic_id != topic_id:
        raise StateError(
            f"{where}: the topic was made anew (id {progress.topic_id} is now {topic_id}), so its "
            "offsets mean other records; start the pipeline afresh with 'tidemark reset'"
        )
