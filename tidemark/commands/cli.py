"""The command line: ``tidemark init | plan | try | run | tail | topics | reset | replay`` and more.

An error is one line on stderr and exit status 2; ``--debug`` adds its traceback.
"""

import logging
import os
import sys
import traceback
from typing import Annotated, Literal, NoReturn

import typer
from confluent_kafka import KafkaException
from rich.console import Console
from typer.exceptions import TyperException

from tidemark.commands.conformance import conformance
from tidemark.commands.dead_letters import app as dead_letters
from tidemark.commands.deployment import deployment_lines
from tidemark.commands.dev.command import dev
from tidemark.commands.flush import flush
from tidemark.commands.infer import infer_
from tidemark.commands.init import init
from tidemark.commands.interrupts import interrupts_first
from tidemark.commands.options import Bootstrap, FromBeginning, PipelineArgument, broker_config
from tidemark.commands.peek import peek
from tidemark.commands.replay import diff, replay
from tidemark.commands.schemas import schemas
from tidemark.commands.service import SERVICES
from tidemark.commands.tail import follow
from tidemark.commands.why.command import app as why
from tidemark.errors import InfrastructureError, TidemarkError
from tidemark.files.records import require_files
from tidemark.language.load import load_pipeline
from tidemark.local.progress import shown_progress
from tidemark.local.run import Cuts, LocalRun
from tidemark.local.view import (
    named_inputs,
    open_inputs,
    source_formats,
    summary,
    write_results,
)
from tidemark.plan.explain import render_mermaid, render_text
from tidemark.plan.matched_topics import matched_topics
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics, raw_topics, topic_of_stats
from tidemark.runtime.client.broker_probe import await_broker, require_broker
from tidemark.runtime.client.recorded_program import placed_plan
from tidemark.runtime.client.topics import ensure, ensure_raw, partition_counts
from tidemark.runtime.faults import (
    FAILED,
    STOPPED_BY_SETTINGS,
    debugs,
    explained,
    take_debug,
)
from tidemark.runtime.ingest.source_reset import SourceReset
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset
from tidemark.runtime.service.command import (
    block_stop_signals,
    service_command,
    service_environment,
)
from tidemark.runtime.wall_clock import now_ms

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command that the arguments name."""
    # Without a handler, the client's own lines would stand around the one line of an error.
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    try:
        with interrupts_first():
            status = app(take_debug(sys.argv[1:]), standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except TyperException as error:
        _fail(error, error.format_message())  # names the option, which str() does not
    except KafkaException as error:
        _fail(error, explained(error)[0])
    except TidemarkError as error:
        _fail(error, str(error))
    except InfrastructureError as error:
        _fail(error, str(error), FAILED)
    except BrokenPipeError:  # the reader has closed: tidemark try ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 - a fault of Tidemark itself, whatever it raises
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}:{place.lineno}"
        name = type(error).__name__
        _fail(error, f"internal error at {where}: {name}: {error}; --debug shows more", FAILED)
    sys.exit(status or 0)


def _fail(error: Exception, message: str, status: int = STOPPED_BY_SETTINGS) -> NoReturn:
    if debugs():
        traceback.print_exception(error)
    line = " ".join(message.split())
    sys.stderr.write(f"tidemark: {line}\n")
    sys.exit(status)


@app.callback()
def _options(
    _debug: Annotated[
        bool,
        typer.Option("--debug", help="Show tracebacks of errors; any command takes it."),
    ] = False,
) -> None:
    """Event-time stream processing on Kafka."""


def _plan(pipeline: str) -> Plan:
    return load_pipeline(pipeline).plan()


@app.command()
def plan(
    pipeline: PipelineArgument,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid diagram.")] = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Print the logical graph and the physical plan: services, topics, partitions, tasks.

    With --bootstrap-server, also what the next start of ingest would do with the logs there.
    """
    compiled, lines = _plan(pipeline), []
    if bootstrap_server is not None:
        config = broker_config(bootstrap_server)
        admin = require_broker(config)
        compiled = placed_plan(config, admin, compiled)
        lines = deployment_lines(config, admin, compiled, pipeline)
    typer.echo(render_mermaid(compiled) if mermaid else render_text(compiled))
    for line in "\n".join(lines).splitlines():
        typer.echo(f"  {line}")


@app.command("try")
def try_(
    pipeline: PipelineArgument,
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="FILE",
            help="A file in the format of the source, - for stdin; "
            "TOPIC=FILE if there are several sources.",
        ),
    ],
    cuts: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", help="Cut the input into random segments; the results are the same."
        ),
    ] = None,
    every_pane: Annotated[
        bool,
        typer.Option(
            "--every-pane",
            help="Print every published pane, not only the last one of each window; "
            "the number of corrections depends on the cuts.",
        ),
    ] = False,
) -> None:
    """Run the whole pipeline in this process, without Kafka.

    Prints the results as JSON lines {"topic": ..., "value": ...}: the panes that a sink would hold
    at the end of the input, late rows and dead letters.  Counts go to stderr.
    """
    compiled = _plan(pipeline)
    for source in compiled.sources:
        require_files(source.format, f"source {source.name}")
    formats = source_formats(compiled)
    paths = named_inputs(inputs, list(formats))
    run = LocalRun(compiled, Cuts(cuts), now_ms=now_ms())
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with open_inputs(paths, formats) as records_of, shown_progress(console) as add:
        for count in run.run(records_of):
            add(count)
    write_results(run, sys.stdout.buffer, every_pane=every_pane)
    for line in summary(run):
        console.print(line, markup=False)


