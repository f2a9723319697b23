"""Confluent's wire format for Avro results: the schema's id in the registry, then the body.

If a schema registry is set, a service registers the schemas of its results when it starts, under
``<topic>-value``.  The registry decides whether they are compatible with the versions before.
See docs/schemas.md, "Registry".
"""

import json
from collections.abc import Mapping
from typing import Any

from tidemark.errors import ConfigurationError, InfrastructureError, without_password
from tidemark.runtime.config import Config
from tidemark.serde.avro import AvroType

_MAGIC = b"\x00"
_NUMBER_BYTES = 4
_TIMEOUT_S = 10.0
_REFUSALS = (401, 403, 409, 422)


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


def _client(config: Config) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"TIDEMARK_SCHEMA_REGISTRY: {error.name} is not installed: "
            "pip install 'tidemark-streams[registry]'"
        ) from None
    settings: dict[str, Any] = {"url": config.schema_registry, "timeout": _TIMEOUT_S}
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
