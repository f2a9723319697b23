"""``tidemark why late``, ``missing`` and ``result``: what became of rows, found by replaying a key.

See docs/why.md.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from tidemark.commands.options import Bootstrap, JsonLines, PipelineArgument, broker_config
from tidemark.commands.table import table_lines
from tidemark.core.operators.ports import LATE, PANES
from tidemark.core.time.duration import duration_text
from tidemark.core.windows.pane import END, REVISION, START, TIMING
from tidemark.errors import ConfigurationError
from tidemark.language.load import load_pipeline
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.client.recorded_program import placed_plan
from tidemark.runtime.letters.past import recorded_shifts
from tidemark.runtime.letters.raw_records import RawRecord, RawRecords
from tidemark.runtime.letters.selection import moment_ms
from tidemark.runtime.service.stats import instant_text
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.json_results import JsonEncoder
from tidemark.why.as_test import as_test
from tidemark.why.key_replay import KeyRow, standing
from tidemark.why.keys import EXAMPLE
from tidemark.why.late_rows import LateRowCounts, shown_buckets
from tidemark.why.reading import Reading, chosen_operator
from tidemark.why.search import facts_of, key_replay, times_of

OperatorName = Annotated[
    str | None, typer.Option(metavar="NAME", help="The operator; needed if there are several.")
]
Key = Annotated[str, typer.Option(metavar="KEY", help=f"The key: {EXAMPLE}.")]
_WHEN = "2026-03-01T12:00:00Z"


def _reading(pipeline: str, bootstrap_server: str | None) -> Reading:
    config = broker_config(bootstrap_server).model_copy(update={"pipeline": pipeline})
    admin = require_broker(config)
    return Reading(config, admin, placed_plan(config, admin, load_pipeline(pipeline).plan()))


def late(
    pipeline: PipelineArgument,
    operator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this operator.")
    ] = None,
    json_: JsonLines = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Show how late the recorded late rows are, and which lateness would have saved them."""
    reading = _reading(pipeline, bootstrap_server)
    plans = (
        reading.plan.operators if operator is None else [chosen_operator(reading.plan, operator)]
    )
    for plan in plans:
        ports = [each for each in plan.published if each.port.kind == LATE]
        if not ports:
            continue
        counts = LateRowCounts()
        for port in ports:
            counts.add(each.fields for each in reading.published(port))
        for line in _late_json(plan, counts) if json_ else late_lines(plan.name, counts):
            typer.echo(line)


def _late_json(plan: OperatorPlan, counts: LateRowCounts) -> Iterator[str]:
    yield json.dumps(
        {
            "operator": plan.name,
            "rows": counts.rows,
            "buckets": shown_buckets(counts.buckets()),
            "saves_ms": {str(share): more_ms for share, more_ms in counts.cures().items()},
            "reasons": dict(counts.reasons),
            "sources": dict(counts.sources.most_common()),
        }
    )


