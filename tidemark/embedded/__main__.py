"""The stack from the command line: `python -m tidemark.embedded up | stop | down | status`."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from confluent_kafka import KafkaException
from rich.console import Console

from tidemark.embedded import stack
from tidemark.embedded.state import running_stack, state_folder
from tidemark.errors import TidemarkError
from tidemark.runtime.faults import debugs, explained, take_debug


def main() -> None:
    """Run the command that the arguments name.

    An error is one line and exit status 2.  If only some services do not work, `up` prints a line
    for each of them, and ends with status 1.
    """
    arguments = _parser().parse_args(take_debug(sys.argv[1:]))
    try:
        _COMMANDS[arguments.command](arguments)
    except (TidemarkError, KafkaException) as error:
        if debugs():
            traceback.print_exception(error)
        sys.stderr.write(f"{arguments.command}: {explained(error)[0]}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _up(arguments: argparse.Namespace) -> None:
    console, folder = _console(), state_folder()
    down: Sequence[str] = ()
    with console.status(f"starting Kafka and the services of {arguments.pipeline} ..."):
        try:
            stack.up(folder, arguments.pipeline, arguments.port)
        except stack.ServicesDownError as error:
            down = error.lines
    running = running_stack(folder)
    if running is not None:
        results = f", results in {os.path.relpath(running.results)}" if running.results else ""
        console.print(f"Kafka at {running.address}, logs in {folder}/{results}")
    _show(console)
    if down:
        sys.stderr.write("".join(f"up: {line}\n" for line in down))
        sys.stderr.write("up: the rest runs; correct the cause, then run the same command again\n")
        sys.exit(1)


def _stop(arguments: argparse.Namespace) -> None:
    console = _console()
    with console.status("stopping ..."):
        ran = stack.stop(state_folder(), arguments.services)
    console.print(f"stopped {', '.join(ran)}; Kafka runs" if ran else "no service ran; Kafka runs")


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


_COMMANDS = {"up": _up, "stop": _stop, "down": _down, "status": _status}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tidemark.embedded", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start Kafka and the services of a pipeline")
    up.add_argument("pipeline", help="module of the pipeline, such as examples.game")
    up.add_argument("--port", type=int, help="of the broker; by default a free one")
    stop = commands.add_parser("stop", help="stop services, but not Kafka, as resets need it")
    stop.add_argument("services", nargs="*", help="names of services; by default all")
    commands.add_parser("down", help="stop Kafka and the services")
    commands.add_parser("status", help="show what runs")
    return parser


if __name__ == "__main__":
    main()
