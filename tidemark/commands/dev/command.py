"""The command ``tidemark dev``; only it needs the packages of the local stack."""

from importlib.util import find_spec
from typing import Annotated

import typer

from tidemark.commands.options import PipelineArgument
from tidemark.errors import ConfigurationError


def dev(
    pipeline: PipelineArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Send the records of a file if its topic is empty; TOPIC=FILE as in `try`.",
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(help="Of the broker; by default a free one.")] = None,
) -> None:
    """Run a pipeline on a broker of its own and print what passes; Ctrl-C ends all.

    After a change of the pipeline's files it computes all results again, from the first record on.
    A change with a mistake is reported, and what runs stays.  The data stays in var/.
    """
    if find_spec("supervisor") is None:
        raise ConfigurationError(
            "dev needs more packages: pip install 'tidemark-streams[embedded]'"
        )
    from tidemark.commands.dev.session import run

    run(pipeline, inputs or [], port)
