"""Which broker a command means, and how pipelines and brokers are named on the command line."""

import os
from typing import Annotated

import typer

from tidemark.embedded.state import running, state_folder
from tidemark.runtime.config import Config

Bootstrap = Annotated[
    str | None,
    typer.Option(help="By default $KAFKA_BOOTSTRAP_SERVERS, else the stack of `make up`."),
]
PipelineArgument = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="Module, file or module:name of the pipeline.")
]


def reach(bootstrap_server: str | None) -> Config:
    """Return the settings to reach the broker that is meant."""
    config = Config.from_env()
    stack = running(state_folder())
    if bootstrap_server is not None:
        return config.model_copy(update={"bootstrap_servers": bootstrap_server})
    if "KAFKA_BOOTSTRAP_SERVERS" in os.environ or stack is None:
        return config
    return config.model_copy(update={"bootstrap_servers": stack.address})
