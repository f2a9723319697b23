"""``tidemark init``: writes a new project that runs at once."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tidemark.project.new_project import FILES, new_project


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="NAME", help="A new folder; its name is the name of the pipeline, too."
        ),
    ],
) -> None:
    """Write a new project: a pipeline with events, tests, docker-compose.yml and a Makefile."""
    new_project(folder)
    for name, what in FILES.items():
        typer.echo(f"{folder / name!s:{len(str(folder)) + 20}}  {what}")
    typer.echo(
        f"\ncd {shlex.quote(str(folder))}\ntidemark try pipeline.py --input events.jsonl"
        "     runs it over the events, without Kafka"
    )
