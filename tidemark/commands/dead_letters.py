"""``tidemark dead-letters list | show | retry``: what was refused, why, and once more."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient

from tidemark.commands.letter_options import (
    Key,
    Offsets,
    Reason,
    Since,
    Stage,
    Topic,
    Until,
    edit_of,
    selection,
)
from tidemark.commands.letters_view import (
    as_json,
    attempt_line,
    detail_lines,
    group_lines,
    groups_as_json,
    letter_lines,
    outcome_line,
)
from tidemark.commands.options import Bootstrap, JsonLines, PipelineArgument, broker_config
from tidemark.errors import ConfigurationError
from tidemark.language.load import load_pipeline
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.config import Config
from tidemark.runtime.letters.attempts import Attempt
from tidemark.runtime.letters.past import (
    Past,
    raw_partitions,
    recorded_shifts,
    started_afresh,
    watermarks,
)
from tidemark.runtime.letters.raw_records import RawRecords
from tidemark.runtime.letters.reader import LetterReader
from tidemark.runtime.letters.retried import read_retried
from tidemark.runtime.letters.retry import RetryJob
from tidemark.runtime.letters.selection import Selection, StoredLetter
from tidemark.runtime.letters.summary import By, Summary

app = typer.Typer(
    help="List, show and send again the records that a pipeline refused.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@app.command("list")
def list_(
    pipeline: PipelineArgument,
    by: Annotated[
        By | None, typer.Option(help="Count letters with the same reason, stage or topic.")
    ] = None,
    newest: Annotated[
        int, typer.Option("--newest", "-n", min=0, help="How many letters to show.")
    ] = 20,
    reason: Reason = None,
    stage: Stage = None,
    topic: Topic = None,
    key: Key = None,
    offsets: Offsets = None,
    since: Since = None,
    until: Until = None,
    json: JsonLines = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """List the newest dead letters, or count them with --by.

    Reads the topic of dead letters up to its present end.  Long keys and values are cut;
    'tidemark dead-letters show' has all of them.
    """
    plan, config, admin = _opened(pipeline, bootstrap_server)
    chosen = selection([], reason, stage, topic, key, offsets, since, until)
    summary = Summary(by, 0 if by else newest)
    for stored in LetterReader(config, admin, plan.dead_letters).read(chosen):
        summary.add(stored)
    if by:
        _print(groups_as_json(summary) if json else group_lines(summary))
        return
    retried = _retried(config, admin, plan, summary.kept)
    _print(
        (as_json(each, retried.get(each.id)) for each in summary.kept)
        if json
        else letter_lines(summary, retried)
    )


@app.command()
def show(
    pipeline: PipelineArgument,
    letter: Annotated[
        str,
        typer.Argument(metavar="LETTER", help="Number in the list, or TOPIC/PARTITION/OFFSET."),
    ],
    json: JsonLines = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Show a dead letter: reason, record with headers, and the source that refused it."""
    plan, config, admin = _opened(pipeline, bootstrap_server)
    chosen = selection([letter])
    found = list(LetterReader(config, admin, plan.dead_letters).read(chosen))
    if not found:
        raise ConfigurationError(f"{plan.dead_letters} has no letter of {letter}")
    retried = _retried(config, admin, plan, found)
    if json:
        _print(as_json(each, retried.get(each.id)) for each in found)
        return
    records = RawRecords(config, admin, recorded_shifts(config, admin, plan))
    for number, each in enumerate(found):
        origin = records.of([each.letter])[0] if each.letter.kind != "pane" else None
        lines = detail_lines(plan, pipeline, each, origin, retried.get(each.id))
        _print(chain([""] * bool(number), lines))


