"""The stack from the command line: `python -m tidemark.embedded up | down | status`."""

import argparse
import os
import sys

from confluent_kafka import KafkaException
from rich.console import Console

from tidemark.embedded import stack
from tidemark.embedded.state import state_folder
from tidemark.errors import TidemarkError
from tidemark.runtime.faults import explained


def main() -> None:
    """Run the command that the arguments name; an error is one line and exit status 2."""
    arguments = _parser().parse_args()
    try:
        _COMMANDS[arguments.command](arguments)
    except (TidemarkError, KafkaException) as error:
        sys.stderr.write(f"{arguments.command}: {explained(error)[0]}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _up(arguments: argparse.Namespace) -> None:
    console = _console()
    with console.status(f"starting Kafka and the services of {arguments.pipeline} ..."):
        running = stack.up(state_folder(), arguments.pipeline, arguments.port)
    results = f", results in {os.path.relpath(running.results)}" if running.results else ""
    console.print(f"Kafka at {running.address}, logs in {state_folder()}/{results}")
    _show(console)


def _down(_: argparse.Namespace) -> None:
    console = _console()
    with console.status("stopping ..."):
        stopped = stack.down(state_folder())
    console.print("stopped" if stopped else "nothing runs")


def _status(_: argparse.Namespace) -> None:
    _show(_console())


def _console() -> Console:
    # Lines are never wrapped, so that they can be searched and paths copied.
    return Console(highlight=False, soft_wrap=True)


def _show(console: Console) -> None:
    processes = stack.status(state_folder())
    readiness = stack.readiness(state_folder())
    for process in processes:
        console.print(
            f"{process.name:10} {process.state.lower():9} pid {process.pid:<8} {process.log}"
            f"  {readiness.get(process.name, '')}".rstrip()
        )
    if not processes:
        console.print("nothing runs")


_COMMANDS = {"up": _up, "down": _down, "status": _status}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tidemark.embedded", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start Kafka and the services of a pipeline")
    up.add_argument("pipeline", help="module of the pipeline, such as examples.game")
    up.add_argument("--port", type=int, help="of the broker; by default a free one")
    commands.add_parser("down", help="stop Kafka and the services")
    commands.add_parser("status", help="show what runs")
    return parser


if __name__ == "__main__":
    main()
