"""Decides what becomes of letters that are to be sent again, without sending anything.

The order of steps, for a few letters at a time:

1. Find the raw record of each letter.
2. Leave out what cannot be sent, what was sent again before, and what would count twice.
3. Edit the record, and run the present program over it: what the program refuses is not sent.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from confluent_kafka.admin import AdminClient

from tidemark.core.time.segment import is_operator_source
from tidemark.plan.physical import Plan
from tidemark.runtime.client.schema_registry import writer_schemas
from tidemark.runtime.client.topics import message_bytes, raw_counts
from tidemark.runtime.config import Config
from tidemark.runtime.letters.check import Check, Verdict
from tidemark.runtime.letters.past import Past, recorded_shifts
from tidemark.runtime.letters.raw_records import Origin, RawRecord, RawRecords
from tidemark.runtime.letters.selection import StoredLetter
from tidemark.runtime.service.stats import instant_text
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.letters import Letter

HEADER = "tidemark-retry-of"
"""The header of a record that was sent again: topic/partition/offset of the refused one."""

State = Literal["sent", "checked", "refused", "repeated", "twin", "impossible", "left out"]

_ROOM = 1_024  # of a message beside key, value and headers


@dataclass(frozen=True)
class Attempt:
    """What becomes of a letter.

    Args:
        stored: the letter.
        state: ``checked`` if its record may be sent; ``twin`` if another letter has this record.
        note: why it is not sent, or a remark about the record.
        origin: the raw record as it was refused.
        record: the record to send.
        edited: whether its key or value is another.
        verdict: the outcome of the present program for ``record``.
    """

    stored: StoredLetter
    state: State = "checked"
    note: str = ""
    origin: RawRecord | None = None
    record: RawRecord | None = None
    edited: bool = False
    verdict: Verdict | None = None

    @property
    def key(self) -> str:
        """The key in the topic of retries."""
        assert self.origin is not None
        return f"{self.origin.place} {self.origin.fingerprint}"


Edit = Callable[[RawRecord, StoredLetter], RawRecord | None]
"""Returns the record to send, or None to leave the letter alone; raises ``EditError``."""


class EditError(Exception):
    """A record cannot be edited, for a reason that concerns this record alone."""


class Attempts:
    """Decides by the present program, the raw topics, and what was sent again before."""

    def __init__(
        self,
        config: Config,
        admin: AdminClient,
        plan: Plan,
        past: Past,
        retried_ms: dict[str, int],
        *,
        again: bool,
    ) -> None:
        """``retried_ms``: when records were sent again, by ``Attempt.key``.

        ``again``: also what was sent or read again before.
        """
        self._past, self._retried_ms, self._again = past, retried_ms, again
        self._pipeline = config.pipeline
        self._check = Check(plan, now_ms(), writer_schemas(config, plan))
        self._raw = RawRecords(config, admin, recorded_shifts(config, admin, plan))
        self._partitions = raw_counts(admin, plan)
        self._room = {topic: message_bytes(admin, [topic]) - _ROOM for topic in self._partitions}

    def of(self, letters: Sequence[StoredLetter], edit: Edit) -> list[Attempt]:
        """Return what becomes of each letter, in order."""
        attempts = self._found([self._possible(each) for each in letters])
        attempts = self._judged(attempts, self._not_counted)
        attempts = [self._edited(each, edit) for each in attempts]
        return self._judged(attempts, _accepted)

    def _possible(self, stored: StoredLetter) -> Attempt:
        """Return why a letter can never be sent again, or that it may be."""
        letter = stored.letter
        reason = obstacle(letter, self._pipeline)
        if not reason and letter.topic not in self._partitions:
            reason = f"the pipeline does not read topic {letter.topic}, or it is gone"
        elif not reason and letter.partition >= self._partitions[letter.topic]:
            reason = f"topic {letter.topic} has no partition {letter.partition}"
        return Attempt(stored, "impossible" if reason else "checked", reason)

    def _found(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        left = [each.stored.letter for each in attempts if each.state == "checked"]
        origins = iter(self._raw.of(left))
        seen: set[str] = set()
        return [
            self._new(each, next(origins), seen) if each.state == "checked" else each
            for each in attempts
        ]

    def _new(self, attempt: Attempt, found: Origin, seen: set[str]) -> Attempt:
        """Return an attempt whose record exists and was not sent again, or why it is not."""
        if found.record is None:
            return replace(attempt, state="impossible", note=found.note)
        attempt = replace(attempt, origin=found.record, note=found.note)
        if attempt.key in seen:
            return replace(attempt, state="twin")
        seen.add(attempt.key)
        at_ms = self._retried_ms.get(attempt.key)
        if at_ms is not None and not self._again:
            note = f"it was sent again at {instant_text(at_ms)}"
            return replace(attempt, state="repeated", note=note)
        return attempt

    def _judged(
        self, attempts: Sequence[Attempt], judge: Callable[[Attempt, Verdict], Attempt]
    ) -> list[Attempt]:
        """Run the present program over the records that are left."""
        left = [each.record or each.origin for each in attempts if each.state == "checked"]
        verdicts: Iterator[Verdict] = iter(self._check.verdicts([each for each in left if each]))
        return [
            judge(each, next(verdicts)) if each.state == "checked" else each for each in attempts
        ]

    def _not_counted(self, attempt: Attempt, verdict: Verdict) -> Attempt:
        """Return an attempt whose record, as it was, is in no results; or why it may be."""
        stored = attempt.stored
        is_row = stored.letter.kind == "row"
        taken = self._past.taken_by(stored, verdict.rows) if is_row else []
        if taken:
            note = (
                f"{' and '.join(taken)} took rows of this record, and would count them twice: "
                f"correct the function, then {_reset(stored.letter, self._pipeline)}"
            )
            return replace(attempt, state="impossible", note=note)
        read_ms = self._past.read_again_ms(stored)
        if read_ms is not None and not verdict.is_dead and not self._again:
            note = (
                f"a reset at {instant_text(read_ms)} read the record again, and the present "
                "program takes it as it is"
            )
            return replace(attempt, state="repeated", note=note)
        return attempt

    def _edited(self, attempt: Attempt, edit: Edit) -> Attempt:
        origin = attempt.origin
        if attempt.state != "checked" or origin is None:
            return attempt
        try:
            made = edit(origin, attempt.stored)
        except EditError as error:
            return replace(attempt, state="refused", note=str(error))
        if made is None:
            return replace(attempt, state="left out", note="the edit leaves it out")
        edited = (made.key, made.value) != (origin.key, origin.value)
        headers = [pair for pair in made.headers or () if pair[0] != HEADER]
        made = replace(made, headers=[*headers, (HEADER, origin.place.encode())])
        if made.size > self._room[made.topic]:
            note = f"{made.size} bytes are too large for topic {made.topic}"
            return replace(attempt, state="refused", note=note)
        return replace(attempt, record=made, edited=edited)


def obstacle(letter: Letter, pipeline: str) -> str:
    """Return why no record of a letter can be sent again, with the remedy; empty if one may be.

    ``pipeline``: as the command line names it.
    """
    if letter.stage == "publish":
        return "a pane that fits no message: let it hold less"
    if letter.kind == "pane":
        return f"a pane has many records: correct the function, then {_reset(letter, pipeline)}"
    if is_operator_source(letter.topic):
        return "a result of many records: correct the operator after it that refuses it"
    if letter.stage == "sink":
        return "a sink refused it: correct its table, drop it, and the sink loads it again"
    return ""


def _reset(letter: Letter, pipeline: str) -> str:
    command = f"tidemark reset {pipeline} --operator {letter.stage}"
    return f"'{command}' builds its results from the log"


def _accepted(attempt: Attempt, verdict: Verdict) -> Attempt:
    if verdict.is_dead:
        note = f"{verdict.stage}: {verdict.reason}"
        return replace(attempt, state="refused", note=note, verdict=verdict)
    return replace(attempt, verdict=verdict)
