"""Opens the sink that TIDEMARK_SINK names."""

import re
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

from tidemark.errors import ConfigurationError, without_password
from tidemark.sinks.sink import Sink

FORMS = (
    "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, sqlite:PATH, duckdb:PATH, parquet:FOLDER, "
    "jsonl:FOLDER, kafka:PREFIX, kafka://BROKERS/PREFIX, http://..., https://... or MODULE:CLASS "
    "of your own"
)


_WITH_LOGIN = ("postgresql", "postgres", "kafka")


def open_sink(address: str) -> Sink:
    """Return the sink of an address in one of FORMS; a path may be relative.

    Raises:
        ConfigurationError: the address has no such form, or the client is not installed.
    """
    scheme, _, rest = address.partition(":")
    if scheme in _WITH_LOGIN:
        _require_plain_login(rest.removeprefix("//"))
    try:
        return _open(scheme, rest, address)
    except ConfigurationError as error:  # a client may repeat the address
        raise ConfigurationError(without_password(address, str(error))) from None
    except ValueError:
        raise ConfigurationError(f"TIDEMARK_SINK: the {scheme} address is not valid") from None
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"TIDEMARK_SINK: the module {error.name} is not installed; for the module of a client: "
            "pip install 'tidemark-streams[sinks]'"
        ) from error


def _require_plain_login(rest: str) -> None:
    """Raise if a client would take a part of the password for the host, and print it."""
    login = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" in rest and (rest.count("@") > 1 or "@" not in login):
        raise ConfigurationError(
            "TIDEMARK_SINK: write '@', '/', '?' and '#' in a user, password or option as %40, %2F, "
            "%3F and %23"
        )


def _open(scheme: str, rest: str, address: str) -> Sink:
    # Lazy imports: only the client in use has to be installed.
    match scheme:
        case "postgresql" | "postgres":
            from tidemark.sinks.databases.postgres import PostgresSink

            return PostgresSink(address)
        case "http" | "https":
            from tidemark.sinks.webhook import WebhookSink

            return WebhookSink(address)
        case "kafka":
            from tidemark.sinks.topic import OtherClusterSink, TopicSink

            return OtherClusterSink(address) if rest.startswith("//") else TopicSink(rest)
        case "sqlite":
            from tidemark.sinks.databases.sqlite import SqliteSink

            return SqliteSink(_path(rest))
        case "duckdb":
            from tidemark.sinks.databases.duck import DuckSink

            return DuckSink(_path(rest))
        case "parquet":
            from tidemark.sinks.parquet import ParquetSink

            return ParquetSink(_path(rest))
        case "jsonl":
            from tidemark.sinks.lines import LinesSink

            return LinesSink(_path(rest))
    return _own(scheme, rest)


def _path(rest: str) -> Path:
    path = unquote(rest.removeprefix("//"))
    if not path:
        raise ConfigurationError(f"TIDEMARK_SINK: there is no path; use one of {FORMS}")
    return Path(path)


def _own(module: str, name: str) -> Sink:
    """Return a user's own sink: call a class or function without arguments."""
    if not name.isidentifier():
        raise ConfigurationError(f"TIDEMARK_SINK: unknown form; use one of {FORMS}")
    made = getattr(import_module(module), name, None)
    if not callable(made):
        raise ConfigurationError(f"TIDEMARK_SINK: {module} has no such class")
    sink: Sink = made()
    return sink
