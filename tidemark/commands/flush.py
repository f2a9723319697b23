"""``tidemark flush``: closes what is open now in a pipeline."""

from typing import Annotated

import typer

from tidemark.commands.options import Bootstrap, PipelineArgument, broker_config, time_ms
from tidemark.language.load import load_pipeline
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.client.recorded_program import placed_plan
from tidemark.runtime.ingest.flush import PipelineFlush


def flush(
    pipeline: PipelineArgument,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Close only what ends by TIME; by default all."),
    ] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds that ingest may take.")
    ] = 60.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Close what is open now: windows, sessions, joins that wait, patterns with time left.

    TIME is like 2026-03-02T08:00:00Z. Later records with an earlier time are late.
    """
    until_ms = None if until is None else time_ms(until)
    config = broker_config(bootstrap_server)
    admin = require_broker(config)
    plan = placed_plan(config, admin, load_pipeline(pipeline).plan())
    planned = PipelineFlush(config, admin, plan, until_ms, wait_s)
    for line in planned.lines():
        typer.echo(line)
    if not yes:
        typer.confirm("Do it?", abort=True)
    if planned.run():
        typer.echo("done: ingest has written the flush to the logs")
    else:
        typer.echo(f"written; ingest has not read the flush within {wait_s:g} s: it needs to run")
