"""Encoders for the rows of ports: every writer produces the same bytes.

See docs/schemas.md.
"""

from collections.abc import Iterable, Mapping

from tidemark.core.operators.ports import DEAD
from tidemark.plan.physical import OperatorPlan, PortPlan
from tidemark.runtime.client.schema_registry import with_registry
from tidemark.runtime.config import Config
from tidemark.serde.avro_results import AvroEncoder
from tidemark.serde.dead_letters import DeadLetterEncoder
from tidemark.serde.json_results import JsonEncoder

Encoder = JsonEncoder | AvroEncoder | DeadLetterEncoder


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
    if port.port.kind == DEAD:
        return DeadLetterEncoder(port.port)
    if port.format == "json":
        return JsonEncoder(port.port)
    return AvroEncoder(port.topic, port.port)
