"""The entry point of every service: ``python -m tidemark.commands.service NAME``.

``tidemark run NAME`` starts this module in a new interpreter.
"""

import sys
from collections.abc import Callable, Mapping

from tidemark.errors import ConfigurationError
from tidemark.plan.physical import Plan
from tidemark.runtime.config import Config
from tidemark.runtime.faults import take_debug
from tidemark.runtime.service.command import end_on_stop_signals, keep_freed_memory
from tidemark.runtime.service.serve import serve

Run = Callable[[Config, Plan], None]


def _ingest(config: Config, plan: Plan) -> None:
    from tidemark.runtime.ingest.task import run

    run(config, plan)


def _windowing(config: Config, plan: Plan) -> None:
    from tidemark.runtime.keyed.task import run

    run(config, plan, "windowing")


def _sessions(config: Config, plan: Plan) -> None:
    from tidemark.runtime.keyed.task import run

    run(config, plan, "sessions")


def _joins(config: Config, plan: Plan) -> None:
    from tidemark.runtime.keyed.task import run

    run(config, plan, "joins")


def _patterns(config: Config, plan: Plan) -> None:
    from tidemark.runtime.keyed.task import run

    run(config, plan, "patterns")


def _sink(config: Config, plan: Plan) -> None:
    from tidemark.sinks.task import run

    run(config, plan)


def _archive(config: Config, plan: Plan) -> None:
    from tidemark.runtime.archive.task import run

    run(config, plan)


def _monitor(config: Config, plan: Plan) -> None:
    try:
        from tidemark.monitor import app
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed: pip install 'tidemark-streams[monitor]'"
        ) from None
    app.run(config, plan)


def _spark(config: Config, plan: Plan) -> None:
    from tidemark.spark.services.driver import run

    run(config, plan)


def _spark_release(config: Config, plan: Plan) -> None:
    from tidemark.spark.services.driver import release

    release(config, plan)


SERVICES: Mapping[str, Run] = {
    "ingest": _ingest,
    "windowing": _windowing,
    "sessions": _sessions,
    "joins": _joins,
    "patterns": _patterns,
    "sink": _sink,
    "archive": _archive,
    "monitor": _monitor,
}
"""Services by name; each imports its modules when it starts."""

_JOBS: Mapping[str, Run] = {**SERVICES, "spark": _spark, "spark-release": _spark_release}


def main(name: str) -> None:
    """Run a service until a stop signal; ``spark`` and ``spark-release`` are jobs on Spark.

    ``--debug`` in the arguments shows tracebacks of errors.
    """
    take_debug(sys.argv)
    if name == "spark":  # its driver gives back what a killed one had, even if it must stop at once
        from tidemark.spark.services.stop_signal import note_early_signals

        note_early_signals()
    else:
        end_on_stop_signals()
    keep_freed_memory()
    serve(name.partition("-")[0], _JOBS[name])


if __name__ == "__main__":
    main(sys.argv[1])
