"""``tidemark replay`` and ``tidemark diff``: run the pipeline's operators on Spark."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Literal

import typer
from rich.console import Console

from tidemark.commands.options import Bootstrap, PipelineArgument, broker_config, time_ms
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS
from tidemark.errors import ConfigurationError
from tidemark.language.load import load_pipeline, pipeline_module
from tidemark.runtime.client.broker_probe import require_broker
from tidemark.runtime.client.recorded_program import replayed_plan

Operators = Annotated[
    list[str] | None,
    typer.Option("--operator", metavar="NAME", help="Only this operator; repeatable."),
]
Master = Annotated[str, typer.Option(help="Spark's master; with spark-submit, that decides.")]
Memory = Annotated[str, typer.Option(help="Memory of Spark's JVM, such as 2g.")]
ArchivePlace = Annotated[
    str | None,
    typer.Option(
        "--archive",
        metavar="PLACE",
        help="Archive of what the logs no longer hold; by default $TIDEMARK_ARCHIVE.",
    ),
]
From = Annotated[
    Literal["log", "raw"],
    typer.Option(
        "--from", help="raw: run ingest again over the raw topics, with the cuts of the log."
    ),
]
Slices = Annotated[
    int | None,
    typer.Option(min=1, help="Tasks per log partition; by default enough for all cores."),
]

_LOGGED_EVERY_S = 10.0


def replay(
    pipeline: PipelineArgument,
    output: Annotated[
        str | None, typer.Option(help="parquet:DIR (a path or a URI), or topics.")
    ] = None,
    into_live: Annotated[
        bool,
        typer.Option(
            "--into-live", help="Write results and state, from which live services continue."
        ),
    ] = False,
    delete_results: Annotated[
        bool,
        typer.Option(
            "--delete-results", help="With --into-live: first delete the operators' results."
        ),
    ] = False,
    operators: Operators = None,
    from_offsets: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help='First offsets of the logs, as {"TOPIC": {"0": 12}}, or earliest: the first that '
            "exist. By default 0, and an error if that is gone.",
        ),
    ] = None,
    to_offsets: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Ends of the logs; by default the committed offsets."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Ends of the logs at that time, by the broker's clock."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only results of windows that end after TIME, in event time."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only results of windows that start before TIME."),
    ] = None,
    archive: ArchivePlace = None,
    from_: From = "log",
    master: Master = "local[*]",
    memory: Memory = "2g",
    slices: Slices = None,
    bootstrap_server: Bootstrap = None,
) -> None:
    """Run the operators over the logs again, on Spark, with bit-identical results.

    TIME is like 2026-03-02T08:00:00Z. Counts go to stderr.
    """
    _require_spark()
    from tidemark.commands.replay_view import replay_lines
    from tidemark.spark.progress import Progress
    from tidemark.spark.replay import jobs
    from tidemark.spark.replay.replay import with_operators
    from tidemark.spark.replay.stats import replay_stats
    from tidemark.spark.work import EventTimeRange

    if into_live == (output is not None):
        raise ConfigurationError(
            "give either --output or --into-live: where should the results go?"
        )
    if into_live and (operators or from_offsets or since or until):
        raise ConfigurationError(
            "--into-live replays all operators from the beginning: leave out --operator, "
            "--from-offsets, --since and --until"
        )
    plan = load_pipeline(pipeline).plan()
    if into_live and (from_ == "raw" or plan.derived) and (to_offsets or as_of):
        what = "--into-live --from raw" if from_ == "raw" else "--into-live of a chain"
        raise ConfigurationError(
            f"{what} replays to the end of the logs, where ingest is: leave out --to-offsets and "
            "--as-of"
        )
    names = operators or []
    with_operators(plan, names)  # refuses a wrong name before the broker is asked
    event_times = EventTimeRange(_time_ms(since, NEVER_MS), _time_ms(until, FOREVER_MS))
    as_of_ms = None if as_of is None else time_ms(as_of)
    config = broker_config(bootstrap_server)
    place, from_raw = archive or config.archive, from_ == "raw"
    admin = require_broker(config)
    plan = replayed_plan(config, admin, plan, from_raw=from_raw, operators=names)
    part = with_operators(plan, names)
    replay_input = jobs.ReplayInput(
        from_offsets, to_offsets, as_of_ms, event_times, place, from_raw
    )
    sessions = partial(jobs.session_for, pipeline_module(pipeline), master, memory)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with (
        _shown(console, "replaying") as show,
        replay_stats(config, admin, plan.pipeline) as write,
    ):

        def on_progress(progress: Progress) -> None:
            show(progress.line(time.monotonic()))
            write(progress)

        if output is None:
            result = jobs.into_live(
                config,
                plan,
                replay_input,
                sessions,
                slices,
                delete_results=delete_results,
                on_progress=on_progress,
            )
        else:
            result = jobs.replay(
                config, part, replay_input, output, sessions, slices, on_progress, whole=plan
            )
    for line in replay_lines(part, result):
        console.print(line, markup=False)


def diff(
    pipeline: Annotated[
        str,
        typer.Argument(metavar="PIPELINE|A", help="Module of the pipeline, or parquet:DIR."),
    ],
    other: Annotated[
        str | None,
        typer.Argument(metavar="B", help="parquet:DIR: compare the results of two replays."),
    ] = None,
    operators: Operators = None,
    archive: ArchivePlace = None,
    from_: From = "log",
    master: Master = "local[*]",
    memory: Memory = "2g",
    slices: Slices = None,
    bootstrap_server: Bootstrap = None,
) -> int:
    """Compare published results with a replay of the logs that the services have read.

    With two folders, compares the results of two replays. Exit status 0: equal, message by message.
    1: different; prints the first differences.
    """
    _require_spark()
    from tidemark.commands.replay_view import diff_lines
    from tidemark.spark.replay import jobs
    from tidemark.spark.replay.replay import with_operators

    if other is not None:
        return _diff_folders(pipeline, other, master, memory)
    plan = load_pipeline(pipeline).plan()
    plan = with_operators(plan, operators or [])
    sessions = partial(jobs.session_for, pipeline_module(pipeline), master, memory)
    with Console(stderr=True, highlight=False).status("replaying and comparing ..."):
        config = broker_config(bootstrap_server)
        place, from_raw = archive or config.archive, from_ == "raw"
        plan = replayed_plan(config, require_broker(config), plan, from_raw=from_raw)
        result = jobs.diff(config, plan, sessions, slices, place, from_raw=from_raw)
    for line in diff_lines(result):
        typer.echo(line)
    return 0 if result.equal else 1


def _diff_folders(left: str, right: str, master: str, memory: str) -> int:
    from tidemark.commands.replay_view import folders_lines
    from tidemark.spark.replay.jobs import diff_folders
    from tidemark.spark.session import spark_session

    with Console(stderr=True, highlight=False).status("comparing ..."):
        result = diff_folders(left, right, partial(spark_session, master, memory))
    for line in folders_lines(result):
        typer.echo(line)
    return 0 if result.equal else 1


@contextmanager
def _shown(console: Console, verb: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a line of progress: in place on a terminal, else every 10 s."""
    printed_s = time.monotonic()
    with console.status(f"{verb} ...") as status:

        def on_progress(line: str) -> None:
            nonlocal printed_s
            if console.is_terminal:
                status.update(f"{verb}: {line}")
            elif time.monotonic() - printed_s > _LOGGED_EVERY_S:
                printed_s = time.monotonic()
                console.print(f"{verb}: {line}", markup=False)

        yield on_progress


def _require_spark() -> None:
    if find_spec("pyspark") is None:
        raise ConfigurationError("replays need Spark: pip install 'tidemark-streams[spark]'")


def _time_ms(text: str | None, otherwise_ms: int) -> int:
    return otherwise_ms if text is None else time_ms(text)
