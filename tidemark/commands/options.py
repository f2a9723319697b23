"""Options that several commands share: the pipeline, the broker, times."""

import os
from datetime import datetime
from importlib.util import find_spec
from typing import Annotated

import typer

from tidemark.core.time.event_time import epoch_ms
from tidemark.errors import ConfigurationError
from tidemark.runtime.config import Config

Bootstrap = Annotated[
    str | None,
    typer.Option(
        help="By default $KAFKA_BOOTSTRAP_SERVERS, else the broker of `tidemark dev` or `make up` "
        "in this folder."
    ),
]
PipelineArgument = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="Module, file or module:name of the pipeline.")
]
FromBeginning = Annotated[
    bool, typer.Option("--from-beginning", help="Begin with the oldest record.")
]
JsonLines = Annotated[bool, typer.Option("--json", help="Lines of JSON instead of a table.")]


def broker_config(bootstrap_server: str | None) -> Config:
    """Return settings with the broker of the option, the environment or this folder's stack."""
    config = Config.from_env()
    address = bootstrap_server
    if address is None and not os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        address = _embedded_address()
    return config if address is None else config.model_copy(update={"bootstrap_servers": address})


def time_ms(text: str) -> int:
    """Return a time like 2026-03-02T08:00:00Z as ms UTC.

    Raises:
        ConfigurationError: the text is not a time, or has no offset.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is not a time: write it like 2026-03-02T08:00:00Z"
        ) from None
    if time.tzinfo is None:
        raise ConfigurationError(f"{text!r} has no offset: end it with Z or +02:00")
    return epoch_ms(time)


def _embedded_address() -> str | None:
    """Return the address of the stack's broker, None without one; supervisor may be missing."""
    if find_spec("supervisor") is None:
        return None
    from tidemark.embedded.state import running_stack, state_folder

    stack = running_stack(state_folder())
    return stack.address if stack else None