def late_lines(operator: str, counts: LateRowCounts) -> Iterator[str]:
    """Yield the histogram of an operator's late rows, and the lateness that saves them."""
    if not counts.rows:
        yield f"{operator}: no late rows are recorded"
        return
    yield f"{operator}: {counts.rows} late rows are recorded"
    buckets = counts.buckets()
    if buckets:
        rows = [["late by at most", "rows", "up to here", ""]]
        most = max(each.rows for each in buckets)
        for each in buckets:
            bound = "more" if each.bound_ms is None else duration_text(each.bound_ms)
            up_to = f"{each.saved / len(counts.late_by_ms):.1%}"
            rows.append([bound, str(each.rows), up_to, "#" * max(1, 30 * each.rows // most)])
        yield from table_lines(rows, right=(0, 1, 2))
    for share, more_ms in counts.cures().items():
        yield (
            f"{share:.0%} of them count with an allowed lateness, or a bound of the watermark, "
            f"that is {duration_text(more_ms)} larger"
        )
    for reason, count in counts.reasons.most_common():
        yield f"{count} rows: {reason}; no lateness saves them"
    for source, count in counts.sources.most_common(5):
        yield f"{count} rows are of {source}"


def missing(
    pipeline: PipelineArgument,
    key: Key,
    at: Annotated[str, typer.Option(metavar="WHEN", help=f"Event time of the record: {_WHEN}.")],
    within: Annotated[
        str, typer.Option(metavar="DURATION", help="Also records up to this time later.")
    ] = "1s",
    operator: OperatorName = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="Read only raw records written since: an age or an instant."
        ),
    ] = None,
    json_: JsonLines = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Follow records of a key from the raw topic to the sink: filter, dead letter, late row, pane.

    Reads the log of the operator; raw topics only if no row of the key and time is in the log.
    """
    reading = _reading(pipeline, bootstrap_server)
    now = now_ms()
    times_ms = times_of(at, within, now, ("--at", "--within"))
    plan = chosen_operator(reading.plan, operator)
    facts = facts_of(reading, plan, key, times_ms, moment_ms(since, "--since", now))
    for fact in facts:
        typer.echo(json.dumps(fact) if json_ else fact["text"])


def result(
    pipeline: PipelineArgument,
    key: Key,
    window: Annotated[str, typer.Option(metavar="WHEN", help=f"Start of the window: {_WHEN}.")],
    operator: OperatorName = None,
    as_test_: Annotated[
        Path | None,
        typer.Option(
            "--as-test", metavar="FILE", help="Write a test with the raw records to this file."
        ),
    ] = None,
    json_: JsonLines = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Name the raw records beneath a pane, found by replaying its key."""
    reading = _reading(pipeline, bootstrap_server)
    plan = chosen_operator(reading.plan, operator)
    if plan.results.port.kind != PANES or START not in plan.results.port.identity:
        raise ConfigurationError(
            f"operator {plan.name} publishes no panes of windows with bounds: ask 'why missing'"
        )
    start_ms = moment_ms(window, "--window", now_ms())
    assert start_ms is not None
    replay = key_replay(reading, plan, key)
    pane = standing(replay.panes(start_ms))
    if pane.is_empty():
        raise ConfigurationError(
            f"the log gives no pane of {plan.name} for key {key!r} and the window that begins at "
            f"{instant_text(start_ms)}; its clock is {instant_text(replay.task.clock_ms)}"
        )
    beneath = replay.beneath(pane)
    places = RawPlaces(reading, beneath)
    for line in places.json() if json_ else beneath_lines(pane, places):
        typer.echo(line)
    if as_test_ is not None:
        _write_test(as_test_, pipeline, reading, plan, pane, places)


class RawPlaces:
    """The rows beneath a pane with the offsets that their raw topics have now."""

    def __init__(self, reading: Reading, rows: list[KeyRow]) -> None:
        """``rows``: in log order."""
        self.rows = rows
        self._reading = reading
        self._shifts = recorded_shifts(reading.config, reading.admin, reading.plan)

    def of(self, row: KeyRow) -> tuple[Partition, int] | None:
        """Return where the record of a row is; None for a result of another operator."""
        topic, _, number = row.place.source.rpartition("/")
        if topic.startswith("op:"):
            return None
        shift = self._shifts.get(topic, {}).get(number, 0)
        return Partition(topic, int(number)), row.place.offset - shift

    def shown(self, row: KeyRow) -> str:
        """Return the place of a row as text."""
        found = self.of(row)
        if found is None:
            name, _, number = row.place.source.removeprefix("op:").rpartition("/")
            return f"result {row.place.offset} of operator {name}, partition {number}"
        at, offset = found
        return f"{at} offset {offset}"

    def json(self) -> Iterator[str]:
        """Yield a line for each row."""
        for row in self.rows:
            found = self.of(row)
            yield json.dumps(
                {
                    "source": row.place.source if found is None else str(found[0]),
                    "offset": row.place.offset if found is None else found[1],
                    "sub_row": row.place.sub_row,
                    "event_time_ms": row.event_time_ms,
                    "log_offset": row.log_offset,
                }
            )

    def records(self) -> list[RawRecord]:
        """Return the raw records, in the order of the log.

        Raises:
            ConfigurationError: a row is no raw record, or its record is gone.
        """
        wanted = [self.of(row) for row in self.rows]
        places = dict.fromkeys(each for each in wanted if each is not None)
        if None in wanted:
            raise ConfigurationError(
                "--as-test: rows beneath the pane are results of another operator: ask for those"
            )
        reading = self._reading
        found = RawRecords(reading.config, reading.admin, self._shifts).read(set(places))
        for at, offset in places:
            if (at, offset) not in found:
                raise ConfigurationError(f"--as-test: {at} no longer has the record at {offset}")
        return [found[place] for place in places]


def beneath_lines(pane: pl.DataFrame, places: RawPlaces) -> Iterator[str]:
    """Yield the pane, and the rows beneath it."""
    (row,) = pane.rows(named=True)
    yield (
        f"the window {instant_text(row[START])} to {instant_text(row[END])}: revision "
        f"{row[REVISION]}, {row[TIMING]}, of {len(places.rows)} rows"
    )
    table = [["event time", "record", "segment"]]
    for each in places.rows:
        table.append([instant_text(each.event_time_ms), places.shown(each), str(each.log_offset)])
    yield from table_lines(table, right=())


def _write_test(
    path: Path,
    pipeline: str,
    reading: Reading,
    plan: OperatorPlan,
    pane: pl.DataFrame,
    places: RawPlaces,
) -> None:
    port = plan.results
    if port.format != "json":
        raise ConfigurationError(f"--as-test: the results of {plan.name} are not JSON")
    named = pane.select(name for name in port.port.columns if name in pane.columns)
    (value,) = JsonEncoder(port.port).encode(named)[1]
    fields: dict[str, Any] = json.loads(value or b"")
    shown = {*port.port.key, START, END, *port.port.values}
    end_ms = pane.item(0, END)
    first_ms = min(each.event_time_ms for each in places.rows)
    silence_ms = end_ms - first_ms + reading.plan.horizon_ms + 1_000
    expected = {name: each for name, each in fields.items() if name in shown}
    text = as_test(pipeline, reading.plan, plan.name, places.records(), expected, silence_ms)
    path.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {path}: pytest {path}")
