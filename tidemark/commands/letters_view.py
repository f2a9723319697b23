"""Formats dead letters for ``tidemark dead-letters``: tables, one letter in full, and retries."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidemark.commands.table import table_lines
from tidemark.core.rows.schema import Field
from tidemark.plan.physical import Plan, SourcePlan
from tidemark.runtime.letters.attempts import Attempt, obstacle
from tidemark.runtime.letters.raw_records import Origin, RawRecord
from tidemark.runtime.letters.selection import StoredLetter
from tidemark.runtime.letters.summary import Summary
from tidemark.runtime.service.stats import instant_text
from tidemark.serde.letters import Letter

_COLUMN = re.compile(r"(?:element (\d+): )?(?:column|event time) (.+?): ")
_LONGEST_REASON, _LONGEST_STAGE, _LONGEST_VALUE, _LONGEST_CAME = 120, 40, 4_000, 200
_LABEL = 11

RetriedOf = Mapping[int, int]
"""When the records of letters were sent again, ms UTC, by the id of the letter."""


def group_lines(summary: Summary) -> Iterator[str]:
    """Yield a table of the groups of letters, the largest first, and the number of all."""
    by_reason = summary.by == "reason"
    titles = ["stage", "reason"] if by_reason else [summary.by or "stage"]
    rows = [["letters", *titles, "newest"]]
    for (first, second), count in summary.groups.most_common():
        cells = [second, _one_line(first, _LONGEST_REASON)] if by_reason else [first or second]
        rows.append([str(count), *cells, str(summary.examples[first, second].id)])
    yield from table_lines(rows, right=(0, len(rows[0]) - 1))
    yield f"{summary.count} letters"


def letter_lines(summary: Summary, retried: RetriedOf) -> Iterator[str]:
    """Yield a table of the newest letters, the oldest of them first, and the number of all."""
    rows = [["letter", "written", "stage", "record", "reason"]]
    for each in summary.kept:
        letter = each.letter
        again = f" (sent again {instant_text(retried[each.id])})" if each.id in retried else ""
        reason = _one_line(letter.reason, _LONGEST_REASON) + again
        rows.append(
            [
                str(each.id),
                instant_text(each.at_ms),
                _one_line(letter.stage, _LONGEST_STAGE),
                letter.place,
                reason,
            ]
        )
    yield from table_lines(rows, right=(0,))
    shown = len(summary.kept)
    yield f"{summary.count} letters" + (f", the newest {shown}" if shown < summary.count else "")


def as_json(stored: StoredLetter, retried_ms: int | None) -> bytes:
    """Return a letter as a line of JSON: its fields, its id and when it was written."""
    shown = {
        "letter": stored.id,
        "written_ms": stored.at_ms,
        "retried_ms": retried_ms,
        **msgspec.to_builtins(stored.letter),
    }
    return msgspec.json.encode(shown) + b"\n"


def groups_as_json(summary: Summary) -> Iterator[bytes]:
    """Yield groups of letters as lines of JSON, the largest first."""
    for (first, second), count in summary.groups.most_common():
        group = (
            {"reason": first, "stage": second}
            if summary.by == "reason"
            else {summary.by: first or second}
        )
        newest = summary.examples[first, second].id
        yield msgspec.json.encode({**group, "letters": count, "newest": newest}) + b"\n"


def detail_lines(
    plan: Plan, pipeline: str, stored: StoredLetter, origin: Origin | None, retried_ms: int | None
) -> Iterator[str]:
    """Yield everything about a letter; ``origin``: its raw record, None for letters of panes."""
    letter = stored.letter
    record = origin.record if origin else None
    yield _line("letter", f"{stored.id}, written {instant_text(stored.at_ms)}")
    yield _line("reason", letter.reason)
    yield _line("stage", letter.stage)
    yield from _operator_lines(plan, letter)
    yield _line("results" if letter.kind == "pane" else "record", _place_text(letter, record))
    if origin is not None and origin.note:
        yield _line("", origin.note)
    yield from _source_lines(plan, letter, record)
    key, value = (record.key, record.value) if record else (letter.raw_key, letter.raw_value)
    yield _line("key", _bytes_text(key))
    for name, content in (record.headers if record else None) or ():
        yield _line("header", f"{name} = {_bytes_text(content)}")
    if letter.kind == "row":
        yield _line("row", _bytes_text(letter.raw_value))
    yield _line("value", _bytes_text(value))
    if retried_ms is not None:
        yield _line("sent again", instant_text(retried_ms))
    yield _line("next", _advice(letter, pipeline, stored.id, retried_ms))


def attempt_line(attempt: Attempt, behind_ms: int | None) -> str:
    """Return what became of a letter; ``behind_ms``: how far its rows are behind the watermark."""
    letter = attempt.stored.letter
    words = {
        "sent": f"sent to the end of {letter.topic}/{letter.partition}",
        "checked": f"would be sent to the end of {letter.topic}/{letter.partition}",
        "refused": "not sent, would be refused again",
        "repeated": "not sent",
        "twin": "another letter has this record",
        "impossible": "cannot be sent again",
        "left out": "not sent",
    }[attempt.state]
    notes = [attempt.note] if attempt.note else []
    if attempt.state in ("sent", "checked") and attempt.verdict is not None:
        notes += _time_notes(attempt, behind_ms)
    return f"{attempt.stored.id} {letter.place}: {words}" + "".join(f"; {note}" for note in notes)


def _time_notes(attempt: Attempt, behind_ms: int | None) -> Iterator[str]:
    assert attempt.verdict is not None
    at_ms = attempt.verdict.event_time_ms
    if at_ms is None:
        yield "it gives no rows: the pipeline filters it"
    else:
        yield f"event time {instant_text(at_ms)}"
    if behind_ms is not None and behind_ms > 0:
        yield (
            f"{behind_ms / 1000:,.0f} s behind the watermark, so windows that have closed take it "
            "only within their allowed lateness"
        )


def outcome_line(states: Counter[str]) -> str:
    """Return how many letters had which outcome."""
    words = {
        "sent": "sent again",
        "checked": "would be sent",
        "refused": "refused by the present program",
        "repeated": "sent or read again before",
        "twin": "with the record of another letter",
        "impossible": "cannot be sent again",
        "left out": "left out",
    }
    counts = [f"{states[state]} {text}" for state, text in words.items() if states[state]]
    return ", ".join(counts) or "no letter is selected"


def _operator_lines(plan: Plan, letter: Letter) -> Iterator[str]:
    for operator in plan.operators:
        if operator.name == letter.stage and letter.kind != "record":
            yield _line("operator", f"{operator.name}: {operator.description}")


def _place_text(letter: Letter, record: RawRecord | None) -> str:
    at_ms = record.timestamp_ms if record else letter.timestamp_ms
    stamp = "" if at_ms is None or at_ms < 0 else f", timestamp {instant_text(at_ms)}"
    return f"{letter.place}{stamp}"


def _source_lines(plan: Plan, letter: Letter, record: RawRecord | None) -> Iterator[str]:
    """Yield where the source is declared, and the column that the reason names."""
    source = next((each for each in plan.sources if each.reads(letter.topic)), None)
    if source is None:
        return
    yield _line("source", f"{source.name}, declared in {source.declared_at or 'the pipeline'}")
    found = _COLUMN.match(letter.reason)
    column = _column(source, found[2]) if found else None
    if found and column is not None:
        value = record.value if record else letter.raw_value
        came = _came(value, found[1], column.place)
        yield _line("column", f"{column.name}: {column}; the record has {came}")


def _column(source: SourcePlan, place: str) -> Field | None:
    """Return the column that a reason names, by its place in the record or by its name."""
    fits = [
        each
        for each in source.schema.fields
        for name in (".".join(each.place), each.name)
        if place == name or place.startswith((f"{name}.", f"{name}["))
    ]
    return max(fits, key=lambda each: len(each.place), default=None)


def _came(value: bytes | None, element: str | None, place: Sequence[str]) -> str:
    """Return what a record has at a place, as JSON; ``element``: of an array of records."""
    found = msgspec.Raw(value or b"")
    try:
        if element is not None:
            found = msgspec.json.decode(found, type=list[msgspec.Raw])[int(element)]
        for name in place:
            found = msgspec.json.decode(found, type=dict[str, msgspec.Raw])[name]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError):
        return "no such field"
    return _one_line(bytes(found).decode(errors="replace"), _LONGEST_CAME)


def _advice(letter: Letter, pipeline: str, number: int, retried_ms: int | None) -> str:
    reason = obstacle(letter, pipeline)
    if reason:
        return reason
    again = " --again" if retried_ms is not None else ""
    command = f"tidemark dead-letters retry {pipeline} {number}{again}"
    if letter.kind == "row":
        return f"correct the function, then {command}"
    return f"{command}, with --set FIELD=VALUE, --edit or another option"


def _bytes_text(raw: bytes | None) -> str:
    if raw is None:
        return "none"
    try:
        return _cut(raw.decode(), _LONGEST_VALUE)
    except UnicodeDecodeError:
        return "hex " + _cut(raw[: _LONGEST_VALUE // 2].hex(" "), _LONGEST_VALUE)


def _line(label: str, text: str) -> str:
    return f"{label:{_LABEL}}{text}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


def _one_line(text: str, longest: int) -> str:
    return _cut(" ".join(text.split()), longest)
