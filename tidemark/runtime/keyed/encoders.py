"""The rows of ports as messages: every writer produces the same bytes.

See docs/schemas.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from tidemark.plan.physical import OperatorPlan, PortPlan
from tidemark.runtime.client.schema_registry import with_registry
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.oversized import without_oversized
from tidemark.serde.avro_results import AvroEncoder
from tidemark.serde.dead_letters import DeadLetterEncoder, encode_dead_letters
from tidemark.serde.json_results import JsonEncoder

Encoder = JsonEncoder | AvroEncoder | DeadLetterEncoder

Column = Sequence[bytes | None]

Encoders = Mapping[tuple[str, str], Encoder]
"""Encoders by names of operator and port."""


def encoders(config: Config, operators: Iterable[OperatorPlan]) -> Encoders:
    """Return an encoder for each port of operators; register Avro schemas, if configured.

    Raises:
        ConfigurationError: the registry refuses a schema.
        InfrastructureError: the registry cannot be reached.
    """
    ports = {(plan.name, each.port.name): each for plan in operators for each in plan.ports}
    found = {name: encoder_of(each) for name, each in ports.items()}
    types = {ports[name].topic: each.avro for name, each in found.items()}
    with_registry(config, {topic: avro for topic, avro in types.items() if avro is not None})
    return found


def encoder_of(port: PortPlan) -> Encoder:
    """Return the encoder for the rows of a port."""
    if port.port.is_dead_letters:
        return DeadLetterEncoder(port.port, port.topic)
    if port.format == "json":
        return JsonEncoder(port.port)
    return AvroEncoder(port.topic, port.port)


class Messages(NamedTuple):
    """The rows of a port, as keys and values for each topic.

    ``published``: for the topic of the port.  ``dead``: for the dead-letter topic.
    ``oversized_reasons``: those of rows among the dead that fit no message.
    """

    published: tuple[Column, Column]
    dead: tuple[Column, Column]
    oversized_reasons: Sequence[str]


def messages(
    encoders: Encoders, operator: str, port: PortPlan, at: int, rows: pl.DataFrame
) -> Messages:
    """Return the rows of an operator's port as messages; ``at``: the number of the partition."""
    encoder = encoders[operator, port.port.name]
    if isinstance(encoder, DeadLetterEncoder):
        return Messages(((), ()), encoder.encode(rows, at), ())
    keys, values = encoder.encode(rows)
    keys, values, letters = without_oversized(port, at, keys, values)
    return Messages((keys, values), encode_dead_letters(letters), [each.reason for each in letters])
