"""The schema registry: schemas of results are registered, those of raw records are fetched.

If a schema registry is set, a service registers the schemas of its results when it starts, under
``<topic>-value``.  The registry decides whether they are compatible with the versions before.
Results then have Confluent's wire format: the schema's id, then the body.  See docs/schemas.md,
"Registry".

Raw records in that format name their writer's schema by its id.  A registry that does not answer is
waited for: no record is a dead letter because of it.  See docs/formats.md, "Avro".
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidemark.errors import ConfigurationError, InfrastructureError, without_password
from tidemark.plan.physical import Plan
from tidemark.runtime.config import Config
from tidemark.runtime.retry import retry
from tidemark.serde.avro import AvroType
from tidemark.serde.formats.source_format import needs_registry

_MAGIC = b"\x00"
_NUMBER_BYTES = 4
_TIMEOUT_S = 10.0
_REFUSALS = (401, 403, 409, 422)
_NO_SUCH_SCHEMA = 40403
_PASSES = (408, 429, 500, 502, 503, 504)
_AWAY_S, _PAUSE_S = 30.0, 1.0
_UNKNOWN_S = 10.0
_MAX_UNKNOWN = 10_000

_log = logging.getLogger("tidemark")


def with_registry(config: Config, types: Mapping[str, AvroType]) -> None:
    """Register Avro schemas by topic and make records begin with the schema's id.

    Does nothing if no registry is set.

    Raises:
        ConfigurationError: the registry refuses a schema or this client, or its client package is
            not installed; waiting would not help.
        InfrastructureError: the registry cannot be reached.
    """
    if not config.schema_registry or not types:
        return
    client = _client(config)
    for topic, kind in types.items():
        kind.begin_with(_header(_register(client, config.schema_registry, topic, kind)))


def _header(number: int) -> bytes:
    return _MAGIC + number.to_bytes(_NUMBER_BYTES, "big")


def _client(config: Config, **settings: Any) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"TIDEMARK_SCHEMA_REGISTRY: {error.name} is not installed: "
            "pip install 'tidemark-streams[registry]'"
        ) from None
    settings |= {"url": config.schema_registry, "timeout": _TIMEOUT_S}
    user = config.schema_registry_user.get_secret_value()
    if user:
        settings["basic.auth.user.info"] = user
    return SchemaRegistryClient(settings)


def _register(client: Any, url: str, topic: str, kind: AvroType) -> int:
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError
    from httpx2 import HTTPError

    subject, url = f"{topic}-value", without_password(url)
    try:
        number: int = client.register_schema(subject, Schema(json.dumps(kind.schema), "AVRO"))
    except SchemaRegistryError as error:
        line = f"schema registry {url}: {subject}: {error.error_message}"
        refused = error.http_status_code in _REFUSALS
        raise (ConfigurationError if refused else InfrastructureError)(line) from None
    except HTTPError as error:
        raise InfrastructureError(f"schema registry {url}: {error}") from None
    return number


def writer_schemas(
    config: Config, plan: Plan, on_wait: Callable[[str], None] = lambda _reason: None
) -> "RegistrySchemas | None":
    """Return the schemas of raw records, or None if no source of the plan needs a registry.

    ``on_wait``: called with the reason before each request for a schema, and while the registry
    does not answer.  So a process that asks for many schemas reports that it lives.  It may raise.

    Raises:
        ConfigurationError: a source needs a registry, and its address or its client is missing.
    """
    needing = [source.name for source in plan.sources if needs_registry(source.format)]
    if not needing:
        return None
    if not config.schema_registry:
        raise ConfigurationError(
            f"source {needing[0]}: its format needs a schema registry: set "
            "TIDEMARK_SCHEMA_REGISTRY to its address"
        )
    return RegistrySchemas(config, on_wait)


class RegistrySchemas:
    """Fetches the schemas of raw records by their id."""

    def __init__(self, config: Config, on_wait: Callable[[str], None]) -> None:
        """Create a client; see ``writer_schemas``."""
        self._client = _client(config, **{"max.retries": 0})
        self._address = config.schema_registry
        self._url = without_password(self._address)
        self._on_wait = on_wait
        self._unknown_s: dict[int, float] = {}  # when an id was not known

    def texts(self, number: int) -> list[str] | None:
        """Return a schema in JSON, after the schemas that it refers to; None if it is unknown.

        Raises:
            ConfigurationError: the registry refuses this client; waiting would not help.
            InfrastructureError: the registry has not answered for half a minute.
        """
        asked_s = self._unknown_s.get(number)
        if asked_s is not None and time.monotonic() - asked_s < _UNKNOWN_S:
            return None
        self._on_wait(f"schema registry {self._url}: asked for schema {number}")
        schema = self._ask(lambda: self._client.get_schema(number))
        if schema is None:
            if len(self._unknown_s) == _MAX_UNKNOWN:
                self._unknown_s.clear()
            self._unknown_s[number] = time.monotonic()
            return None
        texts: dict[tuple[str, int], str] = {}
        self._add_references(schema, texts)
        return [*texts.values(), schema.schema_str]

    def _add_references(self, schema: Any, texts: dict[tuple[str, int], str]) -> None:
        for each in schema.references or ():
            at = (each.subject, each.version)
            if at not in texts:
                found = self._ask(partial(self._version, *at))
                if found is not None:
                    self._add_references(found, texts)
                    texts[at] = found.schema_str

    def _version(self, subject: str, version: int) -> Any:
        return self._client.get_version(subject, version).schema

    def _ask(self, call: Callable[[], Any]) -> Any:
        """Return an answer of the registry, None if it has no such schema; wait for it."""

        def waits(error: Exception) -> None:
            _log.warning("%s; waiting for it", error)
            self._on_wait(str(error))

        return retry(
            lambda: self._answer(call),
            lambda error: isinstance(error, InfrastructureError),
            for_s=_AWAY_S,
            pause_s=_PAUSE_S,
            on_wait=waits,
        )

    def _answer(self, call: Callable[[], Any]) -> Any:
        from confluent_kafka.schema_registry.error import SchemaRegistryError
        from httpx2 import HTTPError

        try:
            return call()
        except SchemaRegistryError as error:
            if error.error_code == _NO_SUCH_SCHEMA:
                return None
            line = self._line(str(error.error_message))
            passes = error.http_status_code in _PASSES
            raise (InfrastructureError if passes else ConfigurationError)(line) from None
        except HTTPError as error:
            raise InfrastructureError(self._line(str(error))) from None

    def _line(self, text: str) -> str:
        """Return an error as a line; the text of a client or proxy may have the whole address."""
        return f"schema registry {self._url}: {without_password(self._address, text)}"
