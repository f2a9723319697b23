"""What happened to a pipeline after a letter was written: resets, and rows that operators took.

A reset reads records again.  Then a record that the present program takes is in the results
already, although its old letter is still in the topic.
"""

from collections.abc import Iterable, Mapping

from confluent_kafka.admin import AdminClient

from tidemark.core.time.segment import NEVER_MS
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.generations import newest_generations
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.progress import SourceProgress, decode
from tidemark.runtime.client.recorded_program import recorded_program
from tidemark.runtime.client.topics import partition_counts, raw_counts
from tidemark.runtime.config import Config
from tidemark.runtime.letters.raw_records import Shifts
from tidemark.runtime.letters.selection import StoredLetter

_ANSWER_S = 10.0


class Past:
    """The generations of operators, and which operators refused which rows."""

    def __init__(self, started_ms: Mapping[str, int], refusals: Iterable[StoredLetter]) -> None:
        """``started_ms``: by operator, when it was last started afresh, ms UTC, if ever.

        ``refusals``: the letters of rows.
        """
        self._started_ms = started_ms
        self._refused: dict[str, set[str]] = {}
        for each in refusals:
            if each.at_ms >= started_ms.get(each.letter.stage, 0):
                self._refused.setdefault(each.letter.place, set()).add(each.letter.stage)

    def read_again_ms(self, stored: StoredLetter) -> int | None:
        """Return when the record of a letter was read again after the letter, if it was.

        A reset of all operators reads raw topics again, and a reset of one operator its log.  For a
        record, every operator that ever started afresh must have done so after the letter.
        """
        if stored.letter.kind == "row":
            at_ms = self._started_ms.get(stored.letter.stage, 0)
        else:
            at_ms = min(self._started_ms.values(), default=0)
        return at_ms if at_ms > stored.at_ms else None

    def taken_by(self, stored: StoredLetter, rows: Mapping[str, int]) -> list[str]:
        """Return the operators that have taken rows of the record of a letter.

        ``rows``: by operator, how many rows of the record it gets.  Of an operator that gets
        several rows, the letters do not say which it has taken.
        """
        refused = self._refused.get(stored.letter.place, set())
        return [name for name, count in rows.items() if count > 1 or name not in refused]


def started_afresh(config: Config, admin: AdminClient, plan: Plan) -> dict[str, int]:
    """Return when operators of a plan were last started afresh, ms UTC, if ever."""
    if plan.generations not in partition_counts(admin):
        return {}
    names = {each.name for each in plan.operators}
    found: dict[str, int] = {}
    for (name, _), each in newest_generations(config, admin, plan.generations).items():
        if name in names and each.number:
            found[name] = max(found.get(name, 0), each.number)
    return found


def recorded_shifts(config: Config, admin: AdminClient, plan: Plan) -> Shifts:
    """Return what logs add to the offsets of raw topics, by topic and partition."""
    program = recorded_program(config, admin, plan.generations)
    return {} if program is None else {name: each.shifts for name, each in program.sources.items()}


def watermarks(config: Config, plan: Plan, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the watermarks, ms UTC, that ingest has committed of raw partitions, if any."""
    found = committed_offsets(config, plan.group("ingest"), partitions, _ANSWER_S)
    known = {Partition(each.topic, each.partition): each.metadata for each in found}
    progress = {at: decode(text, SourceProgress, str(at)) for at, text in known.items() if text}
    return {at: each.watermark_ms for at, each in progress.items() if each.watermark_ms > NEVER_MS}


def raw_partitions(admin: AdminClient, plan: Plan) -> list[Partition]:
    """Return the partitions of the raw topics of a plan."""
    return [
        Partition(topic, n)
        for topic, count in raw_counts(admin, plan).items()
        for n in range(count)
    ]
