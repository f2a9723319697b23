"""Selects dead letters for a command: by reason, stage, place, key and time.  Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.core.time.duration import duration_ms
from tidemark.core.time.event_time import epoch_ms
from tidemark.errors import ConfigurationError, PipelineError
from tidemark.serde.letters import Letter

_PLACE = re.compile(r"([a-zA-Z0-9._-]+)/(\d+)/(\d+)")
_RANGE = re.compile(r"(\d*)(\.\.)?(\d*)")
_LAST_OFFSET = 2**63 - 1


@dataclass(frozen=True)
class StoredLetter:
    """A letter in the topic of dead letters; ``id``: its offset there, ``at_ms``: when written."""

    id: int
    at_ms: int
    letter: Letter


@dataclass(frozen=True)
class Selection:
    """What a letter must fulfil; everything that is None, or empty, fits every letter.

    Args:
        ids: offsets in the topic of dead letters.
        places: of raw records, as ``Letter.place`` has them.
        reason: text that the reason contains, in upper or lower case.
        stage: of ingest, a part of the name of a stateless operator, or the name of an output.
        topic: of the record; of a pane, of the results.
        key: of the record, as the letter shows it.
        offsets: of the raw record: the first and the last.
        since_ms, until_ms: when the letter was written, half-open.
    """

    ids: frozenset[int] = frozenset()
    places: frozenset[str] = frozenset()
    reason: str | None = None
    stage: str | None = None
    topic: str | None = None
    key: str | None = None
    offsets: tuple[int, int] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def fits(self, stored: StoredLetter) -> bool:
        """Return whether a letter is selected."""
        letter = stored.letter
        if (self.ids or self.places) and not (stored.id in self.ids or letter.place in self.places):
            return False
        return (
            (self.reason is None or self.reason.lower() in letter.reason.lower())
            and (self.stage is None or _is_stage(self.stage, letter.stage))
            and (self.topic is None or self.topic == letter.topic)
            and (self.key is None or self.key == letter.key)
            and (self.offsets is None or self.offsets[0] <= letter.offset <= self.offsets[1])
            and (self.since_ms is None or self.since_ms <= stored.at_ms)
            and (self.until_ms is None or stored.at_ms < self.until_ms)
        )


def _is_stage(wanted: str, stage: str) -> bool:
    """Return whether a stage is the wanted one, or an operator of that name: ``explode``."""
    return wanted == stage or stage.startswith(f"{wanted}(")


def require_names(names: list[str]) -> tuple[frozenset[int], frozenset[str]]:
    """Return the ids and the places among the names of letters.

    Raises:
        ConfigurationError: a name is neither.
    """
    ids, places = set(), set()
    for name in names:
        if name.isdecimal():
            ids.add(int(name))
        elif (found := _PLACE.fullmatch(name)) is not None:
            places.add(f"{found[1]}/{int(found[2])}/{int(found[3])}")
        else:
            raise ConfigurationError(
                f"letter {name!r} is neither a number, as 'tidemark dead-letters list' shows it, "
                "nor TOPIC/PARTITION/OFFSET of a record"
            )
    return frozenset(ids), frozenset(places)


def offset_range(text: str | None) -> tuple[int, int] | None:
    """Return the first and the last offset of ``"7"``, ``"7..9"``, ``"7.."`` or ``"..9"``.

    Raises:
        ConfigurationError: the text is no such range.
    """
    if text is None:
        return None
    found = _RANGE.fullmatch(text)
    if found is None or not (found[1] or found[3]) or bool(found[3]) > bool(found[2]):
        raise ConfigurationError(f"--offsets {text!r} is not a range such as 7, 7..9, 7.. or ..9")
    first = int(found[1] or 0)
    if found[3]:
        return first, int(found[3])
    return first, _LAST_OFFSET if found[2] else first


def moment_ms(text: str | None, option: str, now_ms: int) -> int | None:
    """Return the ms UTC of an instant, or of a duration before ``now_ms``.

    An instant without an offset is in UTC.

    Raises:
        ConfigurationError: the text is neither.
    """
    if text is None:
        return None
    try:
        return now_ms - duration_ms(text, option)
    except PipelineError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r} is neither an age such as 2h, nor an instant such as "
            "2026-03-01T12:00:00Z"
        ) from None
    return epoch_ms(at if at.tzinfo else at.replace(tzinfo=UTC))


def edited(settings: list[str]) -> Mapping[str, str]:
    """Return the fields and values of ``FIELD=VALUE`` texts.

    Raises:
        ConfigurationError: a text has no ``=``, or a field comes twice.
    """
    fields: dict[str, str] = {}
    for each in settings:
        name, equals, value = each.partition("=")
        if not equals or not name or name in fields:
            raise ConfigurationError(f"--set {each!r} is not FIELD=VALUE with a field of its own")
        fields[name] = value
    return fields