@app.command()
def run(
    service: Annotated[
        str,
        typer.Argument(
            metavar="SERVICE",
            help=f"One of {', '.join(SERVICES)}; with --on spark, the module of the pipeline.",
        ),
    ],
    pipeline: Annotated[
        str | None, typer.Option(envvar="PIPELINE", help="Module of the pipeline.")
    ] = None,
    on: Annotated[
        Literal["process", "spark"],
        typer.Option(help="spark: run all keyed services in an endless series of micro-batches."),
    ] = "process",
    from_: Annotated[
        Literal["log", "raw"],
        typer.Option(
            "--from", envvar="TIDEMARK_SPARK_FROM", help="With --on spark: raw also runs ingest."
        ),
    ] = "log",
    release: Annotated[
        bool,
        typer.Option(
            "--release", help="With --on spark: give back the partitions of a killed driver."
        ),
    ] = False,
) -> None:
    """Run one service of a pipeline on Kafka until a stop signal; or all keyed services on Spark.

    A partition is processed by Spark or by a service, never by both; the results are the same.
    """
    if on == "spark":
        name, pipeline = "spark-release" if release else "spark", service
        os.environ["TIDEMARK_SPARK_FROM"] = from_
    elif service not in SERVICES:
        raise typer.BadParameter(f"no service {service!r}; choose one of {', '.join(SERVICES)}")
    elif release:
        raise typer.BadParameter("--release needs --on spark")
    else:
        name = service
    if pipeline:
        os.environ["PIPELINE"] = pipeline
    # A new interpreter: the environment must be set before polars is imported.
    os.environ |= service_environment()
    block_stop_signals()
    os.execv(sys.executable, service_command(name))


@app.command()
def tail(
    topic: str,
    from_beginning: FromBeginning = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Print the committed records of a topic as they arrive: key, tab, value."""
    follow(topic, broker_config(bootstrap_server), sys.stdout.buffer, from_beginning=from_beginning)


@app.command()
def topics(
    pipeline: PipelineArgument,
    bootstrap_server: Bootstrap = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a broker without limit.")] = False,
) -> None:
    """Create missing topics of a pipeline; verify those that only Tidemark writes.

    Topics of a pattern are the user's to create; those that match are listed.
    """
    compiled = _plan(pipeline)
    config = broker_config(bootstrap_server)
    admin = await_broker(config, lambda _reason: None) if wait else require_broker(config)
    raw = raw_topics(compiled)
    own = (*own_topics(placed_plan(config, admin, compiled)), topic_of_stats(compiled.stats))
    created = ensure_raw(admin, raw, config.replication_factor)
    created += ensure(admin, own, config.replication_factor)
    counts = partition_counts(admin)
    matched = matched_topics(compiled, counts)
    for name in dict.fromkeys([*matched.sources, *(each.name for each in own)]):
        state = "created" if name in created else "exists"
        typer.echo(f"{state:8} {counts[name]:4}  {name}")
    for line in matched.waits():
        typer.echo(line)


@app.command()
def reset(
    pipeline: PipelineArgument,
    service: Annotated[
        str | None,
        typer.Option(help="Reset only this service, from its log; ingest resets everything."),
    ] = None,
    operator: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Reset only the operator of this output; repeatable."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Start only this raw topic afresh, after it was created again."
        ),
    ] = None,
    to: Annotated[Literal["earliest", "latest"], typer.Option(help="Where to start reading.")] = (
        "earliest"
    ),
    delete_results: Annotated[
        bool, typer.Option("--delete-results", help="Delete the results written so far.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Drop state and offsets of a pipeline, a service or an operator, to start afresh.

    The services concerned must be stopped.  Prints what it will do, and asks for confirmation.
    """
    if sum(each is not None for each in (service, operator or None, source)) > 1:
        raise typer.BadParameter("give one of --service, --operator and --source")
    if source is not None and delete_results:
        raise typer.BadParameter("--source keeps all results")
    compiled, names = _plan(pipeline), tuple(operator or ())
    scope = Scope(compiled, service, names, to, delete_results=delete_results)
    config = broker_config(bootstrap_server)
    admin = require_broker(config)
    planned: Reset | SourceReset
    if source is not None:
        planned = SourceReset(config, admin, compiled, source, to)
    else:
        planned = Reset(config, admin, scope)
    for line in planned.lines():
        typer.echo(line)
    if not yes:
        typer.confirm("Do it?", abort=True)
    planned.run()
    typer.echo("done; start the services again")


app.command()(init)
app.command()(dev)
app.command()(flush)
app.command()(peek)
app.command()(conformance)
app.command("infer")(infer_)
app.command()(replay)
app.command()(diff)
app.command()(schemas)
app.add_typer(dead_letters, name="dead-letters")
app.add_typer(why, name="why")
