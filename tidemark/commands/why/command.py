"""``tidemark why open``: what the clocks of a pipeline wait for, and what moves them on."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
import typer

from tidemark.commands.options import Bootstrap, JsonLines, PipelineArgument, broker_config
from tidemark.commands.table import table_lines
from tidemark.commands.why.rows import late, missing, result
from tidemark.core.time.duration import duration_text
from tidemark.core.time.segment import is_operator_source, operator_of
from tidemark.errors import ConfigurationError
from tidemark.language.load import load_pipeline
from tidemark.monitor.alerts import dead_letters, todo, unready, wrong_units
from tidemark.monitor.holders import Json
from tidemark.monitor.presence import FORGOTTEN_MS
from tidemark.monitor.stats_reader import latest_stats
from tidemark.monitor.status import status, why_open
from tidemark.plan.physical import Plan
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.letters.selection import moment_ms
from tidemark.runtime.service.stats import instant_text
from tidemark.runtime.wall_clock import now_ms
from tidemark.why.reading import chosen_operator

app = typer.Typer(
    help="Say what a pipeline waits for.", rich_markup_mode=None, no_args_is_help=True
)


app.command("late")(late)
app.command("missing")(missing)
app.command("result")(result)


@app.callback()
def _why() -> None:
    """Say what a pipeline waits for."""


@app.command("open")
def open_(
    pipeline: PipelineArgument,
    operator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this operator.")
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only clocks that have not reached this end of a window: 2026-03-01T12:00:00Z.",
        ),
    ] = None,
    json: JsonLines = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Show each operator's clock, the source that holds it, and what moves it on.

    A window is open until the clock of its operator reaches its end.  Also shows what is wrong with
    processes and sources.  --json prints a line for each clock and, with ``kind``, for each of
    these.  Reads the stats that the services write;
    no service waits for this command.
    """
    plan = load_pipeline(pipeline).plan()
    if operator is not None:
        chosen_operator(plan, operator)  # raises for an unknown name
    now = now_ms()
    end_ms = moment_ms(end, "--end", now)
    config = broker_config(bootstrap_server).model_copy(update={"pipeline": pipeline})
    found = latest_stats(config, require_broker(config), plan.stats, now - FORGOTTEN_MS)
    troubles = [
        alert
        for each in found
        for alert in (
            *wrong_units(each),
            *unready(each, each.at_ms),
            *dead_letters(each, each.at_ms),
        )
    ]
    seen = status(plan.pipeline, found, troubles, now)
    if not seen["processes"]:
        raise ConfigurationError(f"{plan.stats}: no process runs, or none writes stats")
    clocks = [
        {**clock, "moves_on": moves_on(plan, clock)}
        for clock in why_open(seen, operator, end_ms)
        if clock["open"]
    ]
    alerts = [{**alert, "todo": todo(alert, plan)} for alert in seen["alerts"]]
    lines = map(_as_json, [*clocks, *alerts]) if json else _lines(alerts, clocks, end_ms)
    for line in lines:
        typer.echo(line)


def _lines(alerts: Iterable[Json], clocks: Sequence[Json], end_ms: int | None) -> Iterator[str]:
    yield from clock_lines(clocks, end_ms)
    for alert in alerts:
        yield f"{alert['process']}: {alert['kind']}: {alert['text']}"
        yield f"  {alert['todo']}"


def _as_json(clock: Json) -> str:
    return msgspec.json.encode(clock).decode()


def clock_lines(clocks: Sequence[Json], end_ms: int | None) -> Iterator[str]:
    """Yield a table of clocks, and for each source that holds some of them what moves them on."""
    if not clocks:
        yield "no clock" if end_ms is None else f"no clock is before {instant_text(end_ms)}"
        return
    rows = [["operator", "partition", "clock", "open windows", "it waits for"]]
    for clock in clocks:
        at_ms = clock["clock_ms"]
        rows.append(
            [
                clock["operator"],
                str(clock["partition"]),
                "-" if at_ms is None else instant_text(at_ms),
                str(clock["open_windows"]),
                clock["why"],
            ]
        )
    yield from table_lines(rows, right=(1, 3))
    yield from dict.fromkeys(clock["moves_on"] for clock in clocks)


def moves_on(plan: Plan, clock: Json) -> str:
    """Return a sentence that says what moves a clock on."""
    held_by = clock["held_by"]
    if held_by is None:
        waits = any(each.waits for each in plan.sources)
        silence = "" if waits else ", and so does silence, as fast as the wall clock"
        return f"a record of any source moves it on{silence}; `tidemark flush` closes what is open"
    if is_operator_source(held_by):
        return f"the clock of operator {operator_of(held_by)} moves it on"
    topic = held_by.rpartition("/")[0]
    said = f"a later record of {held_by} moves it on"
    source = next((each for each in plan.sources if each.reads(topic)), None)
    if source is None:  # the running services have another program
        return said
    return f"{said}, or no record of it for {duration_text(source.idle_after_ms)} (idle_after)"
