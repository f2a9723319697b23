"""Opens the sink that TIDEMARK_SINK names."""

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


def open_sink(address: str) -> Sink:
    """Return the sink of an address in one of FORMS; a path may be relative.

    Raises:
        ConfigurationError: the address has no such form, or the client is not installed.
    """
    try:
        return _open(address)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"TIDEMARK_SINK: {without_password(address)} needs the module {error.name}: "
            "pip install 'tidemark-streams[sinks]'"
        ) from error


def _open(address: str) -> Sink:
    # Lazy imports: only the client in use has to be installed.
    scheme, _, rest = address.partition(":")
    match scheme:
        case "postgresql" | "postgres":
            from tidemark.sinks.postgres import PostgresSink

            return PostgresSink(address)
        case "http" | "https":
            from tidemark.sinks.webhook import WebhookSink

            return WebhookSink(address)
        case "kafka":
            from tidemark.sinks.topic import OtherClusterSink, TopicSink

            return OtherClusterSink(address) if rest.startswith("//") else TopicSink(rest)
        case "sqlite":
            from tidemark.sinks.sqlite import SqliteSink

            return SqliteSink(_path(address, rest))
        case "duckdb":
            from tidemark.sinks.duck import DuckSink

            return DuckSink(_path(address, rest))
        case "parquet":
            from tidemark.sinks.parquet import ParquetSink

            return ParquetSink(_path(address, rest))
        case "jsonl":
            from tidemark.sinks.lines import LinesSink

            return LinesSink(_path(address, rest))
    return _own(address, scheme, rest)


def _path(address: str, rest: str) -> Path:
    path = unquote(rest.removeprefix("//"))
    if not path:
        raise ConfigurationError(f"TIDEMARK_SINK={address}: there is no path; use one of {FORMS}")
    return Path(path)


def _own(address: str, module: str, name: str) -> Sink:
    """Return a user's own sink: call a class or function without arguments."""
    if not name.isidentifier():
        raise ConfigurationError(
            f"TIDEMARK_SINK={without_password(address)}: unknown form; use one of {FORMS}"
        )
    made = getattr(import_module(module), name, None)
    if not callable(made):
        raise ConfigurationError(f"TIDEMARK_SINK={address}: {module} has no class {name}")
    sink: Sink = made()
    return sink