@app.command()
def retry(
    pipeline: PipelineArgument,
    letters: Annotated[
        list[str] | None,
        typer.Argument(metavar="LETTER", help="Numbers, or TOPIC/PARTITION/OFFSET."),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All letters, or all that the options select.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Replace a field of the JSON record; VALUE is JSON, else text; repeatable.",
        ),
    ] = None,
    value: Annotated[
        str | None, typer.Option(metavar="FILE", help="The whole new value; - for stdin.")
    ] = None,
    through: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A function of value and letter that returns the new value, or None to leave "
            "the letter alone.",
        ),
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Edit the value with $EDITOR.")] = False,
    set_key: Annotated[str | None, typer.Option(metavar="TEXT", help="The new key.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also what was sent or read again before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what would happen to the letters.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    reason: Reason = None,
    stage: Stage = None,
    topic: Topic = None,
    key: Key = None,
    offsets: Offsets = None,
    since: Since = None,
    until: Until = None,
    bootstrap_server: Bootstrap = None,
) -> int:
    """Send records of dead letters to the end of their raw partitions, edited if wanted, once each.

    The present program runs over each record first: a record that it would refuse is not sent.
    Exit status 1 if a letter was not sent.
    """
    names = letters or []
    if bool(names) == all_:
        raise typer.BadParameter("name letters, or give --all")
    if len(names) != 1 and value is not None:
        raise typer.BadParameter("--value needs one letter")
    if all_ and edit:
        raise typer.BadParameter("--all goes with --set or --through, not with --edit")
    change = edit_of(set_ or [], value, through, set_key, editor=edit)
    plan, config, admin = _opened(pipeline, bootstrap_server)
    reader = LetterReader(config, admin, plan.dead_letters)
    chosen = selection(names, reason, stage, topic, key, offsets, since, until)
    places = _row_places(reader, chosen, ask=all_ and not yes and not dry_run)
    past = Past(started_afresh(config, admin, plan), _of_rows(reader, places))
    job = RetryJob(config, admin, plan, past, again=again, dry_run=dry_run)
    marks = watermarks(config, plan, raw_partitions(admin, plan))
    states: Counter[str] = Counter()
    for attempt in job.run(reader.read(chosen), change):
        states[attempt.state] += 1
        if names or attempt.state != "repeated":
            typer.echo(attempt_line(attempt, _behind_ms(attempt, marks)))
    typer.echo(outcome_line(states))
    failures = {"refused", "impossible", *(["repeated"] if names else [])}
    return int(any(states[state] for state in failures))


def _opened(pipeline: str, bootstrap_server: str | None) -> tuple[Plan, Config, AdminClient]:
    plan = load_pipeline(pipeline).plan()
    config = broker_config(bootstrap_server).model_copy(update={"pipeline": pipeline})
    return plan, config, require_broker(config)


def _print(lines: Iterable[str] | Iterable[bytes]) -> None:
    for line in lines:
        if isinstance(line, bytes):
            sys.stdout.buffer.write(line)
        else:
            typer.echo(line)
    sys.stdout.buffer.flush()


def _retried(
    config: Config, admin: AdminClient, plan: Plan, letters: Iterable[StoredLetter]
) -> dict[int, int]:
    """Return when the records of letters were sent again, by the id of the letter."""
    kept = list(letters)
    keys = read_retried(config, admin, plan.retried, {each.letter.place for each in kept})
    by_place = {key.rpartition(" ")[0]: at_ms for key, at_ms in keys.items()}
    found = {}
    for each in kept:
        letter = each.letter
        is_row = letter.kind == "row"  # its letter does not have the content of the record
        at_ms = by_place.get(letter.place) if is_row else keys.get(letter.record_key)
        if at_ms is not None:
            found[each.id] = at_ms
    return found


def _row_places(reader: LetterReader, chosen: Selection, *, ask: bool) -> set[str]:
    """Return the records of the selected letters that operators refused; may ask before."""
    count, places = 0, set()
    for stored in reader.read(chosen):
        count += 1
        if stored.letter.kind == "row":
            places.add(stored.letter.place)
    if ask:
        typer.confirm(f"Send the records of {count} letters again?", abort=True)
    return places


def _of_rows(reader: LetterReader, places: set[str]) -> Iterator[StoredLetter]:
    """Yield all letters of operators about some records."""
    for stored in reader.read(Selection(places=frozenset(places))) if places else ():
        if stored.letter.kind == "row":
            yield stored


def _behind_ms(attempt: Attempt, marks: dict[Partition, int]) -> int | None:
    """Return how far the rows of a record are behind the watermark of its partition."""
    letter, verdict = attempt.stored.letter, attempt.verdict
    mark_ms = marks.get(Partition(letter.topic, letter.partition))
    if mark_ms is None or verdict is None or verdict.event_time_ms is None:
        return None
    return mark_ms - verdict.event_time_ms
